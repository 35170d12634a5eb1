"""Tables: rows with names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nlptools.errors import DataError, UsageError
from nlptools.vectors.files import formats

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)


def test_lines_name_the_rows_of_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    (tmp_path / "text").write_text("a\tb\n\n - c\nd\nd\ne\\n\n")
    path, text = str(tmp_path / "a.npy"), str(tmp_path / "text")
    found = formats.load(path, lines=text)
    assert found.words.list() == ["a\tb", "", " - c", "d", "d", "e\\n"], "a text is not escaped"
    assert isinstance(found.rows.array, np.memmap)  # type: ignore[attr-defined]
    assert formats.load_to_search(path, lines=text).words.list() == ["a\tb", "", " - c", "d", "e\\n"]
    (tmp_path / "text").write_text("a\n")
    with pytest.raises(DataError, match="text: 1 lines for the 6 vectors"):
        formats.load(path, lines=text)
    (tmp_path / "v.txt").write_text("1 1\na 1\n")
    with pytest.raises(UsageError, match="its own words"):
        formats.load(tmp_path / "v.txt", lines=text)
