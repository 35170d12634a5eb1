"""Look-up of many integers at once in a sorted array, and sorting of them."""

from __future__ import annotations

import threading

import numpy as np

from nlptools.arrays import Array, Floats, Longs

_MIX = np.uint64(0x9E3779B97F4A7C15)  # an odd number without pattern (Knuth's multiplicative hashing)
_HALF = np.uint64(32)
_TOGETHER = 1 << 15  # keys at a time, so that what is computed of them stays in a processor's cache
_RECORD = np.dtype([("key", np.int64), ("place", np.int32), ("value", np.float32)])
_EMPTY = np.array((-1, -1, 0), _RECORD)


class KeyTable:
    """Places of integers in a sorted array, and a number for each.

    The first look-ups are binary searches. When half as many integers have been looked up as the array holds, a hash table
    with linear probing is built: a look-up mostly reads one record, from one line of a cache. It has 27 bytes for each key.
    Several threads may use a table.
    """

    def __init__(self, keys: Longs, values: Floats, hashed: bool = True) -> None:
        """`keys` (G,): different integers from 0 on, in rising order. Not `hashed`: binary searches only."""
        self._keys, self._values, self._size = keys, values, len(keys) * 5 // 3 + 1
        self._hashed = hashed and len(keys) < 1 << 31
        self._searches_left = len(keys) // 2
        self._records: Array | None = None
        self._lock = threading.Lock()

    @property
    def is_hashed(self) -> bool:
        """Whether the hash table has been built."""
        return self._records is not None

    def find(self, wanted: Longs) -> tuple[Longs, Floats]:
        """The places and the values of integers (N,); -1 and 0 for those that are not there."""
        if not len(self._keys) or not len(wanted):
            return np.full(len(wanted), -1, np.int64), np.zeros(len(wanted), np.float32)
        if self._hashed and self._records is None:
            with self._lock:
                self._searches_left -= len(wanted)
                if self._searches_left < 0 and self._records is None:
                    self._records = self._built()
        if self._records is None:
            return self._searched(wanted)
        places, values = np.empty(len(wanted), np.int64), np.empty(len(wanted), np.float32)
        for start in range(0, len(wanted), _TOGETHER):
            here = slice(start, start + _TOGETHER)
            places[here], values[here] = self._probed(self._records, wanted[here])
        return places, values

    def _searched(self, wanted: Longs) -> tuple[Longs, Floats]:
        """Each different integer is searched once, and they rise, so that most steps of a search are in the cache: in all a
        seventh of the time of searching them as they come."""
        ranks = rising_order(wanted)
        rising = wanted.take(ranks)
        is_first = np.ones(len(rising), np.bool_)
        np.not_equal(rising[1:], rising[:-1], out=is_first[1:])
        different = rising[is_first]
        places = np.searchsorted(self._keys, different)
        is_absent = self._keys.take(places, mode="clip") != different
        values = self._values.take(places, mode="clip")
        places[is_absent], values[is_absent] = -1, 0
        number = np.empty(len(wanted), np.int64)  # of each integer among the different ones
        number[ranks] = np.cumsum(is_first) - 1
        return places.take(number), values.take(number)

    def _probed(self, table: Array, wanted: Longs) -> tuple[Longs, Floats]:
        slots = self._first_slots(wanted)
        records = table.take(slots)
        left = np.flatnonzero((records["key"] != wanted) & (records["place"] >= 0))
        while len(left):
            slots[left] = (slots.take(left) + 1) % self._size
            records[left] = held = table.take(slots.take(left))
            left = left[(held["key"] != wanted.take(left)) & (held["place"] >= 0)]
        return records["place"].astype(np.int64), records["value"]

    def _first_slots(self, keys: Longs) -> Longs:
        mixed = (keys.view(np.uint64) * _MIX) >> _HALF
        slots: Longs = ((mixed * np.uint64(self._size)) >> _HALF).view(np.int64)
        return slots

    def _built(self) -> Array:
        """Fill slots: of the keys that meet in an empty one, the last stays, the others move on."""
        table = np.full(self._size, _EMPTY)
        for start in range(0, len(self._keys), _TOGETHER):
            here = slice(start, start + _TOGETHER)
            records = np.empty(len(self._keys[here]), _RECORD)
            records["key"], records["value"] = self._keys[here], self._values[here]
            records["place"] = np.arange(start, start + len(records))
            slots = self._first_slots(self._keys[here])
            while len(records):
                free = np.flatnonzero(table.take(slots)["place"] < 0)
                table[slots.take(free)] = records.take(free)
                left = np.flatnonzero(table.take(slots)["place"] != records["place"])
                slots, records = (slots.take(left) + 1) % self._size, records.take(left)
        return table


def rising_order(keys: Longs) -> Longs:
    """The places of integers in rising order; equal ones stay in order.

    They are sorted by 16 bits at a time, the last ones first: np.argsort counts those, which takes half the time.
    """
    if not len(keys):
        return np.zeros(0, np.int64)
    keys = keys - keys.min()
    ranks = np.argsort(keys.astype(np.uint16), kind="stable")
    for shift in range(16, int(keys.max()).bit_length(), 16):
        digits = (keys >> shift).astype(np.uint16).take(ranks)
        ranks = ranks.take(np.argsort(digits, kind="stable"))
    return ranks
