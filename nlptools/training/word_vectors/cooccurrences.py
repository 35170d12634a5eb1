"""Co-occurrence counts of word pairs from token ids, sparse and in bounded memory.

Pennington et al. 2014, "GloVe: Global vectors for word representation" (D14-1162), section 4.2: a pair of words at distance d
counts 1/d if d is at most the window; windows end with the sequence, and out-of-vocabulary words have been removed.

Each stretch of text is counted into a run, a file of distinct pairs and their sums; the runs are then merged, one range of
keys at a time. The key of a pair is its number, scrambled by a one-to-one map: so ranges of equal width hold about the same
number of pairs, and the order of the pairs is independent of their words, as training needs it. The same text gives the same
bytes for any number of processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nlptools.arrays import Array, Floats
from nlptools.errors import DataError, StreamError, UsageError, reason
from nlptools.training.word_vectors.processes import deal

Keys = NDArray[np.uint64]

PAIR = np.dtype([("row", "<i4"), ("column", "<i4"), ("count", "<f4")])
BLOCK = 1 << 16  # tokens processed at a time
RUN = 1 << 24  # approximate number of token pairs in a run
RANGE = 1 << 22  # approximate number of entries merged at a time, over all runs
_ODD = 0x9E3779B97F4A7C15  # 2^64 divided by the golden ratio


@dataclass(frozen=True)
class Cooccurrences:
    """Counts of word pairs.

    Attributes:
        pairs: records of `PAIR`, memory-mapped, in scrambled order, each pair once. If `symmetric`, row <= column, and the
            count also holds for (column, row); otherwise column is the word to the left of row.
    """

    pairs: Array
    symmetric: bool


def count(
    ids: Array,
    words: int,
    path: Path,
    *,
    window: int,
    symmetric: bool = True,
    weighted: bool = True,
    workers: int = 1,
) -> Cooccurrences:
    """Count the pairs of a text into the file `path`, with temporary files of runs in the same directory.

    Args:
        ids: int32 token ids; the id `words` ends a sequence, see `nlptools.corpora.word_sequences`.
        window: maximum distance between the words of a pair.
        symmetric: count each word as context of the other; otherwise only the left one as context of the right one.
        weighted: a pair at distance d counts 1/d; otherwise 1.
        workers: number of processes.

    Raises:
        DataError: no sequence has two words.
        UsageError: too many words for this window.
        StreamError: disk full or another write error.
    """
    scrambling = _Scrambling(words, window)
    stretch = max(1, RUN // window)  # tokens of a run
    total = -(-len(ids) // stretch)
    runs = [Path(f"{path}.run{number}") for number in range(total)]
    weights = 1 / np.arange(1, window + 1) if weighted else np.ones(window)

    def work(number: int, rank: int) -> None:
        packed = _occurrences(
            ids, number * stretch, window, symmetric, scrambling, min(len(ids), (number + 1) * stretch)
        )
        packed.sort()
        keys, sums = reduced(packed >> scrambling.shift, weights[packed & scrambling.low])
        with open(runs[number], "wb") as out:
            keys.tofile(out)
            sums.tofile(out)

    try:
        deal(0, total, min(workers, max(1, total)), work)
        _merge(runs, path, symmetric, scrambling)
    except OSError as error:
        raise StreamError(f"{path}: write failed: {reason(error)}") from None
    finally:
        for run in runs:
            run.unlink(missing_ok=True)
    if not os.path.getsize(path):
        raise DataError("no two words of the vocabulary occur in the same sequence: nothing to count")
    return Cooccurrences(np.memmap(path, PAIR, "r"), symmetric)


class _Scrambling:
    """A one-to-one map from pairs to keys; the distance of a pair is packed into the low bits below its key."""

    def __init__(self, words: int, window: int) -> None:
        self.words = np.uint64(words)
        self.bits = max(2, (words * words - 1).bit_length())  # of a key
        self.shift = np.uint64((window - 1).bit_length())  # of a distance
        if self.bits + int(self.shift) > 64:
            raise UsageError(f"{words:,} words are too many for --window {window}", hint="use a higher --min-count")
        self.low = np.uint64((1 << int(self.shift)) - 1)
        self._mask = np.uint64((1 << self.bits) - 1)
        self._half = np.uint64(-(-self.bits // 2))
        self._odd = np.uint64(_ODD)
        self._inverse = np.uint64(pow(_ODD, -1, 1 << 64))

    def key(self, rows: Keys, columns: Keys) -> Keys:
        """The keys of pairs: two multiplications, with the high half folded onto the low half in between."""
        keys = (rows * self.words + columns) * self._odd & self._mask
        keys ^= keys >> self._half
        keys *= self._odd
        keys &= self._mask
        return keys

    def pair(self, keys: Keys) -> tuple[Keys, Keys]:
        """(rows, columns) of keys: the inverse of `key`."""
        keys = keys * self._inverse & self._mask
        keys ^= keys >> self._half
        keys = keys * self._inverse & self._mask
        return keys // self.words, keys % self.words


def _occurrences(ids: Array, start: int, window: int, symmetric: bool, scrambling: _Scrambling, end: int) -> Keys:
    """For each pair of tokens with the right one in `start` to `end`: its key, and its distance - 1 in the low bits."""
    result = np.empty((end - start) * window, np.uint64)
    filled = 0
    for first in range(start, end, BLOCK):
        before = max(0, first - window)
        tokens = np.asarray(ids[before : min(first + BLOCK, end)]).astype(np.uint64)
        ends = tokens == scrambling.words
        sequence = ends.cumsum()
        sequence[ends] = -1 - np.arange(int(ends.sum()))  # an end is a separate sequence
        for distance in range(1, min(window, len(tokens) - 1) + 1):
            at = max(first - before, distance)
            right, left = tokens[at:], tokens[at - distance : len(tokens) - distance]
            if symmetric:
                left, right = np.maximum(left, right), np.minimum(left, right)
            packed = scrambling.key(right, left) << scrambling.shift | np.uint64(distance - 1)
            together = sequence[at:] == sequence[at - distance : len(tokens) - distance]
            packed = packed[together]
            result[filled : filled + len(packed)] = packed
            filled += len(packed)
    return result[:filled]


def reduced(keys: Keys, counts: Floats) -> tuple[Keys, Floats]:
    """Each of the sorted keys once, with the sum of its counts."""
    if not len(keys):
        return keys, counts
    new = np.empty(len(keys), bool)
    new[0] = True
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    return keys[starts], np.add.reduceat(counts, starts)


def _merge(runs: list[Path], path: Path, symmetric: bool, scrambling: _Scrambling) -> None:
    """Write the pairs of all runs."""
    with open(path, "wb") as out:
        for keys, sums in _ranges(runs, scrambling.bits):
            rows, columns = scrambling.pair(keys)
            pairs = np.empty(len(keys), PAIR)
            pairs["row"], pairs["column"] = rows, columns
            if symmetric:
                sums[rows == columns] *= 2  # each of two equal words is a context of the other
            pairs["count"] = sums
            pairs.tofile(out)


def _ranges(runs: list[Path], bits: int) -> Iterator[tuple[Keys, Floats]]:
    """(keys, sums) of all runs, merged, in ranges of keys."""
    if not runs:
        return
    sizes = [os.path.getsize(run) // 16 for run in runs]
    pieces = max(1, sum(sizes) // RANGE)
    limits = np.array([(place << bits) // pieces for place in range(1, pieces)], np.uint64)
    places = []  # the limits of the ranges in each run
    for run, size in zip(runs, sizes, strict=True):
        keys = np.memmap(run, np.uint64, "r", shape=(size,)) if size else np.empty(0, np.uint64)
        places.append([0, *np.searchsorted(keys, limits).tolist(), size])
    for piece in range(pieces):
        parts = [(run, size, at[piece], at[piece + 1]) for run, size, at in zip(runs, sizes, places, strict=True)]
        keys = np.concatenate([np.fromfile(run, np.uint64, b - a, offset=8 * a) for run, _, a, b in parts])
        sums = np.concatenate([np.fromfile(run, np.float64, b - a, offset=8 * (n + a)) for run, n, a, b in parts])
        if len(parts) > 1:
            order = np.argsort(keys, kind="stable")  # fast, because each run is sorted already
            keys, sums = reduced(keys[order], sums[order])
        yield keys, sums
