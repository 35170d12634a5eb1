"""convert: formats by name or by option, nothing replaced or lost in silence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Run

TEXT = "3 2\nking 1.5 -0.25\nqueen 0.333333343 1e-05\nna\u00efve 2 7\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "v.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "v.txt"


@pytest.mark.parametrize("name", ["a.bin", "a.glove", "a.npy", "a/", "a", "a.txt.gz", "m.bin --to fasttext"])
def test_there_and_back(call: Run, source: Path, name: str) -> None:
    target, *options = name.split(" ")
    done = call("convert", source, target, *options)
    assert (done.code, done.out, done.err) == (0, b"", "")
    assert call("convert", target, "-").text == TEXT


def test_pipes(call: Run, source: Path) -> None:
    binary = call("convert", source, "-", "--to", "word2vec-binary").out
    assert binary.startswith(b"3 2\nking ")
    assert call("convert", "-", "-", "--from", "word2vec-binary", stdin=binary).text == TEXT
    assert call("convert", "-", "-", "--to", "glove", stdin=TEXT).text == TEXT.partition("\n")[2]


def test_a_bin_of_a_fasttext_model_stays_one(call: Run, source: Path, tmp_path: Path) -> None:
    call("convert", source, "m.bin", "--to", "fasttext")
    assert call("convert", "m.bin", "n.bin").code == 0
    assert (tmp_path / "m.bin").read_bytes() == (tmp_path / "n.bin").read_bytes()
    assert call("convert", "m.bin", "w.bin", "--to", "word2vec-binary").code == 0
    assert (tmp_path / "w.bin").read_bytes().startswith(b"3 2\nking ")


@pytest.mark.parametrize("name", ["a.bin", "a.npy", "a"])
def test_existing_targets(call: Run, source: Path, tmp_path: Path, name: str) -> None:
    assert call("convert", source, name).code == 0
    done = call("convert", source, name, "--restrict", 1)
    assert done.code == 73 and "--force" in done.err
    assert call("convert", source, name, "--restrict", 1, "--force").code == 0
    assert call("convert", name, "-").text == "1 2\nking 1.5 -0.25\n"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".a")]


def test_a_directory_of_something_else_stays(call: Run, source: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/file").write_text("x")
    assert call("convert", source, "home", "--force").code == 73
    assert (tmp_path / "home/file").read_text() == "x"


def test_int8_tells_what_it_costs(call: Run, source: Path, tmp_path: Path) -> None:
    done = call("convert", source, "q", "--quantize", "int8")
    assert done.code == 0 and "mean cosine" in done.err and "overlap of the 10 nearest words 1.0000" in done.err
    assert json.loads((tmp_path / "q/config.json").read_text())["quantized"] == "int8"
    assert np.load(tmp_path / "q/vectors.npy").dtype == np.int8
    assert call("convert", source, "q.npy", "--quantize", "int8").code == 2


def test_normalize(call: Run, source: Path) -> None:
    rows = [line.split(" ") for line in call("convert", source, "-", "--normalize").lines[1:]]
    assert [float(a) ** 2 + float(b) ** 2 for _, a, b in rows] == pytest.approx([1, 1, 1])


def test_counts_stay_where_there_is_room(call: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.eye(2, dtype=np.float64))
    (tmp_path / "a.vocab.tsv").write_text("a\\tb\t7\nc\t3\n")
    assert call("convert", "a.npy", "m.bin", "--to", "fasttext").code == 0
    assert call("convert", "m.bin", "b.npy").code == 0
    assert (tmp_path / "b.vocab.tsv").read_text() == "a\\tb\t7\nc\t3\n"
    (tmp_path / "a.vocab.tsv").write_text("a\nb\nc\n")
    done = call("convert", "a.npy", "-")
    assert done.code == 78 and "3 words, 2 vectors" in done.err


def test_nothing_is_left_of_a_failure(call: Run, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("2 1\na 1\nnew york 2\n")
    done = call("convert", "v.txt", "a.bin")
    assert done.code == 2 and "space" in done.err
    (tmp_path / "v.txt").write_text("2 1\na 1\nb inf\n")
    for name in ("a.npy", "a", "a.vec"):
        assert call("convert", "v.txt", name).code == 78
    assert [path.name for path in tmp_path.iterdir()] == ["v.txt"]
    assert call("convert", "missing.txt", "a").code == 66
    assert call("convert", "v.txt", "a.what").code == 2
