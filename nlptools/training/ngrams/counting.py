"""Counts of the n-grams of a text, level by level, with sorting of integers.

A level is sorted by words, so that the n-grams that continue a shorter one stand together; see `models.language.ngram` for
the keys. Shapes: T tokens, G n-grams of one length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlptools.corpora.columns import Column
from nlptools.models.language.ngram import Longs, NGramConfig

Numbers = NDArray[Any] | Column  # in memory or in a file


@dataclass(frozen=True, eq=False)
class CountedLevel:
    """The n-grams of one length, with their counts, in memory or in files.

    Attributes:
        keys: (G,) int64, sorted, see `ngram.Level`.
        counts: (G,) int64, how often each occurs.
        suffixes: (G,) int64, the index, one level below, of the n-gram without its first word; for single words 0.
        starts: the first index of an n-gram that begins with <s>, and the one after the last.
    """

    keys: Numbers
    counts: Numbers
    suffixes: Numbers
    starts: tuple[int, int]

    def __len__(self) -> int:
        return len(self.keys)


def count(ids: Longs, config: NGramConfig, lead: int = 0) -> list[CountedLevel]:
    """The n-grams of up to `config.order` words in a text.

    Args:
        ids: (T,) int64, word ids; each sentence begins with <s> and ends with </s>; no n-gram spans two sentences.
        lead: the first ids only precede the others: n-grams that end in them are there, but not counted.

    Returns:
        A level for each length; all V words are in the first, also those that do not occur.
    """
    V, order, bos = config.vocab_size, config.order, config.bos
    words, zeros = np.arange(V), np.zeros(V, np.int64)
    levels = [CountedLevel(words, np.bincount(ids[lead:], minlength=V), zeros, (bos, bos + 1))]
    index: Longs = ids  # of the n-gram that ends at each place
    ends = np.flatnonzero(ids[1:] != bos) + 1  # of the n-grams that lie in one sentence
    for n in range(2, order + 1):
        keys = index[ends - 1] * V + ids[ends]
        uncounted = keys[: np.searchsorted(ends, lead)]
        keys, ranks = _sorted(keys)
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        counts = np.diff(first, append=len(keys))
        keys = keys[first]
        suffixes = index[ends[ranks[first]]]
        if n < order:
            index = np.full(len(ids), -1, np.int64)
            index[ends[ranks]] = np.repeat(np.arange(len(keys)), counts)
            ends = ends[index[ends - 1] >= 0]
        np.subtract.at(counts, np.searchsorted(keys, uncounted), 1)
        levels.append(CountedLevel(keys, counts, suffixes, below_starts(keys, levels[-1].starts, V)))
    return levels


def _sorted(keys: Longs) -> tuple[Longs, Longs]:
    """Keys (N,) in rising order, and the place of each before.

    Where both fit into one number, numbers are sorted: np.argsort takes twice the time.
    """
    N = len(keys)
    if not N or (int(keys.max()) + 1) * N > 1 << 64:
        ranks = np.argsort(keys)
        return keys[ranks], ranks
    both = keys.view(np.uint64) * np.uint64(N)
    both += np.arange(N, dtype=np.uint64)
    both.sort()
    rising, places = np.divmod(both, np.uint64(N))
    return rising.view(np.int64), places.view(np.int64)


def below_starts(keys: Numbers, starts: tuple[int, int], V: int) -> tuple[int, int]:
    """The range of the n-grams that continue those of the range `starts`, one level below."""
    low, high = (bisect_left(keys, place * V) for place in starts)
    return low, high


@dataclass(frozen=True, eq=False)
class Span:
    """Some n-grams of a level, with all their contexts.

    Attributes:
        start, end: indices of the n-grams.
        contexts: (end - start,) index of each n-gram's context, from `first` on.
        first, last: indices of the contexts, those between that nothing follows included; `last` is the one after.
        words: (end - start,) the last words.
    """

    start: int
    end: int
    contexts: Longs
    first: int
    last: int
    words: Longs


def spans(levels: Sequence[CountedLevel], n: int, V: int, rows: int) -> Iterator[Span]:
    """The n-grams of `n` words, about `rows` at a time, those of one context together; at least one span."""
    level, G = levels[n - 1], len(levels[n - 1])
    if n == 1:
        yield Span(0, G, np.zeros(G, np.int64), 0, 1, level.keys[:])
        return
    start, first, contexts = 0, 0, len(levels[n - 2])
    while True:
        end, last = min(start + rows, G), contexts
        if end < G:
            last = int(level.keys[end - 1]) // V + 1
            end = bisect_left(level.keys, last * V, lo=end)
            last = last if end < G else contexts
        parents, words = np.divmod(level.keys[start:end], V)
        yield Span(start, end, parents - first, first, last, words)
        if end == G:
            return
        start, first = end, last
