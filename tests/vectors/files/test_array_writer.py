"""Writing vectors as they come: what is written is read back equal, and nothing stands under a name before it is whole."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, environment, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nlptools.errors import BundleError, OutputError, StreamError, UsageError
from nlptools.files.line_records import fields
from nlptools.vectors.files import formats
from nlptools.vectors.files.array_writer import ArrayWriter

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=8)


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, list[tuple[np.ndarray, list[str]]]]:
    """A type, and windows of vectors of it and their texts."""
    dtype = draw(st.sampled_from(["float32", "float16"]))
    width = draw(st.integers(1, 5))
    numbers = st.floats(width=int(dtype[5:]), allow_nan=False, allow_infinity=False)
    made = []
    for count in draw(st.lists(st.integers(0, 4), max_size=4)):
        rows = draw(arrays(dtype, (count, width), elements=numbers)).astype(np.float32)
        made.append((rows, draw(st.lists(TEXTS, min_size=count, max_size=count))))
    return dtype, [(np.zeros((0, width), np.float32), list[str]()), *made]


def write(path: Path | str, form: str, dtype: str, parts: list[tuple[np.ndarray, list[str]]]) -> None:
    with ArrayWriter(str(path), form, parts[0][0].shape[1], dtype, force=True) as writer:
        for rows, lines in parts:
            writer.write(rows, lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@settings(max_examples=examples(60), deadline=None)
@given(windows())
def test_npy_is_read_back_mapped_with_its_lines(folder: Path, made: tuple) -> None:
    dtype, parts = made
    path = folder / "a.npy"
    write(path, "npy", dtype, parts)
    expected = np.concatenate([rows for rows, _ in parts])
    found = np.load(path, mmap_mode="r")
    assert found.dtype == dtype and isinstance(found, np.memmap)
    assert found.shape == expected.shape and (found == expected).all()
    table = formats.load(path)
    assert table.words.list() == [line for _, lines in parts for line in lines]


@settings(max_examples=examples(60), deadline=None)
@given(windows())
def test_text_forms_are_read_back(folder: Path, made: tuple) -> None:
    dtype, parts = made
    expected = np.concatenate([rows for rows, _ in parts])
    lines = [line for _, part in parts for line in part]
    write(folder / "a.jsonl", "jsonl", dtype, parts)
    records = [json.loads(line) for line in (folder / "a.jsonl").read_text("utf-8").split("\n")[:-1]]
    assert [record["text"] for record in records] == lines
    assert np.array_equal(np.array([r["embedding"] for r in records], dtype).reshape(expected.shape), expected)
    write(folder / "a.tsv", "tsv", dtype, parts)
    with open(folder / "a.tsv", encoding="utf-8", newline="\n") as stream:
        rows = [fields(line.removesuffix("\n")) for line in stream]
    assert [row[0] for row in rows] == lines
    assert np.array_equal(np.array([row[1:] for row in rows], dtype).reshape(expected.shape), expected)


@settings(max_examples=examples(60), deadline=None)
@given(windows())
def test_word2vec_is_read_back(folder: Path, made: tuple) -> None:
    dtype, parts = made
    write(folder / "a.w2v", "word2vec", dtype, parts)
    expected: dict[str, np.ndarray] = {}
    for rows, lines in parts:
        for row, line in zip(rows, lines, strict=True):
            expected.setdefault(line.replace(" ", "_"), row)
    table = formats.load(folder / "a.w2v")
    assert table.words.list() == list(expected)
    assert all(np.array_equal(table.matrix[i].astype(dtype), row) for i, row in enumerate(expected.values()))


CODE = """
import sys, numpy as np
from nlptools.vectors.files.array_writer import ArrayWriter
with ArrayWriter("-", sys.argv[1], 3) as writer:
    for i in range(3):
        writer.write(np.full((2, 3), i, np.float32), ["a b", "c"])
"""
EXPECTED = np.repeat(np.arange(3, dtype=np.float32), 6).reshape(6, 3)


def child(form: str, stdout: object) -> bytes:
    done = subprocess.run([sys.executable, "-c", CODE, form], stdout=stdout, check=True, env=environment(), cwd=ROOT)
    return done.stdout or b""


def test_a_pipe_gets_a_record_for_each_window() -> None:
    stream = io.BytesIO(child("npy", subprocess.PIPE))
    found = [np.load(stream) for _ in range(3)]
    assert np.array_equal(np.concatenate(found), EXPECTED) and not stream.read()
    lines = child("word2vec", subprocess.PIPE).decode().split("\n")
    assert lines[:3] == ["6 3", "a_b 0 0 0", "c 0 0 0"]


def test_standard_output_that_is_a_file(tmp_path: Path) -> None:
    with open(tmp_path / "a.npy", "wb") as out:
        out.write(b"before")
        out.flush()
        child("npy", out)
    data = (tmp_path / "a.npy").read_bytes()
    assert data[:6] == b"before" and len(data) == 6 + 128 + 72
    assert np.array_equal(np.load(io.BytesIO(data[6:])), EXPECTED), "one array, of all rows"
    with open(tmp_path / "b.npy", "ab") as out:
        child("npy", out)
    stream = io.BytesIO((tmp_path / "b.npy").read_bytes())
    assert np.array_equal(np.concatenate([np.load(stream) for _ in range(3)]), EXPECTED), "records where one appends"


def test_an_error_leaves_no_file(tmp_path: Path) -> None:
    for form in ("npy", "jsonl", "tsv", "word2vec"):
        with pytest.raises(KeyboardInterrupt), ArrayWriter(str(tmp_path / "a.npy"), form, 2) as writer:
            writer.write(np.ones((1, 2), np.float32), ["x"])
            raise KeyboardInterrupt
        assert not list(tmp_path.iterdir()), form
    (tmp_path / "a.vocab.tsv").write_text("mine\n")
    with pytest.raises(OutputError, match="exists"):
        ArrayWriter(str(tmp_path / "a.npy"), "npy", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.vocab.tsv"]


def test_a_full_disk_is_told() -> None:
    for form in ("npy", "jsonl", "word2vec"):
        with pytest.raises(StreamError, match="no space left"), ArrayWriter("/dev/full", form, 2) as writer:
            writer.write(np.ones((1, 2), np.float32), ["x"])


def test_what_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "a.npy")
    with (
        pytest.raises(BundleError, match="line 3 is not finite") as caught,
        ArrayWriter(path, "npy", 1, "float16") as out,
    ):
        out.write(np.ones((1, 1), np.float32), ["x"])
        out.write(np.array([[1], [70000]], np.float32), ["x", "y"])
    assert caught.value.hint and "float32" in caught.value.hint
    with pytest.raises(UsageError, match="shape"), ArrayWriter(path, "npy", 1) as out:
        out.write(np.ones((1, 2), np.float32), ["x"])
    with pytest.raises(UsageError, match="newline"), ArrayWriter(path, "word2vec", 1) as out:
        out.write(np.ones((1, 1), np.float32), ["x\ny"])
    with pytest.raises(UsageError, match="expected one of"):
        ArrayWriter(path, "csv", 1)
    with pytest.raises(UsageError, match="0 dimensions"):
        ArrayWriter(path, "npy", 0)
    assert not os.listdir(tmp_path)
