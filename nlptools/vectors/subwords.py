"""Vectors of character n-grams, as fastText has them (Bojanowski et al. 2017).

A word, put between `<` and `>`, has n-grams of `shortest` to `longest` characters. Each is hashed (FNV-1a, 32 bits) to one
of the rows. The vector of a word is the mean of these rows and, inside the vocabulary, its own row. fastText sign-extends
each byte before hashing it, which changes every n-gram outside ASCII; so does this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nlptools.arrays import Array, Floats, Longs
from nlptools.vectors.rows import BLOCK_NUMBERS, Places, index

END_OF_SENTENCE = "</s>"  # fastText's name for it; it has no n-grams
_OFFSET, _PRIME = np.uint32(2166136261), np.uint32(16777619)


@dataclass
class Subwords:
    """The rows of n-grams and, if the file has them, other results of training.

    Attributes:
        shortest, longest: lengths of n-grams in characters.
        buckets: float32 (B, D), the rows that n-grams are hashed to.
        own: float32 (V, D), the rows of the words themselves.
        output: float32 (V, D), the context vectors of words, or None.
        settings: fastText's settings, by fastText's names.
    """

    shortest: int
    longest: int
    buckets: Array
    own: Array
    output: Array | None = None
    settings: dict[str, float] = field(default_factory=dict)

    def compose(self, word: str) -> Floats | None:
        """The vector of a word outside the vocabulary, float32 (D,); None if it has no n-grams."""
        _, rows = self.hashed([word])
        if not len(rows):
            return None
        return np.asarray(np.asarray(self.buckets[rows], np.float32).mean(axis=0), np.float32)

    def vectors(self, words: Sequence[str], places: Places) -> Floats:
        """The vectors of `words` with their own rows at `places`; float32 (N, D)."""
        out = np.array(self.own[index(places)], np.float32)
        size = max(1, BLOCK_NUMBERS // (20 * out.shape[1]))
        for first in range(0, len(words), size):
            part = words[first : first + size]
            owner, rows = self.hashed(part)
            if not len(rows):
                continue
            counts = np.bincount(owner, minlength=len(part))
            has = np.flatnonzero(counts)
            begins = (np.cumsum(counts) - counts)[has]
            sums = np.add.reduceat(np.asarray(self.buckets[rows], np.float32), begins, axis=0)
            out[first + has] = (out[first + has] + sums) / (counts[has, None] + 1).astype(np.float32)
        return out

    def hashed(self, words: Sequence[str]) -> tuple[Longs, Longs]:
        """(places in `words`, ascending; rows of `buckets`): one pair for each n-gram."""
        if not len(self.buckets) or not words:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        return ngram_rows(words, self.shortest, self.longest, len(self.buckets))


def ngram_rows(words: Sequence[str], shortest: int, longest: int, buckets: int) -> tuple[Longs, Longs]:
    """The n-grams of all words as hash values modulo `buckets`.

    Returns:
        (place of the word, row) of each n-gram, int64, by place ascending, then by length, then from left to right.
    """
    marked = [b"" if word == END_OF_SENTENCE else b"<" + word.encode("utf-8", "surrogatepass") + b">" for word in words]
    text = np.frombuffer(b"".join(marked), np.uint8)
    sizes = np.array([len(word) for word in marked], np.int64)
    owner = np.repeat(np.arange(len(words)), sizes)
    ends = np.cumsum(sizes)[owner]  # where the word of each byte ends
    continued = (text & 0xC0) == 0x80
    mixed = text.astype(np.int8).astype(np.int32).view(np.uint32)  # the sign extended
    starts = np.flatnonzero(~continued)
    first = np.ones(len(text) + 1, bool)  # whether a character, or a new word, begins at a byte
    first[:-1] = ~continued
    begins = (np.cumsum(sizes) - sizes)[owner]
    at, state = starts.copy(), np.full(len(starts), _OFFSET)
    parts: list[tuple[Longs, Longs]] = []
    for n in range(1, longest + 1):
        inside = at < ends[starts]
        starts, at, state = starts[inside], at[inside], state[inside]
        moving = np.arange(len(at))
        while len(moving):  # one byte of the next character at a time
            state[moving] = (state[moving] ^ mixed[at[moving]]) * _PRIME
            at[moving] += 1
            moving = moving[~first[at[moving]]]
        if n >= shortest:
            kept = np.arange(len(at))
            if n == 1:  # < and > alone are not n-grams
                kept = np.flatnonzero((starts != begins[starts]) & (at != ends[starts]))
            parts.append((owner[starts[kept]], (state[kept] % np.uint32(buckets)).astype(np.int64)))
    if not parts:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    places = np.concatenate([pair[0] for pair in parts])
    rows = np.concatenate([pair[1] for pair in parts])
    order = np.argsort(places, kind="stable")
    return places[order], rows[order]
