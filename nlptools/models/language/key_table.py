"""Look-up of many integers at once in a sorted array."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

_MIX = np.uint64(0x9E3779B97F4A7C15)  # an odd number without pattern (Knuth's multiplicative hashing)


class KeyTable:
    """Places of integers in a sorted array.

    The first look-ups are binary searches. When as many integers have been looked up as the array holds, a hash table with
    linear probing is built, which is three times as fast.
    """

    def __init__(self, keys: Longs, hashed: bool = True) -> None:
        """`keys` (G,): different integers from 0 on, in rising order. Not `hashed`: binary searches only."""
        self._keys, self._hashed = keys, hashed
        self._asked = 0
        self._bits = 0
        self._slots = np.zeros(0, np.int64)  # the place of the key that each slot holds, or -1

    def find(self, wanted: Longs) -> Longs:
        """The place of each integer (N,), -1 for those that are not there."""
        if not len(self._keys):
            return np.full(len(wanted), -1, np.int64)
        self._asked += len(wanted)
        if self._asked < len(self._keys) or not self._hashed:
            places = np.searchsorted(self._keys, wanted)
            places[places == len(self._keys)] = 0
            places[self._keys[places] != wanted] = -1
            return places
        if not self._bits:
            self._build()
        slots = self._hash(wanted)
        places = self._slots[slots]
        left = np.flatnonzero((places >= 0) & (self._keys[places] != wanted))
        while len(left):
            slots[left] = (slots[left] + 1) & (len(self._slots) - 1)
            places[left] = self._slots[slots[left]]
            left = left[(places[left] >= 0) & (self._keys[places[left]] != wanted[left])]
        return places

    def _hash(self, wanted: Longs) -> Longs:
        return ((wanted.view(np.uint64) * _MIX) >> np.uint64(64 - self._bits)).astype(np.int64)

    def _build(self) -> None:
        """Fill slots round by round: of the keys that meet in an empty one, the last stays, the others move on."""
        self._bits = (2 * len(self._keys)).bit_length()
        self._slots = np.full(1 << self._bits, -1, np.int64)
        slots, left = self._hash(self._keys), np.arange(len(self._keys))
        while len(left):
            free = left[self._slots[slots[left]] < 0]
            self._slots[slots[free]] = free
            left = left[self._slots[slots[left]] != left]
            slots[left] = (slots[left] + 1) & (len(self._slots) - 1)
