"""Inputs and outputs of jobs in parts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nlptools.corpora.row_outputs import RowOutput
from nlptools.corpora.row_parts import RowParts
from nlptools.errors import OutputError, UsageError
from nlptools.formats import records


def test_parts_of_lines_are_the_lines(tmp_path: Path) -> None:
    """With a byte order mark, an empty line, a carriage return and no last line end."""
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\n\n" + b"".join(b"line %d\n" % i for i in range(50)))
    (tmp_path / "b").write_bytes(b"bad \xff\nlast\xe2\x80\xa8line")
    (tmp_path / "c").write_bytes(b"\xef\xbb\xbf")
    inputs = [str(tmp_path / name) for name in "abc"]
    expected = ["one", "", *(f"line {i}" for i in range(50)), "", "last\u2028line"]
    for size in (7, 100, 10_000):
        parts = RowParts.of(inputs, ("text",), size)
        rows = [row for part in range(parts.parts) for row in parts.rows(part)]
        assert [row.text for row in rows] == expected
        assert [row.record["text"] for row in rows if row.error] == ["bad \ufffd"]
        assert sum(map(parts.count, range(parts.parts))) == len(expected)
    assert parts.parts == 1 and RowParts.of(inputs, ("text",), 100).parts == 5


def test_rows_of_objects(tmp_path: Path) -> None:
    good = {"id": 1, "text": "a\nb", "b": "x\ty"}
    lines = [json.dumps(good), "[]", '{"text": 5}', '{"text": "a", "error": 1}', '{"text": "a", "text": "b"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    one = list(RowParts.of([str(tmp_path / "a.jsonl")], ("text",), 1 << 20).rows(0))
    assert (one[0].record, one[0].text, one[0].error) == (good, "a b", None)
    for row, message in zip(
        one[1:], ("expected a JSON object, found list", "no text under", "the key 'error'", "two values"), strict=True
    ):
        assert row.error is not None and message in row.error and row.text == ""
    two = next(RowParts.of([str(tmp_path / "a.jsonl")], ("text", "b"), 1 << 20).rows(0))
    assert two.text == "a\\nb\tx\\ty"


def test_parts_of_parquet_are_row_groups(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet, table

    texts = [f"text {i}" for i in range(10)]
    parquet.write_table(table({"text": [*texts[:9], None]}), tmp_path / "a.parquet", row_group_size=4)
    parts = RowParts.of([str(tmp_path / "a.parquet")], ("text",), 1)
    assert [parts.count(part) for part in range(parts.parts)] == [4, 4, 2]
    rows = [row for part in range(3) for row in parts.rows(part)]
    assert [row.text for row in rows] == [*texts[:9], ""] and rows[9].error == "no text under the key 'text'"


def test_other_inputs_are_refused(tmp_path: Path) -> None:
    for name in ("a.csv", "a.jsonl", "a.txt"):
        (tmp_path / name).write_text("text\n")
    for names in (["a.csv"], ["a.jsonl", "a.txt"]):
        with pytest.raises(UsageError, match="expected text, jsonl or parquet"):
            RowParts.of([str(tmp_path / name) for name in names], ("text",), 10)
    with pytest.raises(UsageError, match="standard input"):
        RowParts.of(["-"], ("text",), 10)


def test_output_in_parts(tmp_path: Path) -> None:
    out = RowOutput(tmp_path / "out")
    out.claim({"inputs": [["a", 1]]})
    out.claim({"inputs": [["a", 1]]})
    assert out.counts(0) is None
    out.write(0, [{"text": "\ud800é", "embedding": [1.5]}, {"text": "b", "error": "bad"}])
    assert out.counts(0) == (2, 1)
    lines = (tmp_path / "out/part-000000.jsonl").read_text().split("\n")
    assert lines == ['{"text": "\\ud800é", "embedding": [1.5]}', '{"text": "b", "error": "bad"}', ""]
    with pytest.raises(OutputError, match=r"another job \(inputs\)"):
        out.claim({"inputs": [["a", 2]]})
    with pytest.raises(OutputError, match="holds no job"):
        RowOutput(tmp_path).claim({})
    with pytest.raises(UsageError, match="expected jsonl or parquet"):
        RowOutput(tmp_path, "csv")


def test_output_as_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    out = RowOutput(tmp_path, "parquet")
    out.write(3, [{"text": "a", "embedding": [0.5, 1.0]}, {"text": "b", "error": "bad"}])
    assert out.counts(3) == (2, 1)
    found = [
        value for _, value in records.objects(records.InputLines(str(tmp_path / "part-000003.parquet")), "parquet")
    ]
    assert found == [
        {"embedding": [0.5, 1.0], "error": None, "text": "a"},
        {"embedding": None, "error": "bad", "text": "b"},
    ]
