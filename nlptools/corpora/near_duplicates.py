"""Near-duplicates among texts: sets of n-grams, MinHash, and locality-sensitive hashing.

Broder 1997 (MinHash: the chance that two sets have the same least hash is their Jaccard similarity); Indyk & Motwani 1998
(bands of hashes: similar sets share a band with high probability). Texts that share a band are compared by their sets of
n-grams, so that what is found is exact; a pair at the threshold is missed in at most one case in a hundred (`bands`).
Before that, letters are lower-cased, and white space becomes single spaces.
Shapes: S n-grams of a text or of several, P hash functions.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from nlptools.arrays import Array

HASHES = 128
_MISSED = 0.01  # of pairs at the threshold
_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def ngrams(text: str, unit: str, n: int) -> Array:
    """(S,) uint64, sorted: the hashes of the different n-grams of a text; a shorter text is one n-gram.

    Args:
        unit: chars or words.
    """
    plain = " ".join(text.lower().split())
    if unit == "words":
        codes = np.array([zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in plain.split(" ")], np.uint64)
    else:
        codes = np.frombuffer(plain.encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    width = min(n, len(codes))
    count = len(codes) - width + 1 if width else 1
    found = np.full(count, width, np.uint64)
    with np.errstate(over="ignore"):
        for i in range(width):
            found = found * _BASE + codes[i : i + count] + np.uint64(1)
        # splitmix64 (Steele et al. 2014)
        found = (found ^ (found >> np.uint64(30))) * _MIX[0]
        found = (found ^ (found >> np.uint64(27))) * _MIX[1]
        found ^= found >> np.uint64(31)
    return np.unique(found)


def jaccard(first: Array, second: Array) -> float:
    """The share of common elements of two sets, which are sorted."""
    common = len(np.intersect1d(first, second, assume_unique=True))
    return common / (len(first) + len(second) - common)


def bands(threshold: float) -> tuple[int, int]:
    """(bands, hashes in each): the longest bands with which at most one in a hundred pairs at the threshold shares none."""
    for rows in range(HASHES, 0, -1):
        count = HASHES // rows
        if (1 - threshold**rows) ** count <= _MISSED:
            return count, rows
    return HASHES, 1


class DuplicateIndex:
    """Texts that have been seen and were no duplicates."""

    def __init__(self, threshold: float, unit: str = "chars", n: int = 5, seed: int = 1) -> None:
        self.threshold, self.unit, self.n = threshold, unit, n
        random = np.random.default_rng(seed)
        self._factors = random.integers(1 << 63, size=HASHES, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        self._summands = random.integers(1 << 63, size=HASHES, dtype=np.uint64)
        self._bands, self._rows = bands(threshold)
        self._seen: dict[bytes, list[int]] = {}
        self._sets: dict[int, Array] = {}

    def add(self, texts: Sequence[str], numbers: Sequence[int]) -> list[int]:
        """For each text, in order, the number of the first earlier one that it duplicates; else its own number, under which it is
        kept.
        """
        sets = [ngrams(text, self.unit, self.n) for text in texts]
        return [
            self._add(each, number, keys) for each, number, keys in zip(sets, numbers, self._keys(sets), strict=True)
        ]

    def _add(self, grams: Array, number: int, keys: list[bytes]) -> int:
        candidates = sorted({other for key in keys for other in self._seen.get(key, ())})
        for other in candidates:
            if jaccard(grams, self._sets[other]) >= self.threshold:
                return other
        for key in keys:
            self._seen.setdefault(key, []).append(number)
        self._sets[number] = grams
        return number

    def _keys(self, sets: Sequence[Array]) -> list[list[bytes]]:
        """The bands of each set, as keys."""
        if not sets:
            return []
        lengths = np.array([len(each) for each in sets])
        flat, starts = np.concatenate(sets), np.cumsum(lengths) - lengths
        least = np.empty((len(sets), HASHES), np.uint32)
        with np.errstate(over="ignore"):
            for i in range(HASHES):  # multiply-shift (Dietzfelbinger et al. 1997)
                hashed = (flat * self._factors[i] + self._summands[i]) >> np.uint64(32)
                least[:, i] = np.minimum.reduceat(hashed, starts)
        out = []
        for row in least:
            parts = row[: self._bands * self._rows].reshape(self._bands, self._rows)
            out.append([number.to_bytes(1, "big") + part.tobytes() for number, part in enumerate(parts)])
        return out
