"""Arrays in safetensors files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nlptools.corpora import columns
from nlptools.files import artifacts


def test_arrays_of_any_strides_come_back(tmp_path: Path) -> None:
    table = np.arange(24, dtype=np.float32).reshape(4, 6)
    arrays = {"column": table[:, 1], "backwards": table[0, ::-1], "plain": table[0], "none": table[0, :0]}
    columns.save(tmp_path / "a.safetensors", arrays)
    again = artifacts.load_arrays(tmp_path / "a.safetensors")
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        assert np.array_equal(again[name], array), name
