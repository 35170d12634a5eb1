"""JSON lines of texts and vectors: what is valid is read, what is damaged is refused with its line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from nlptools.errors import BundleError, DataError
from nlptools.vectors.files import formats
from nlptools.vectors.files.json_lines import parse_record, read


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [{"text": "a b", "embedding": [1, 2.5]}, {"embedding": [0, 0]}, {"id": 7, "embedding": [-1e-3, 4]}]
    path.write_text("\ufeff" + "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = read(str(path))
    assert found.words.list() == ["a b", "1", "7"]
    assert np.array_equal(found.matrix, np.array([[1, 2.5], [0, 0], [-1e-3, 4]], np.float32))
    assert formats.load(path)["a b"].tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "not valid JSON"),
        ("[1, 2]", "expected a JSON object"),
        ('{"text": "a"}', "expected finite numbers"),
        ('{"embedding": []}', "expected finite numbers"),
        ('{"embedding": ["1", "2"]}', "expected finite numbers"),
        ('{"embedding": [[1], [2]]}', "expected finite numbers"),
        ('{"embedding": [[1], 2]}', "expected finite numbers"),
        ('{"embedding": [true, false]}', "expected finite numbers"),
        ('{"embedding": [1, NaN]}', "expected finite numbers"),
        ('{"embedding": [1, 1e39]}', "expected finite numbers"),
        ('{"embedding": [1, 1' + "0" * 400 + "]}", "expected finite numbers"),
        ('{"embedding": [1, 2, 3]}', "expected 2 numbers, found 3"),
        ('{"embedding": [1, "\udcff"]}', "not valid JSON|invalid UTF-8"),
    ],
)
def test_bad_records(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "a", "embedding": [1, 2]}\n' + line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(BundleError, match=f":2: ({said})"):
        read(str(path))
    with pytest.raises(DataError, match="queries:5: expected finite"):
        parse_record('{"embedding": 1}', "queries", 5)


def test_texts_of_several_lines_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a\\nb", "embedding": [1]}\n')
    assert read(str(path)).words.list() == ["a b"]
    assert "1 text of several lines is" in capsys.readouterr().err
