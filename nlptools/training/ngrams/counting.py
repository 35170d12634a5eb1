"""Counts of the n-grams of a text, level by level, with sorting of integers.

A level is sorted by words, so that the n-grams that continue a shorter one stand together; see `models.language.ngram` for
the keys. Shapes: T tokens, G n-grams of one length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nlptools.models.language.ngram import Longs, NGramConfig


@dataclass(frozen=True, eq=False)
class CountedLevel:
    """The n-grams of one length, with their counts.

    Attributes:
        keys: (G,) int64, sorted, see `ngram.Level`.
        counts: (G,) int64, how often each occurs.
        suffixes: (G,) int64, the index, one level below, of the n-gram without its first word; for single words 0.
        starts_sentence: (G,) bool, whether the first word is <s>.
    """

    keys: Longs
    counts: Longs
    suffixes: Longs
    starts_sentence: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.keys)

    def parents(self, V: int) -> Longs:
        """(G,) the index, one level below, of the n-gram without its last word."""
        return self.keys // V

    def words(self, V: int) -> Longs:
        """(G,) the last words."""
        return self.keys % V


def count(ids: Longs, config: NGramConfig) -> list[CountedLevel]:
    """The n-grams of up to `config.order` words in a text.

    Args:
        ids: (T,) int64, word ids; each sentence begins with <s> and ends with </s>; no n-gram spans two sentences.

    Returns:
        A level for each length; all V words are in the first, also those that do not occur.
    """
    V, order, bos = config.vocab_size, config.order, config.bos
    words = np.arange(V)
    levels = [CountedLevel(words, np.bincount(ids, minlength=V), np.zeros(V, np.int64), words == bos)]
    index: Longs = ids  # of the n-gram that ends at each place
    ends = np.flatnonzero(ids != bos)  # of the n-grams that lie in one sentence
    for n in range(2, order + 1):
        keys = index[ends - 1] * V + ids[ends]
        ranks = np.argsort(keys)
        keys = keys[ranks]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        counts = np.diff(first, append=len(keys))
        keys = keys[first]
        below = levels[-1]
        levels.append(CountedLevel(keys, counts, index[ends[ranks[first]]], below.starts_sentence[keys // V]))
        if n < order:
            index = np.full(len(ids), -1, np.int64)
            index[ends[ranks]] = np.repeat(np.arange(len(keys)), counts)
            ends = ends[index[ends - 1] >= 0]
    return levels
