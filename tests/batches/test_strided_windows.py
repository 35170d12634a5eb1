"""Windows over long texts: by hand, and the laws that they keep for any lengths."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nlptools.batches.encoder_rows import bounds_of
from nlptools.batches.strided_windows import cut


def one(sizes, room, step):
    windows = cut(np.array(sizes, np.int64), np.array([0, len(sizes)]), np.array([room]), np.array([step]))
    return [tuple(map(int, row)) for row in zip(windows.first, windows.end, windows.owned_first, windows.owned_end)]


def test_what_fits_is_one_window():
    assert one([1, 2, 1], 4, 2) == [(0, 3, 0, 3)]


def test_by_hand():
    # 10 pieces, 6 at a time: 0-6 and, reaching back from 8, 4-10. Piece 4 has 1 to its right in the first, piece 5
    # has 1 to its left in the second.
    assert one([1] * 10, 6, 3) == [(0, 6, 0, 5), (3, 9, 5, 7), (4, 10, 7, 10)]
    assert one([1] * 10, 6, 6) == [(0, 6, 0, 5), (4, 10, 5, 10)]
    assert one([1] * 10, 9, 9) == [(0, 9, 0, 5), (1, 10, 5, 10)]


def test_a_word_is_not_cut():
    # Pieces 0-3, 3-6, 6-8. The first window could hold 5, and holds one word; the second two.
    assert one([3, 3, 2], 5, 5) == [(0, 1, 0, 1), (1, 3, 1, 3)]
    assert one([3, 3, 3], 5, 2) == [(0, 1, 0, 1), (1, 2, 1, 2), (2, 3, 2, 3)]


def test_texts_without_units():
    args = np.array([1, 1], np.int64), np.array([0, 0, 2, 2]), np.array([5, 5, 5]), np.array([2, 2, 2])
    assert cut(*args).text.tolist() == [1]
    assert cut(*args, empty=True).text.tolist() == [0, 1, 2]
    assert cut(*args, empty=True).end.tolist() == [0, 2, 0]


@st.composite
def texts(draw):
    room = draw(st.integers(1, 12))
    sizes = draw(st.lists(st.lists(st.integers(1, room), max_size=40), min_size=1, max_size=4))
    return sizes, room, draw(st.integers(1, room))


@given(texts())
def test_laws(drawn):
    sizes, room, step = drawn
    flat = np.array([size for text in sizes for size in text], np.int64)
    windows = cut(
        flat, bounds_of(np.array([len(text) for text in sizes])), np.full(len(sizes), room), np.full(len(sizes), step)
    )
    for number, text in enumerate(sizes):
        mine = windows.text == number
        bounds = bounds_of(np.array(text, np.int64))
        first, end = windows.first[mine], windows.end[mine]
        owned = list(zip(windows.owned_first[mine], windows.owned_end[mine]))
        assert (bounds[end] - bounds[first] <= room).all()
        assert [unit for a, b in owned for unit in range(a, b)] == list(range(len(text)))  # each once, in order
        assert len(first) <= 1 or sum(text) > room
        for window, (a, b) in enumerate(owned):
            for unit in range(a, b):
                around = [
                    min(bounds[unit] - bounds[f], bounds[e] - bounds[unit + 1])
                    for f, e in zip(first, end)
                    if f <= unit < e
                ]
                here = min(bounds[unit] - bounds[first[window]], bounds[end[window]] - bounds[unit + 1])
                assert first[window] <= a < b <= end[window]
                assert here == max(around)
