"""Bilingual dictionaries: reading them, finding their words in two tables, holding parts out, ranking translations.

A line has a word and its translation, separated by a tab or by spaces (the format of MUSE, Conneau et al. 2018); a word
with several translations has several lines. Precision at k is also from there: the share of words with a translation among the
k best candidates, over the words that have a vector and a translation with a vector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nlptools import messages
from nlptools.arrays import Floats, Longs
from nlptools.errors import DataError, UsageError
from nlptools.files import line_records, streams
from nlptools.files.layout_names import named_layout
from nlptools.metrics.metric import Evaluation, means
from nlptools.vectors import csls
from nlptools.vectors.table import Vectors

Pairs = Sequence[tuple[str, str]]
DEPTH = 10  # the last rank that is computed
CUTOFFS = (1, 5, 10)


def read_dictionary(path: str, errors: str = "strict") -> list[tuple[str, str]]:
    """The pairs of a file, in order: between tabs or spaces, in .csv files between commas. Empty lines are skipped.

    Raises:
        InputError: no such file.
        DataError: a line does not have two words (names it), or there is no line.
    """
    pairs = []
    for number, line in enumerate(streams.lines(path, errors), 1):
        if not line or line.isspace():
            continue
        words = _words(line, path)
        if len(words) != 2 or not all(words):
            raise DataError(
                f"expected a word and its translation, separated by a tab or a space; found {len(words)} fields",
                path=path,
                line=number,
                hint="a tab separates words with spaces, and a comma in files with a name in .csv",
            )
        pairs.append((words[0], words[1]))
    if not pairs:
        raise DataError("no pairs of words", path=path)
    return pairs


def _words(line: str, path: str) -> list[str]:
    if "\t" in line:
        return line_records.fields(line)
    if named_layout(path) == "csv":
        return line_records.csv_fields(line)
    return [part for part in line.split(" ") if part]


@dataclass(frozen=True)
class Known:
    """The part of a dictionary with words of two tables.

    Attributes:
        places: rows of source and target, int64 (P, 2), sorted, without repetitions.
        pairs, words: number of different pairs, and words of the source, in the whole dictionary.
    """

    places: Longs
    pairs: int
    words: int

    @property
    def known_words(self) -> int:
        """Number of words of the source with a translation in the tables."""
        return len(np.unique(self.places[:, 0]))


def look_up(pairs: Pairs, source: Vectors, target: Vectors, restrict: int = 0) -> Known:
    """The places of `pairs` among the first `restrict` words (0: all) of each table."""
    distinct = set(pairs)
    known = []
    for one, two in distinct:
        first, second = source.words.place(one), target.words.place(two)
        if first is None or second is None or (restrict and max(first, second) >= restrict):
            continue
        known.append((first, second))
    places = np.array(sorted(known), np.int64).reshape(-1, 2)
    return Known(places, len(distinct), len({one for one, _ in distinct}))


def coverage(known: Known, name: str) -> str:
    """A sentence about how much of a dictionary is in the tables."""
    return (
        f"{name}: {len(known.places):,} of {known.pairs:,} pairs in the vocabularies "
        f"({known.known_words:,} of {known.words:,} words)"
    )


def warn_seen(learned: Known, test: Known) -> None:
    """Warn about words that are both in the test set and in the dictionary that is learned from."""
    seen = len(np.intersect1d(learned.places[:, 0], test.places[:, 0]))
    if seen:
        messages.warn(f"{seen:,} of {test.known_words:,} test words are in the dictionary that is learned from")


def hold_out(known: Known, amount: float, seed: int) -> tuple[Known, Known]:
    """Split a dictionary into (the rest, the held-out part): all pairs of some words of the source, drawn by `seed`.

    Args:
        amount: a share of the words if below 1, else their number.

    Raises:
        UsageError: one of the parts would be empty.
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


def ranks(places: Longs, source: Floats, target: Floats, hubness: Floats | None = None) -> Longs:
    """The rank of the best translation of each word, int64 (W,), by the word's row; 0 if it is beyond DEPTH.

    Args:
        places: rows of source and target that are translations, int64 (P, 2), sorted.
        source, target: float32 (N, D), of length 1, in one space.
        hubness: as for `csls.retrieve`.
    """
    words, index = np.unique(places[:, 0], return_inverse=True)
    if not len(words):
        return np.empty(0, np.int64)
    _, best = csls.retrieve(source[words], target, DEPTH, hubness)
    size = np.int64(len(target))
    right = np.isin(best + np.arange(len(words))[:, None] * size, places[:, 1] + index * size)
    return np.asarray(np.where(right.any(axis=1), right.argmax(axis=1) + 1, 0), np.int64)


def precision(ranked: Mapping[str, Longs], signature: Sequence[tuple[str, str]] = ()) -> Evaluation:
    """Precision at 1, 5 and 10 of each way of retrieval, `precision@1:csls`, from the ranks of the same W words.

    Args:
        ranked: way of retrieval -> ranks (W,); see `ranks`.
        signature: how they were computed, (key, value) in order.
    """
    hits = np.stack([(rank > 0) & (rank <= k) for rank in ranked.values() for k in CUTOFFS], axis=1)
    names = tuple(f"precision@{k}:{way}" for way in ranked for k in CUTOFFS)
    return means(names, hits, "words", tuple(signature))
