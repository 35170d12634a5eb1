"""Arrays one behind the other, mapped or read; damaged ones are refused."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import BundleError
from nlptools.vectors.files.npy import load_array, matrix_header, read_arrays

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)


def records(*parts: np.ndarray) -> bytes:
    out = io.BytesIO()
    for part in parts:
        np.save(out, part)
    return out.getvalue()


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.sampled_from(["<f4", "<f2", "<f8"]))
def test_arrays_behind_one_another_are_one(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], dtype: str
) -> None:
    path = tmp_path_factory.mktemp("a") / "a.npy"
    parts = [np.full((count, 3), i, dtype) for i, count in enumerate(counts)]
    path.write_bytes(records(*parts))
    expected = np.concatenate(parts)
    for found in (read_arrays(str(path)), load_array(str(path))):
        assert found.dtype == expected.dtype and np.array_equal(found, expected)


def test_one_array_is_mapped_and_compressed_ones_are_read(tmp_path: Path) -> None:
    import gzip

    np.save(tmp_path / "a.npy", ROWS)
    assert isinstance(load_array(str(tmp_path / "a.npy")), np.memmap)
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress(records(ROWS, ROWS)))
    assert len(load_array(str(tmp_path / "a.npy.gz"))) == 12


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (records(ROWS)[:-1], "ends inside an array, 1 bytes"),
        (records(ROWS) + b"\x93NUM", "not a readable array"),
        (records(ROWS, ROWS[:, :1]), "an array of 1 float32 after arrays of 2 float32"),
        (records(ROWS, ROWS.astype(np.float16)), "an array of 2 float16 after"),
        (records(ROWS[0]), "expected matrices of numbers"),
        (records(np.asfortranarray(ROWS)), "expected matrices of numbers"),
        (records(np.array([["a"]])), "expected matrices of numbers"),
        (records(np.empty((3, 0), np.float32)), "0 dimensions"),
        (records(ROWS).replace(b"(6, 2)", b"(9**9, 2)"), "not a readable array"),
        (records(ROWS).replace(b"(6, 2), }        ", b"(600000000000, 2)}"), "ends inside an array"),
    ],
)
def test_damaged_arrays(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(data)
    with pytest.raises(BundleError, match=said):
        read_arrays(str(path))


@pytest.mark.parametrize("rows", [0, 7, 10**12])
def test_headers_have_one_length(rows: int) -> None:
    data = matrix_header(rows, 1 << 20, "float16")
    stream = io.BytesIO(data)
    assert len(data) == 128 and np.lib.format.read_magic(stream) == (1, 0)
    assert np.lib.format.read_array_header_1_0(stream) == ((rows, 1 << 20), False, np.dtype("float16"))
