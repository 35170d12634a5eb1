"""The places of a text, sorted by the n-grams that begin there, for one more word at a time.

Places with equal first words are consecutive. So they can be sorted in parts, each by a separate thread and in the cache of its
processor. Where an n-gram occurs once, its place keeps its position for all longer n-grams.
Shapes: T tokens, V words, P places of a part, G different n-grams of a part.
"""

from __future__ import annotations

import numpy as np

from nlptools.arrays import Array, Ints, Longs
from nlptools.models.language.key_table import rising_order

PLACES = 1 << 16  # approximate number in a part; all places of a word are in one part


class NGramPlaces:
    """The places of some words, sorted by the n-grams that begin there; n = 1 at first.

    Attributes:
        places: (P,) int32; int64 in a text of more than 2^31 tokens.
        index: (P,) the n-gram at each place, as a number below G; for n = 1 the word.
        keys: (G,) int64, the n-grams, rising: the number of the first n - 1 words times V plus the last word.
        counts: (G,) int64, the occurrences of each.
        firsts: (G,) one place of each.
        start, contexts: number of n-grams, and of shorter ones, in earlier parts; 0 for words.
    """

    def __init__(self, places: Array, words: Array) -> None:
        self.places, self.index = places, words
        self.keys = self.counts = self.firsts = np.zeros(0, np.int64)
        self.start = self.contexts = 0

    def extend(self, n: int, words: Ints, V: int, bos: int, lead: int) -> None:
        """Sort by n-grams of `n` words, after n-grams of n - 1 words.

        Args:
            words: (T + n,) the text; `bos` begins each sentence, which no n-gram crosses, and fills the end.
            lead: number of first words; n-grams that end there are listed with the count 0.
        """
        last = words.take(self.places + (n - 1))
        inside = np.flatnonzero(last != bos)
        places, contexts = self.places.take(inside), self.index.take(inside)
        keys = contexts * np.int64(V)
        keys += last.take(inside)
        several = np.arange(len(keys)) if n == 2 else _repeated(contexts)
        ranks = several.take(rising_order(keys.take(several)))
        keys[several], places[several] = keys.take(ranks), places.take(ranks)
        is_first = np.ones(len(keys), np.bool_)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        firsts = np.flatnonzero(is_first)
        self.places, self.index = places, np.cumsum(is_first, dtype=places.dtype) - 1
        self.keys, self.counts, self.firsts = keys.take(firsts), np.diff(firsts, append=len(keys)), places.take(firsts)
        if lead >= n:
            np.subtract.at(self.counts, self.index[places <= lead - n], 1)


def divided(words: Ints, bos: int, V: int) -> list[NGramPlaces]:
    """All places of a text that have a word after them in their sentence, see `NGramPlaces.extend`, by words."""
    part_of = np.cumsum(np.bincount(words, minlength=V)) // PLACES
    part_of = part_of.astype(np.uint16 if part_of[-1] < 1 << 16 else np.int64)  # np.argsort counts the former
    places = np.flatnonzero(words[1:] != bos)
    parts = part_of.take(words.take(places))
    places = places.take(np.argsort(parts, kind="stable")).astype(smallest_type(len(words)))
    ends = np.cumsum(np.bincount(parts))
    return [NGramPlaces(some, words.take(some).astype(some.dtype)) for some in np.split(places, ends[:-1]) if len(some)]


def smallest_type(size: int) -> type[np.int8 | np.int16 | np.int32 | np.int64]:
    """The type of numbers below `size`."""
    return np.int32 if size < 1 << 31 else np.int64


def _repeated(rising: Array) -> Longs:
    """The positions of repeated numbers in a sorted array."""
    same = np.zeros(len(rising) + 1, np.bool_)
    np.equal(rising[1:], rising[:-1], out=same[1:-1])
    return np.flatnonzero(same[1:] | same[:-1])
