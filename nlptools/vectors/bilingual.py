"""Bilingual dictionaries: pairs of words from a file, their places in two tables, parts held out, translations ranked.

A line holds a word and its translation, separated by a tab or by spaces (the form of MUSE, Conneau et al. 2018); a word
with several translations stands on several lines. Precision at k is theirs, too: the share of words of which one of
the translations is among the k best candidates, over words that have a vector and a translation with a vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nlptools import messages
from nlptools.errors import DataError, UsageError
from nlptools.files import line_records, streams
from nlptools.metrics.metric import Evaluation, Sums
from nlptools.vectors import csls
from nlptools.vectors.csls import Places
from nlptools.vectors.table import Floats, Vectors

Pairs = Sequence[tuple[str, str]]
DEPTH = 10  # ranks are known down to this one
CUTOFFS = (1, 5, 10)


def read_dictionary(path: str, errors: str = "strict") -> list[tuple[str, str]]:
    """The pairs of a file, in order. Empty lines are skipped.

    Raises:
        InputError: no such file.
        DataError: a line that holds no two words, with its number, or no line at all.
    """
    pairs = []
    for number, line in enumerate(streams.lines(path, errors), 1):
        if not line or line.isspace():
            continue
        words = line_records.fields(line) if "\t" in line else [part for part in line.split(" ") if part]
        if len(words) != 2 or not all(words):
            raise DataError(
                f"expected a word and its translation, separated by a tab or a space; found {len(words)} fields",
                path=path,
                line=number,
                hint="words that hold spaces are separated by a tab",
            )
        pairs.append((words[0], words[1]))
    if not pairs:
        raise DataError("no pairs of words", path=path)
    return pairs


@dataclass(frozen=True)
class Known:
    """The part of a dictionary that two tables know.

    Attributes:
        places: rows of source and target, int64 (P, 2), sorted, without repetitions.
        pairs, words: how many pairs, and words of the source, the dictionary has; without repetitions.
    """

    places: Places
    pairs: int
    words: int

    @property
    def known_words(self) -> int:
        """How many words of the source have a translation in the tables."""
        return len(np.unique(self.places[:, 0]))


def look_up(pairs: Pairs, source: Vectors, target: Vectors, restrict: int = 0) -> Known:
    """The places of `pairs` among the first `restrict` words (0: all) of each table."""
    distinct = set(pairs)
    found = []
    for one, two in distinct:
        first, second = source.words.place(one), target.words.place(two)
        if first is None or second is None or (restrict and max(first, second) >= restrict):
            continue
        found.append((first, second))
    places = np.array(sorted(found), np.int64).reshape(-1, 2)
    return Known(places, len(distinct), len({one for one, _ in distinct}))


def coverage(known: Known, name: str) -> str:
    """How much of a dictionary the tables know, in words."""
    return (
        f"{name}: {len(known.places):,} of {known.pairs:,} pairs in the vocabularies "
        f"({known.known_words:,} of {known.words:,} words)"
    )


def warn_seen(learned: Known, test: Known) -> None:
    """Warn of words to test on that stand in the dictionary that is learned from."""
    seen = len(np.intersect1d(learned.places[:, 0], test.places[:, 0]))
    if seen:
        messages.warn(f"{seen:,} of {test.known_words:,} words to test on are in the dictionary that is learned from")


def hold_out(known: Known, amount: float, seed: int) -> tuple[Known, Known]:
    """(the rest, what is held out) of a dictionary: all pairs of some words of the source, drawn by `seed`.

    Args:
        amount: below 1 a share of the words, else their number.

    Raises:
        UsageError: nothing would be left to learn from, or nothing would be held out.
    """
    words = np.unique(known.places[:, 0])
    count = round(amount * len(words)) if amount < 1 else int(amount)
    if not 0 < count < len(words):
        raise UsageError(f"{count:,} of {len(words):,} words cannot be held out: both parts need words")
    drawn = np.random.default_rng(seed).permutation(words)[:count]
    out = np.isin(known.places[:, 0], drawn)
    return Known(known.places[~out], int((~out).sum()), len(words) - count), Known(
        known.places[out], int(out.sum()), count
    )


def ranks(places: Places, source: Floats, target: Floats, hubness: Floats | None = None) -> Places:
    """The rank of the best translation of each word, int64 (W,), by the word's row; 0 where it is below DEPTH.

    Args:
        places: rows of source and target that translate each other, int64 (P, 2), sorted.
        source, target: float32 (N, D), of length 1, in one space.
        hubness: as for `csls.retrieve`.
    """
    words, index = np.unique(places[:, 0], return_inverse=True)
    if not len(words):
        return np.empty(0, np.int64)
    _, found = csls.retrieve(source[words], target, DEPTH, hubness)
    size = np.int64(len(target))
    right = np.isin(found + np.arange(len(words))[:, None] * size, places[:, 1] + index * size)
    return np.asarray(np.where(right.any(axis=1), right.argmax(axis=1) + 1, 0), np.int64)


def precision(ranked: Mapping[str, Places], signature: Sequence[tuple[str, str]] = ()) -> Evaluation:
    """Precision at 1, 5 and 10 of each way of retrieval, `precision@1:csls`, from the ranks of the same W words.

    Args:
        ranked: way of retrieval -> ranks (W,), as `ranks` gives them.
        signature: how they were made, (key, value) in order.
    """
    hits = np.stack([(found > 0) & (found <= k) for found in ranked.values() for k in CUTOFFS], axis=1)
    names = tuple(f"precision@{k}:{way}" for way in ranked for k in CUTOFFS)
    rows = Sums(hits, counted=True)
    return Evaluation(names, rows, lambda sums: sums[:, :-1] / np.maximum(1, sums[:, -1:]), "words", tuple(signature))
