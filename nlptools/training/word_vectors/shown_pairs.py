"""The training pairs of a text as a table, for skip-gram and CBOW (Mikolov et al. 2013, arXiv:1301.3781).

Training draws the size of each window and subsamples frequent words; the table shows whole windows and all words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from nlptools.arrays import Ints
from nlptools.configs.word_vectors import TrainW2V
from nlptools.corpora import word_sequences
from nlptools.corpora.word_sequences import Sequences
from nlptools.errors import DataError
from nlptools.files import atomic
from nlptools.files.line_records import escape
from nlptools.text.vocab import Vocab
from nlptools.training.word_vectors.negatives import Negatives

_DRAWN = 1 << 12  # pairs at a time when negatives are drawn


def pair_lines(inputs: Sequence[str], settings: TrainW2V, count: int, seed: int, errors: str) -> Iterator[str]:
    """The lines of the first `count` pairs, separated by tabs, see nlptools-train-w2v(1).

    Raises:
        DataError: no word is frequent enough, or no word has another one in its window.
        InputError, StreamError: see `word_sequences.spool`.
    """
    vocab = None if settings.vocab is None else Vocab.load(settings.vocab)
    with atomic.scratch_directory("nlptools-w2v-") as scratch:
        text = word_sequences.spool(
            inputs, scratch / "train.bin", min_count=settings.min_count, vocab=vocab, errors=errors
        )
        lines = _labelled(text, settings, count, seed) if settings.loss == "ns" else _plain(text, settings, count)
        first = next(lines, None)
        if first is None:
            raise DataError("no word has another one in its window")
        yield first
        yield from lines


def _plain(text: Sequences, settings: TrainW2V, count: int) -> Iterator[str]:
    words = [escape(word) for word in text.words]
    for given, predicted in _first(text.ids, len(words), settings, count):
        yield f"{' '.join(words[id] for id in given)}\t{words[predicted]}"


def _labelled(text: Sequences, settings: TrainW2V, count: int, seed: int) -> Iterator[str]:
    """Each pair with the label 1, then its negative samples with the label 0."""
    words = [escape(word) for word in text.words]
    device = torch.device("cpu")
    negatives = Negatives(text.counts, settings.ns_exponent, device)
    generator = torch.Generator(device).manual_seed(seed)
    drawn: list[list[int]] = []
    for given, predicted in _first(text.ids, len(words), settings, count):
        if not drawn:
            drawn = negatives.draw((_DRAWN, settings.negative), generator).tolist()
        shown = " ".join(words[id] for id in given)
        yield f"{shown}\t{words[predicted]}\t1"
        yield from (f"{shown}\t{words[id]}\t0" for id in drawn.pop())


def _first(ids: Ints, end: int, settings: TrainW2V, count: int) -> Iterator[tuple[list[int], int]]:
    """The first pairs: the words that the model sees, and the word that it predicts. The id `end` ends a sequence."""
    width, left = settings.window, count
    bounds = np.flatnonzero(ids == end)
    for start, stop in zip([0, *(bounds + 1).tolist()], [*bounds.tolist(), len(ids)], strict=True):
        sequence = ids[start:stop].tolist()
        for place, center in enumerate(sequence):
            context = [*sequence[max(0, place - width) : place], *sequence[place + 1 : place + 1 + width]]
            pairs = [(context, center)] if settings.model == "cbow" else [([center], id) for id in context]
            for pair in pairs if context else ():
                if not left:
                    return
                left -= 1
                yield pair
