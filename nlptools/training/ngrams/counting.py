"""Counts of the n-grams of a text, level by level, with sorting of integers.

A level is sorted by words, so that the continuations of a shorter n-gram are consecutive; see `models.language.ngram` for the
keys. Shapes: T tokens, G n-grams of one length.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nlptools.arrays import Array, Longs
from nlptools.corpora.columns import Column
from nlptools.files.prefetch import mapped
from nlptools.models.language.ngram import NGramConfig
from nlptools.training.ngrams import places
from nlptools.training.ngrams.places import NGramPlaces

Numbers = Array | Column  # in memory or in a file


@dataclass(frozen=True, eq=False)
class CountedLevel:
    """The n-grams of one length, with their counts, in memory or in files.

    Attributes:
        keys: (G,) int64, sorted, see `ngram.Level`.
        counts: (G,) int64, the occurrences of each.
        suffixes: (G,) int64, the index, one level below, of the n-gram without its first word; for single words 0.
        starts: the first index of an n-gram that begins with <s>, and the one after the last.
    """

    keys: Numbers
    counts: Numbers
    suffixes: Numbers
    starts: tuple[int, int]

    def __len__(self) -> int:
        return len(self.keys)


def count(ids: Longs, config: NGramConfig, lead: int = 0, threads: int = 1) -> list[CountedLevel]:
    """The n-grams of up to `config.order` words in a text.

    Args:
        ids: (T,) int64, word ids; each sentence begins with <s> and ends with </s>; no n-gram spans two sentences.
        lead: number of the first ids that only precede the others: n-grams that end there are listed with the count 0.
        threads: number of threads that sort.

    Returns:
        A level for each length. The first one has all V words, also words that do not occur.
    """
    V, order, bos = config.vocab_size, config.order, config.bos
    unigrams, zeros = np.bincount(ids[lead:], minlength=V), np.zeros(V, np.int64)
    levels = [CountedLevel(np.arange(V), unigrams, zeros, (bos, bos + 1))]
    if order == 1:
        return levels
    words = np.append(ids.astype(np.int32), np.full(order, bos, np.int32))
    parts = places.divided(words, bos, V)
    index = words.astype(places.smallest_type(len(words)))  # of the n-gram that begins at each place
    for n in range(2, order + 1):
        _each(parts, threads, partial(NGramPlaces.extend, n=n, words=words, V=V, bos=bos, lead=lead))
        keys, counts, suffixes = _joined(parts, index, V, threads)
        levels.append(CountedLevel(keys, counts, suffixes, below_starts(keys, levels[-1].starts, V)))
    return levels


def _joined(parts: Sequence[NGramPlaces], index: Array, V: int, threads: int) -> tuple[Longs, Longs, Longs]:
    """Keys, counts and suffixes of the n-grams of all parts.

    `index` (T,): the n-grams of one word less at each place; replaced by the new n-grams.
    """
    G = 0
    for part in parts:
        part.contexts, part.start = part.start, G
        G += len(part.keys)
    keys, counts, suffixes = (np.empty(G, np.int64) for _ in range(3))

    def copy(part: NGramPlaces) -> None:
        here = slice(part.start, part.start + len(part.keys))
        np.add(part.keys, part.contexts * V, out=keys[here])
        counts[here] = part.counts
        suffixes[here] = index.take(part.firsts + 1)
        part.keys = part.counts = part.firsts = keys[:0]

    def mark(part: NGramPlaces) -> None:
        index[part.places] = part.index + part.start

    _each(parts, threads, copy)
    _each(parts, threads, mark)
    return keys, counts, suffixes


def _each(parts: Sequence[NGramPlaces], threads: int, job: Callable[[NGramPlaces], None]) -> None:
    """Do a job for each part."""
    deque(mapped(job, parts, threads), maxlen=0)


def below_starts(keys: Numbers, starts: tuple[int, int], V: int) -> tuple[int, int]:
    """The range of the n-grams that continue the n-grams `starts` of the level below."""
    low, high = (bisect_left(keys, place * V) for place in starts)
    return low, high


@dataclass(frozen=True, eq=False)
class NGramSpan:
    """Some n-grams of a level, with all their contexts.

    Attributes:
        start, end: indices of the n-grams.
        contexts: (end - start,) index of each n-gram's context, from `first` on.
        first, last: the first context, and one after the last; contexts without continuation between them are included.
        words: (end - start,) the last words.
    """

    start: int
    end: int
    contexts: Longs
    first: int
    last: int
    words: Longs


def spans(levels: Sequence[CountedLevel], n: int, V: int, rows: int) -> Iterator[NGramSpan]:
    """The n-grams of `n` words in spans of about `rows`, and of whole contexts; at least one span."""
    level, G = levels[n - 1], len(levels[n - 1])
    if n == 1:
        yield NGramSpan(0, G, np.zeros(G, np.int64), 0, 1, level.keys[:])
        return
    start, first, contexts = 0, 0, len(levels[n - 2])
    while True:
        end, last = min(start + rows, G), contexts
        if end < G:
            last = int(level.keys[end - 1]) // V + 1
            end = bisect_left(level.keys, last * V, lo=end)
            last = last if end < G else contexts
        parents, words = np.divmod(level.keys[start:end], V)
        yield NGramSpan(start, end, parents - first, first, last, words)
        if end == G:
            return
        start, first = end, last
