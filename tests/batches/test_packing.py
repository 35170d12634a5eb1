"""Sequences packed into rows: all there, no row too full, and hardly more rows than needed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nlptools.batches.packing import pack


def test_by_hand() -> None:
    assert pack(np.array([3, 10, 7, 5, 5]), 10).tolist() == [1, 0, 1, 2, 2]
    assert pack(np.array([2] * 7), 5).tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert pack(np.empty(0, np.int64), 5).tolist() == []


@given(st.integers(1, 40), st.data())
def test_no_row_is_too_full_or_empty(width: int, data: st.DataObject) -> None:
    lengths = np.array(data.draw(st.lists(st.integers(1, width), min_size=1, max_size=80)))
    rows = pack(lengths, width)
    load = np.bincount(rows, lengths)
    assert load.max() <= width
    assert load.min() > 0
    assert np.count_nonzero(load <= width // 2) <= 1  # two half empty rows would have been one
    assert np.array_equal(rows, pack(lengths, width))


def test_hardly_any_room_is_left_of_many() -> None:
    lengths = np.random.default_rng(1).integers(2, 129, 20_000)
    rows = pack(lengths, 128)
    assert lengths.sum() / (128 * (rows.max() + 1)) > 0.99
