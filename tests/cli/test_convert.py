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


@pytest.mark.parametrize("name", ["a.bin", "a.glove", "a.npy", "a/", "a", "a.txt.gz", "a.tsv", "m.bin --to fasttext"])
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


def test_pq_is_read_by_everything(call: Run, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((600, 7)).astype(np.float32)
    np.save(tmp_path / "a.npy", rows)
    (tmp_path / "a.vocab.tsv").write_text("".join(f"w{i}\t{700 - i}\n" for i in range(600)))
    done = call("convert", "a.npy", "q", "--quantize", "pq")
    assert done.code == 0 and done.err.startswith("pq: mean relative error 0.0") and "mean cosine" in done.err
    assert json.loads((tmp_path / "q/config.json").read_text())["quantized"] == "pq"
    codes = np.load(tmp_path / "q/vectors.npy")
    assert (codes.dtype, codes.shape) == (np.uint8, (600, 4)) and np.load(tmp_path / "q/centroids.npy").shape == (
        256,
        7,
    )
    text = call("convert", "q", "-")
    numbers = np.array([line.split(" ")[1:] for line in text.lines[1:]], np.float32)
    assert np.linalg.norm(numbers - rows) < 0.15 * np.linalg.norm(rows)
    assert call("convert", "q", "again", "--restrict", 9).code == 0
    assert (tmp_path / "again/vocab.tsv").read_text().startswith("w0\t700\n")
    query = "\n".join(f"w{i}" for i in range(0, 600, 20))
    found = [line.split("\t")[1] for line in call("neighbors", "q", "-k", 1, stdin=query).lines]
    exact = [line.split("\t")[1] for line in call("neighbors", "a.npy", "-k", 1, stdin=query).lines]
    assert sum(one == two for one, two in zip(found, exact, strict=True)) > 20


def test_pq_options(call: Run, source: Path, tmp_path: Path) -> None:
    assert call("convert", source, "q", "--quantize", "pq", "--subvectors", 1).code == 0
    assert np.load(tmp_path / "q/vectors.npy").shape == (3, 1)
    assert call("convert", "q", "-").lines[2] == call("convert", source, "-").lines[2], "three words, three centroids"
    for options, said in (
        (["--quantize", "pq", "--subvectors", 3], "2 dimensions"),
        (["--subvectors", 2], "--subvectors applies to --quantize pq only"),
        (["--quantize", "int8", "--subvectors", 2], "--subvectors applies to --quantize pq only"),
        (["--quantize", "pq", "--to", "npy"], "directory"),
    ):
        done = call("convert", source, "other", *options)
        assert done.code == 2 and said in done.err
    assert not (tmp_path / "other").exists()


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


def test_json_lines_and_back(call: Run, tmp_path: Path) -> None:
    text = '3 2\nking 0.1 -1e-10\n"q"\\ 0.123456789 1\nna\u00efve 1 2\n'
    (tmp_path / "v.txt").write_text(text, encoding="utf-8")
    assert call("convert", "v.txt", "v.jsonl").code == 0
    lines = (tmp_path / "v.jsonl").read_text(encoding="utf-8").split("\n")
    assert lines[0] == '{"text": "king", "embedding": [0.1,-1e-10]}' and lines[1].startswith('{"text": "\\"q\\"\\\\", ')
    expected = call("convert", "v.txt", "-").out
    assert call("convert", "v.jsonl", "-").out == expected
    assert call("convert", "-", "-", stdin=(tmp_path / "v.jsonl").read_bytes()).out == expected
    assert call("convert", "v.txt", "-", "--to", "jsonl").out == (tmp_path / "v.jsonl").read_bytes()


def test_fields_between_tabs(call: Run, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("new york\t1\t0.5\nc:\\\\new\\tx\t-2\t3\n")
    assert call("convert", "a.tsv", "b.jsonl").code == 0
    records = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().split("\n")[:-1]]
    assert records == [
        {"text": "new york", "embedding": [1, 0.5]},
        {"text": "c:\\new\tx", "embedding": [-2, 3]},
    ]
    assert call("convert", "b.jsonl", "-", "--to", "tsv").text == (tmp_path / "a.tsv").read_text()
    for text, first in (("2 2\na\t1\t2\nb\t2\t1\n", "h.txt:2"), ("a\t1\t2\n", "g.glove:1")):
        name = first.partition(":")[0]
        (tmp_path / name).write_text(text)
        done = call("convert", name, "-")
        assert done.code == 78 and first in done.err and "hint: --from tsv reads tab-separated fields" in done.err
    assert call("convert", "h.txt", "-", "--from", "tsv").text == "2 2\na 1 2\nb 2 1\n"
    (tmp_path / "bad.tsv").write_text("a\t1\t2\nb\t1\n")
    assert "bad.tsv:2: expected a word and 2 numbers, found 2 fields" in call("convert", "bad.tsv", "-").err


def test_formats_that_are_never_read(call: Run, tmp_path: Path) -> None:
    for name, cure in {"x.kv": "save_word2vec_format", "x.ftz": "before quantize", "x.csv": "> NEW.tsv"}.items():
        (tmp_path / name).write_bytes(b"\x80\x04\x95")
        for command in (("convert", name, "y.bin"), ("embed", name), ("neighbors", name)):
            done = call(*command, stdin="a\n")
            assert (done.code, done.err.count("\n")) == (2, 2) and cure in done.err, done.err


def test_predict_with_a_fasttext_model(call: Run, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes((793712314).to_bytes(4, "little") + bytes(100))
    done = call("predict", "x.bin", stdin="a\n")
    assert done.code == 78 and "hint: a fastText model: finetune --task classify --scratch bag" in done.err
