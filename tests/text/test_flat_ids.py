"""Lists of ids as a flat array with lengths, and the type that ids are stored in."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.text.flat_ids import flat_ids, id_type


@pytest.mark.parametrize("rows", [[], [[]], [[3, 1], [], [2]]])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_come_back_from_ids_and_lengths(rows: list[list[int]], dtype: type) -> None:
    ids, lengths = flat_ids(rows, dtype)
    assert ids.dtype == dtype and lengths.dtype == np.int64
    ends = lengths.cumsum()
    assert [ids[end - length : end].tolist() for end, length in zip(ends, lengths)] == rows


@pytest.mark.parametrize(("size", "name"), [(1, "uint16"), (1 << 16, "uint16"), ((1 << 16) + 1, "uint32")])
def test_the_largest_id_fits(size: int, name: str) -> None:
    assert id_type(size) == name
    assert np.array([size - 1], id_type(size))[0] == size - 1
