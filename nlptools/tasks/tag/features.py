"""Sentences of words as rows for an encoder, and what comes out per word again: `tag` and `roles`.

Each word is tokenized by itself, so that the words of a file stay what they are; its first piece speaks for it (Devlin
et al. 2019, arXiv:1810.04805, section 5.3). A sentence that is longer than a row becomes several overlapping rows that
never cut a word, and each word is answered for by the row in which it has most context: none is ever lost. A word that
gives no piece (a lone control character) becomes the unknown token; one of more pieces than a row has is cut.

Semantic roles: `[CLS] sentence [SEP] predicate [SEP]` (Shi & Lin 2019, arXiv:1904.05255). The predicate as a second
segment is there in every row of a long sentence; which of several equal words is meant is told by the type of its
pieces in the sentence, 1 instead of 0, where Shi & Lin add an embedding of their own. So nothing is added to the
encoder, and transformers gives the same logits for the same ids and types.
Where tokens see only what is before them (a GPT), the last piece speaks for its word and the predicate comes first:
`<eos> predicate <eos> sentence`. Which of several equal words is meant is not told there, for there are no types.
Shapes: N sentences, W words of all sentences, R rows, P tokens of all rows, B batch, T length, C labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from nlptools.batches import strided_windows
from nlptools.batches.encoder_rows import Marks, Rows, Segment, bounds_of, encode_once, join, marks_of, padded, ranges
from nlptools.batches.strided_windows import Windows
from nlptools.errors import DataError, UsageError
from nlptools.text.tokenizer import Tokenizer

IGNORED = -1  # the label of what does not count


@dataclass(frozen=True)
class WordFeatures:
    """The rows of N sentences. Words are counted through all sentences, W in all."""

    rows: Rows
    sentences: np.ndarray  # (N + 1,) int64, where the words of each sentence begin, and the end
    words: np.ndarray  # (R + 1,) int64, row r answers for the words from words[r] to words[r + 1]
    first: np.ndarray  # (W,) int64, the place of the word's first piece in the row that answers for it
    pieces: np.ndarray  # (W,) int64, how many pieces it has there
    speaker: np.ndarray  # (W,) int64, the place of the piece that speaks for the word: the first, or the last
    cut_words: int  # words that were cut because they are longer than a row
    unknown_words: int  # words without pieces, which became the unknown token

    def places(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Speaking pieces of the words that the rows (B,) answer for: places (B, W) int64, and mask (B, W), True = real."""
        places = padded(self.speaker, self.words, rows, 0)
        return places, np.arange(places.shape[1]) < np.diff(self.words)[rows][:, None]

    def edges(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether the words that the rows (B,) answer for begin, and whether they end, their sentence: (B,) bool each."""
        starts, stops = self.words[rows], self.words[np.asarray(rows) + 1]
        return np.isin(starts, self.sentences), np.isin(stops, self.sentences)

    def piece_labels(self, labels: np.ndarray, all_pieces: bool = False) -> np.ndarray:
        """`labels` (W,) at the pieces of all rows, IGNORED elsewhere: (P,) int64.

        A word carries its label once, in the row that answers for it, on the piece that speaks or on all of them. `padded`
        with `rows.bounds` makes batches of them.
        """
        out = np.full(len(self.rows.ids), IGNORED, np.int64)
        starts = np.repeat(self.rows.bounds[:-1], np.diff(self.words))
        if all_pieces:
            out[ranges(starts + self.first, self.pieces)] = np.repeat(labels, self.pieces)
        else:
            out[starts + self.speaker] = labels
        return out

    def pick(self, rows: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The words that the rows (B,) answer for, and theirs of the scores (B, T, ...): (n,) int64 and (n, ...)."""
        counts = np.diff(self.words)[rows]
        words = ranges(self.words[rows], counts)
        return words, scores[np.repeat(np.arange(len(rows)), counts), self.speaker[words]]

    def merge(self, outputs: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """One score per word from those of all rows, in batches of any order: (rows (B,), scores (B, T, C)) -> (W, C).

        Raises:
            ValueError: a row is missing.
        """
        merged: np.ndarray | None = None
        done = np.zeros(len(self.first), np.bool_)
        for rows, scores in outputs:
            words, picked = self.pick(rows, scores)
            if merged is None:
                merged = np.empty((len(self.first), *picked.shape[1:]), picked.dtype)
            merged[words], done[words] = picked, True
        if not done.all():
            raise ValueError(f"{int((~done).sum())} words have no scores: a row is missing")
        return np.zeros((0, 0), np.float32) if merged is None else merged


def word_features(
    sentences: Sequence[Sequence[str]],
    tokenizer: Tokenizer,
    *,
    max_length: int,
    step: int = 0,
    predicates: Sequence[int] | None = None,
    marks: Marks | None = None,
    threads: int = 1,
) -> WordFeatures:
    """Rows for sentences of words.

    Args:
        sentences: N sequences of words; an empty one has no row.
        max_length: most tokens of a row, marks included.
        step: pieces from one row of a long sentence to the next; 0: half of what fits.
        predicates: for each sentence, the number of the word that is its predicate: see the module.
        marks: None: those that the tokenizer of an encoder has.

    Raises:
        UsageError: `max_length` leaves no room for a word, or `step` is negative.
        DataError: a predicate is not a word of its sentence.
        BundleError: the tokenizer lacks a special token.
    """
    marks = marks or marks_of(tokenizer)
    num_marks = marks.count(1 if predicates is None else 2)
    least = num_marks + (1 if predicates is None else 2)
    if max_length < least or step < 0:
        raise UsageError(f"rows of {max_length} tokens, {step} apart: expected at least {least}, and no negative step")
    counts = np.fromiter(map(len, sentences), np.int64, len(sentences))
    bounds = bounds_of(counts)
    ids, starts, sizes, unknown = _pieces(list(chain.from_iterable(sentences)), tokenizer, marks, threads)

    room = np.full(len(counts), max_length - num_marks)
    predicate = None
    if predicates is not None:
        predicate = _predicate_words(predicates, bounds)
        predicate_sizes = np.minimum(sizes[predicate], (max_length - num_marks) // 2)
        room = room - predicate_sizes
    whole = sizes
    sizes = np.minimum(sizes, np.repeat(room, counts))
    windows = strided_windows.cut(sizes, bounds, room, np.minimum(step, room) if step else (room + 1) // 2)

    flat = ids[ranges(starts, sizes)]  # the pieces of all words, one after another
    offsets = bounds_of(sizes)
    first, end = (bounds[windows.text] + place for place in (windows.first, windows.end))
    segments = [Segment(flat, offsets[first], offsets[end] - offsets[first])]
    if predicate is not None:
        of_row = predicate[windows.text]
        segments.append(Segment(ids, starts[of_row], predicate_sizes[windows.text], 1))
    order = -1 if marks.causal else 1
    rows, begins = join(marks, segments[::order])
    begin = begins[::order][0]  # where the sentence begins
    owned = bounds_of(windows.owned_end - windows.owned_first)
    of_word = np.repeat(first, np.diff(owned))  # the first word of the row that answers for it
    if predicate is not None:
        _mark_predicates(rows, windows, of_row, first, offsets, begin)
    place = np.repeat(begin, np.diff(owned)) + offsets[:-1] - offsets[of_word]
    speaker = place + sizes - 1 if marks.causal else place
    return WordFeatures(rows, bounds, owned, place, sizes, speaker, int((sizes < whole).sum()), unknown)


def _pieces(
    words: Sequence[str], tokenizer: Tokenizer, marks: Marks, threads: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """The pieces of W words: (P,) ids, (W,) where each begins among them and how many it has, and how many words had none,
    which are the unknown token then.
    """
    found, which = encode_once(tokenizer, [marks.before_word + word for word in words], threads)
    ids = np.append(found.ids, np.int32(marks.unk))
    starts, sizes = found.bounds[which], found.lengths[which]
    nothing = sizes == 0
    starts[nothing], sizes[nothing] = len(ids) - 1, 1
    return ids, starts, sizes, int(nothing.sum())


def number_labels(tags: Iterable[Sequence[str]], names: Sequence[str]) -> np.ndarray:
    """The tags of all words by their place in `names`: (W,) int64; IGNORED for one that does not stand there."""
    numbers: Mapping[str, int] = {name: number for number, name in enumerate(names)}
    return np.array([numbers.get(tag, IGNORED) for sentence in tags for tag in sentence], np.int64)


def _predicate_words(predicates: Sequence[int], bounds: np.ndarray) -> np.ndarray:
    """The predicate of each sentence, counted through all sentences: (N,)."""
    chosen = np.asarray(predicates, np.int64)
    if chosen.shape != (len(bounds) - 1,):
        raise ValueError(f"{len(chosen)} predicates for {len(bounds) - 1} sentences")
    wrong = np.flatnonzero((chosen < 0) | (chosen >= np.diff(bounds)))
    if len(wrong):
        n = int(wrong[0])
        raise DataError(
            f"the predicate of sentence {n + 1} is word {int(chosen[n])}, but the sentence has {bounds[n + 1] - bounds[n]}"
        )
    words: np.ndarray = bounds[:-1] + chosen
    return words


def _mark_predicates(
    rows: Rows, windows: Windows, predicate: np.ndarray, first: np.ndarray, offsets: np.ndarray, begin: np.ndarray
) -> None:
    """Set the type of the predicate's pieces to 1 in rows (R,) that hold it. `first`: the first word of each row; `begin`:
    the place of its first piece.
    """
    there = (predicate >= first) & (predicate < first + windows.end - windows.first)
    words = predicate[there]
    places = (rows.bounds[:-1] + begin)[there] + offsets[words] - offsets[first[there]]
    rows.types[ranges(places, offsets[words + 1] - offsets[words])] = 1
