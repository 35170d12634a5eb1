"""Counts in model directories, so that models of the parts of a text can be merged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nlptools import bundle
from nlptools.corpora import columns
from nlptools.corpora.columns import Column
from nlptools.corpora.token_file import TextCounts
from nlptools.errors import BundleError, UsageError, display
from nlptools.files import artifacts, run_paths
from nlptools.files.json_fields import child, whole
from nlptools.models.language.ngram import NGramConfig
from nlptools.text import tokenizer as tokenizers
from nlptools.text.tokenizer import Tokenizer
from nlptools.training.ngrams.counting import CountedLevel
from nlptools.training.ngrams.runs import CountedPart

FILE = "counts.safetensors"


def save(folder: Path, levels: Sequence[CountedLevel]) -> str:
    """Write the counts into a model directory; returns the name of the file. Raises StreamError."""
    named = {f"keys.{n}": level.keys for n, level in enumerate(levels, 1)}
    named |= {f"counts.{n}": level.counts for n, level in enumerate(levels, 1)}
    columns.save(folder / FILE, named)
    return FILE


def load(path: str, tokenizer: Tokenizer, config: NGramConfig) -> tuple[CountedPart, TextCounts]:
    """The counts of n-grams of up to `config.order` words in the directory of a model, and the sizes of its text.

    Raises:
        InputError, BundleError: not a model directory, or damaged.
        UsageError: a model without counts, of other words, or of a lower order.
    """
    folder, name = Path(path), display(path)
    run_paths.restore(folder)
    bundle.check_directory(folder)
    if not bundle.is_ngram(folder) or not (folder / FILE).is_file():
        raise UsageError(
            f"--merge {name}: has no counts of n-grams", hint="train-lm --arch ngram --keep-counts keeps them"
        )
    artifacts.verify(folder)
    theirs = bundle.ngram_config(artifacts.read_json(folder / "config.json"))
    vocab, ours = tokenizers.load_path(folder).vocab, tokenizer.vocab
    assert ours is not None
    if (
        vocab is None
        or vocab.tokens != ours.tokens
        or (theirs.vocab_size, theirs.bos) != (config.vocab_size, config.bos)
    ):
        raise UsageError(
            f"--merge {name}: its vocabulary differs from the vocabulary of --tokenizer",
            hint="train the parts with one vocabulary: --vocab FILE, which build-vocab writes",
        )
    if theirs.order < config.order:
        raise UsageError(f"--merge {name}: has counts of up to {theirs.order} words, --order {config.order} needs more")
    found = columns.open_columns(folder / FILE)
    run = CountedPart([], [])
    for n in range(1, config.order + 1):
        keys, counts = found.get(f"keys.{n}"), found.get(f"counts.{n}")
        below = len(run.keys[-1]) if run.keys else 1
        if keys is None or counts is None or not _fit(keys, counts, config.vocab_size, below, n):
            raise BundleError(f"{display(str(folder / FILE))}: damaged: the {n}-grams do not fit the configuration")
        run.keys.append(keys)
        run.counts.append(counts)
    return run, _sizes(folder)


def _fit(keys: Column, counts: Column, V: int, below: int, n: int) -> bool:
    """Whether columns are the keys of `n`-grams, above `below` shorter ones, and their counts."""
    if {keys.dtype, counts.dtype} != {np.dtype(np.int64)} or len(keys) != len(counts) or (n == 1 and len(keys) != V):
        return False
    last = -1
    for some, numbers in zip(columns.pieces(keys), columns.pieces(counts), strict=True):
        if (np.diff(some, prepend=last) <= 0).any() or (numbers < 0).any():
            return False
        last = int(some[-1])
    return last < below * V


def _sizes(folder: Path) -> TextCounts:
    """The sizes of the text that a model was trained on. Raises BundleError."""
    where = display(str(folder / "training.json"))
    sizes = child(child(artifacts.read_json(folder / "training.json"), "data", where), "train", where)
    return TextCounts(**{name: whole(sizes, name, where) for name in vars(TextCounts())})
