"""Arrays one behind the other and JSON lines: what the writer makes is read, and what is damaged is told."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import BundleError, DataError, UsageError
from nlptools.vectors.files import directory, formats
from nlptools.vectors.files.array_reader import parse_record, read_arrays, read_records, recognized
from nlptools.vectors.nearest import nearest_to
from nlptools.vectors.table import Vectors

ROWS = np.arange(12, dtype=np.float32).reshape(6, 2)


def records(*parts: np.ndarray) -> bytes:
    out = io.BytesIO()
    for part in parts:
        np.save(out, part)
    return out.getvalue()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.sampled_from(["<f4", "<f2", "<f8"]))
def test_arrays_behind_one_another_are_one(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], dtype: str
) -> None:
    path = tmp_path_factory.mktemp("a") / "a.npy"
    parts = [np.full((count, 3), i, dtype) for i, count in enumerate(counts)]
    path.write_bytes(records(*parts))
    expected = np.concatenate(parts)
    for found in (read_arrays(str(path)), directory.load_array(str(path))):
        assert found.dtype == expected.dtype and np.array_equal(found, expected)


def test_one_array_is_mapped_and_compressed_ones_are_read(tmp_path: Path) -> None:
    import gzip

    np.save(tmp_path / "a.npy", ROWS)
    assert isinstance(directory.load_array(str(tmp_path / "a.npy")), np.memmap)
    (tmp_path / "a.npy.gz").write_bytes(gzip.compress(records(ROWS, ROWS)))
    assert len(directory.load_array(str(tmp_path / "a.npy.gz"))) == 12


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (records(ROWS)[:-1], "ends inside an array, 1 bytes"),
        (records(ROWS) + b"\x93NUM", "not a readable array"),
        (records(ROWS, ROWS[:, :1]), "an array of 1 float32 behind arrays of 2 float32"),
        (records(ROWS, ROWS.astype(np.float16)), "an array of 2 float16 behind"),
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


def test_the_first_byte_tells() -> None:
    for data, kind in ((records(ROWS), "npy"), (b'{"text"', "jsonl"), (b"3 2\n", "word2vec"), (b"", "word2vec")):
        stream = io.BufferedReader(io.BytesIO(data))
        assert recognized(stream) == kind and stream.read() == data, "nothing is taken"


def test_records(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [{"text": "a b", "embedding": [1, 2.5]}, {"embedding": [0, 0]}, {"id": 7, "embedding": [-1e-3, 4]}]
    path.write_text("\ufeff" + "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    found = read_records(str(path))
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
        read_records(str(path))
    with pytest.raises(DataError, match="queries:5: expected finite"):
        parse_record('{"embedding": 1}', "queries", 5)


def test_texts_of_several_lines_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a\\nb", "embedding": [1]}\n')
    assert read_records(str(path)).words.list() == ["a b"]
    assert "1 text of several lines is" in capsys.readouterr().err


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
    with pytest.raises(UsageError, match="words of its own"):
        formats.load(tmp_path / "v.txt", lines=text)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 6))
def test_nearest_to_vectors_is_the_definition(seed: int, k: int, restrict: int) -> None:
    rng = np.random.default_rng(seed)
    rows, queries = rng.standard_normal((9, 4), dtype=np.float32), rng.standard_normal((3, 4), dtype=np.float32)
    table = Vectors([str(i) for i in range(9)], rows)
    found = nearest_to(table, queries, k, restrict=restrict)
    inside = rows[: restrict or None].astype(np.float64)
    for query, answer in zip(queries.astype(np.float64), found, strict=True):
        cosines = inside @ query / np.linalg.norm(inside, axis=1) / np.linalg.norm(query)
        order = np.argsort(-cosines, kind="stable")[:k]
        assert [word for word, _ in answer] == [str(i) for i in order]
        assert np.allclose([score for _, score in answer], cosines[order], atol=1e-6)
    assert nearest_to(table, np.zeros((1, 4), np.float32), 2)[0] == [("0", 0.0), ("1", 0.0)]
    with pytest.raises(UsageError, match="queries have 3 dimensions, the vectors 4"):
        nearest_to(table, np.zeros((1, 3), np.float32))
