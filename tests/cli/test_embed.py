"""embed: a vector for each line, in order, in every format, whatever comes in; and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import Run, environment
from tiny_bundles import words_bundle
from tiny_encoders import encoder_bundle

import nlptools
from nlptools.configs import Compute
from nlptools.configs.embed import Embed

TEXT = "the cat sat\n\na mat\nthe cat ate it up and sat on the mat\n"
LINES = TEXT.removesuffix("\n").split("\n")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return encoder_bundle(tmp_path_factory.mktemp("encoder") / "bert")


@pytest.fixture(scope="module")
def vectors(model: Path) -> np.ndarray:
    """Of LINES."""
    return nlptools.load(model, compute=Compute(device="cpu", precision="fp32"), settings=Embed()).embed(LINES)


def test_an_array_in_a_file(call: Run, tmp_path: Path, model: Path, vectors: np.ndarray) -> None:
    done = call("embed", model, "-o", tmp_path / "v.npy", stdin=TEXT)
    assert (done.code, done.out, done.err) == (0, b"", "")
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), vectors)
    again = call("embed", model, "-o", tmp_path / "v.npy", stdin=TEXT)
    assert again.code == 73 and "v.npy: exists" in again.err
    again = call("embed", tmp_path / "nowhere", "-o", tmp_path / "v.npy", stdin=TEXT)
    assert again.code == 73 and "v.npy: exists" in again.err, "told before a model is looked for"
    assert [path.name for path in tmp_path.glob("v.*")] == ["v.npy"], "nothing that was not asked for"
    half = call("embed", model, "-o", tmp_path / "v.npy", "--force", "--dtype", "float16", stdin=TEXT)
    assert half.code == 0
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), vectors, rtol=1e-3)


def test_line_by_line_gives_the_same(call: Run, model: Path, vectors: np.ndarray) -> None:
    done = call("embed", model, "--to", "jsonl", "--line-buffered", stdin=TEXT)
    rows = [json.loads(line) for line in done.lines]
    assert [row["text"] for row in rows] == LINES
    np.testing.assert_allclose([row["embedding"] for row in rows], vectors, atol=1e-6)


def test_tsv_and_word2vec(call: Run, model: Path, vectors: np.ndarray) -> None:
    found = [line.split("\t") for line in call("embed", model, "--to", "tsv", stdin=TEXT).lines]
    assert [row[0] for row in found] == LINES
    np.testing.assert_array_equal(np.array([row[1:] for row in found], np.float32), vectors)
    lines = call("embed", model, "--to", "word2vec", stdin="cat\nmat\n").lines
    assert call("embed", model, "--to", "word2vec", "--text", "cat", "--text", "mat").lines == lines
    assert lines[0].split() == ["2", "8"] and [line.split()[0] for line in lines[1:]] == ["cat", "mat"]


def test_nothing_in(call: Run, tmp_path: Path, model: Path) -> None:
    assert call("embed", model, "-o", tmp_path / "v.npy", stdin="").code == 0
    assert np.load(tmp_path / "v.npy").shape == (0, 8)


def test_tokens_in_an_array_with_an_index(call: Run, tmp_path: Path, model: Path) -> None:
    options = ("--unit", "token", "--index", tmp_path / "index.tsv", "-o", tmp_path / "v.npy")
    assert call("embed", model, *options, stdin=TEXT).code == 0
    rows = [line.split("\t") for line in (tmp_path / "index.tsv").read_text().removesuffix("\n").split("\n")]
    assert rows[:4] == [["1", "1", "the"], ["1", "2", "cat"], ["1", "3", "sat"], ["3", "1", "a"]]
    array = np.load(tmp_path / "v.npy")
    assert len(array) == len(rows) == 15
    lines = call("embed", model, "--unit", "word", "--to", "jsonl", stdin=TEXT).lines
    found = [json.loads(line) for line in lines]
    assert [row["words"] for row in found] == [line.split() for line in LINES]
    np.testing.assert_allclose(np.concatenate([np.reshape(row["vectors"], (-1, 8)) for row in found]), array, atol=1e-6)


def test_invalid_text_is_told_with_its_place(call: Run, tmp_path: Path, model: Path) -> None:
    (tmp_path / "in").write_bytes(b"the cat\n\xff\n")
    done = call("embed", model, tmp_path / "in", "-o", tmp_path / "v.npy")
    assert done.code == 65 and "in:2: invalid UTF-8" in done.err
    assert not (tmp_path / "v.npy").exists()


def test_cut_lines_are_counted(call: Run, model: Path) -> None:
    done = call("embed", model, "--to", "tsv", "--max-length", "4", stdin=TEXT)
    assert done.code == 0 and len(done.lines) == 4
    assert "cut 2 lines longer than 4 tokens; --long window uses all tokens" in done.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--unit", "token", "--pooling", "mean", "--to", "jsonl"], "--pooling applies to --unit sentence only"),
        (["--unit", "word"], "needs --index FILE"),
        (["--unit", "word", "--to", "tsv"], "--to tsv cannot be combined with --unit"),
        (["--to", "tsv", "--dtype", "float16"], "--dtype applies to --to auto, npy only"),
        (["--layers", "upper"], "not a choice of layers"),
        (["--layers", "9"], "no such layers: the model has 3"),
        (["--word-weights", "sif"], "holds no word vectors"),
        (["--similarity", "--unit", "word"], "--similarity cannot be combined with"),
        (["--similarity", "--to", "tsv"], "--similarity cannot be combined with"),
    ],
)
def test_options_that_do_not_go_together(call: Run, model: Path, args: list[str], message: str) -> None:
    done = call("embed", model, *args, stdin=TEXT)
    assert done.code == 2 and message in done.err and not done.out


def test_models_that_are_none(call: Run, tmp_path: Path, model: Path) -> None:
    assert call("embed", tmp_path / "nowhere", stdin=TEXT).code == 66
    (tmp_path / "empty").mkdir()
    assert call("embed", tmp_path / "empty", stdin=TEXT).code == 78
    done = call("score", model, stdin=TEXT)
    assert done.code == 2 and "is an encoder" in done.err and "embed, " in done.err


def test_a_language_model(call: Run, tmp_path: Path) -> None:
    done = call("embed", words_bundle(tmp_path / "lm"), "--to", "jsonl", "--layers", "mean:all", stdin="w1 w2\n\n")
    assert done.code == 0, done.err
    assert [json.loads(line)["text"] for line in done.lines] == ["w1 w2", ""]


def test_cosines_of_pairs(call: Run, model: Path, tmp_path: Path, vectors: np.ndarray) -> None:
    (tmp_path / "pairs").write_text("the cat sat\ta mat\n\na mat\ta mat\n\tthe cat sat\n")
    done = call("embed", model, "pairs", "--similarity")
    assert (done.code, done.err) == (0, "") and done.lines[1] == ""
    sat, empty, mat = (row / np.linalg.norm(row) for row in vectors[:3].astype(np.float64))
    found = [float(line) for line in done.lines if line]
    np.testing.assert_allclose(found, [sat @ mat, 1, empty @ sat], atol=5e-3)  # bf16 by default on some processors
    assert all(len(line.partition(".")[2]) == 6 for line in done.lines if line)
    again = call("embed", model, "pairs", "--similarity", "--line-buffered", "-o", "out")
    assert again.code == 0
    np.testing.assert_allclose([float(line) for line in (tmp_path / "out").read_text().split()], found, atol=5e-3)
    assert (tmp_path / "out").read_text().split("\n")[1] == ""
    (tmp_path / "v.txt").write_text("2 2\nsun 1 0\nsea 1 1\n")
    words = call("embed", "v.txt", "--similarity", stdin="sun\tsea\n\nsun sun\tsun\nsea\tunknown\n")
    assert words.lines == ["0.707107", "", "1.000000", "0.000000"]
    assert (
        call("embed", "v.txt", "--similarity", stdin="\n").text == "\n"
        and not call("embed", "v.txt", "--similarity").out
    )
    for line, count in (("sun", "1 text"), ("sun\tsea\t1", "3 texts")):
        done = call("embed", "v.txt", "--similarity", stdin=f"sun\tsun\n\n{line}\n")
        assert done.code == 65 and f"<stdin>:3: expected two texts, separated by a tab; found {count}" in done.err


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["embed", "v.txt", "v.txt"], 2),
        (["embed", "v.txt", "v.txt", "--to", "tsv"], 0),
        (["embed", "v.txt", "v.txt", "-o", "v.npy"], 0),
        (["convert", "v.txt", "-", "--to", "word2vec-binary"], 2),
        (["convert", "v.txt", "-", "--to", "fasttext"], 2),
        (["convert", "v.txt", "-"], 0),
        (["train-w2v", "--min-count", "1", "--epochs", "1", "--to", "binary", "words"], 2),
        (["align-vectors", "v.txt", "v.txt", "-d", "pairs", "--to", "fasttext"], 2),
    ],
)
def test_binary_data_is_not_written_to_a_terminal(
    tmp_path: Path, fork_server: list[str], args: list[str], code: int
) -> None:
    (tmp_path / "v.txt").write_text("2 2\nsun 1 2\nsea 2 1\n")
    (tmp_path / "words").write_text("sun sea\n")
    (tmp_path / "pairs").write_text("sun sun\nsea sea\n")
    reader, terminal = os.openpty()
    done = subprocess.run(
        [*fork_server, *args], stdout=terminal, stderr=subprocess.PIPE, cwd=tmp_path, env=environment(), text=True
    )
    os.close(terminal)
    os.close(reader)
    assert done.returncode == code, done.stderr
    assert ("is binary: not written to a terminal" in done.stderr) == (code == 2)
