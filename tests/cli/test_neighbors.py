"""neighbors: a line for each line, whatever stands in it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from conftest import Run

TABLE = "6 3\nking 1 1 0.1\nqueen 1 -1 0.1\nman 0 1 0.9\nwoman 0 -1 0.9\nnew york 0.5 0.25 -1\nna\u00efve 9 9 1\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "v.txt").write_text(TABLE, encoding="utf-8")
    return tmp_path / "v.txt"


def test_one_line_for_each_line(call: Run, table: Path) -> None:
    done = call("neighbors", table, "-k", 2, stdin="king - man + woman\n\nzzz\r\nnew york\nking\tx\nking -\nman")
    assert done.code == 0
    rows = [line.split("\t") for line in done.lines]
    assert [row[0] for row in rows] == ["king - man + woman", "", "zzz", "new york", "king\\tx", "king -", "man"]
    assert [len(row) for row in rows] == [5, 1, 1, 5, 1, 1, 5]
    assert rows[0][1] == "queen" and float(rows[0][2]) == pytest.approx(0.9987, abs=1e-4)
    assert done.err == "nlptools neighbors: warning: 3 of 6 queries have words without a vector\n"


def test_json(call: Run, table: Path) -> None:
    done = call("neighbors", table, "--json", "--method", "mul", stdin="king - man + woman\n\nzz + king - zz\n")
    first, empty, unknown = map(json.loads, done.lines)
    assert first["neighbors"][0][0] == "queen" and len(first["neighbors"]) == 3
    assert empty == {"query": "", "neighbors": []}
    assert unknown == {"query": "zz + king - zz", "neighbors": [], "unknown": ["zz"]}


def test_options_reach_the_search(call: Run, table: Path) -> None:
    done = call("neighbors", table, "-k", 9, "--restrict", 3, stdin="na\u00efve\n")
    assert sorted(done.lines[0].split("\t")[1::2]) == ["king", "man", "queen"]
    again = call("neighbors", table, "-k", 9, "--restrict", 3, "--line-buffered", stdin="na\u00efve\n")
    assert again.out == done.out


def test_words_of_a_fasttext_model_that_it_has_never_seen(call: Run, tmp_path: Path) -> None:
    import numpy as np

    from nlptools.vectors.formats import save
    from nlptools.vectors.subwords import Subwords
    from nlptools.vectors.table import Vectors

    rng = np.random.default_rng(0)
    own, buckets = (rng.standard_normal((n, 8), dtype=np.float32) for n in (2, 500))
    kept = Subwords(3, 6, buckets, own)
    words = ["international", "cat"]
    save(Vectors(words, kept.vectors(words, 0), subwords=kept), str(tmp_path / "m.bin"), "fasttext")
    done = call("neighbors", "m.bin", "-k", 1, stdin="internationally\nxyz - cat\n\u00e9\n")
    rows = [line.split("\t") for line in done.lines]
    assert done.code == 0 and done.err == ""
    assert rows[0][1] == "international" and float(rows[0][2]) > 0.5
    assert rows[1][1] == "international" and len(rows[2]) == 3


@pytest.mark.parametrize("name", ["-", "v.txt"])
def test_vectors_from_standard_input(call: Run, table: Path, name: str) -> None:
    (table.parent / "words").write_text("king\n")
    expected = call("neighbors", "v.txt", "words").out
    assert call("neighbors", name, "words", stdin=TABLE).out == expected
    done = call("neighbors", "-", stdin=TABLE)
    assert done.code == 2 and "both" in done.err


@pytest.mark.parametrize(
    ("name", "data", "code", "said"),
    [
        ("a.txt", b"1000000000000 300\nking 1\n", 78, "a.txt:1: the header promises"),
        ("a.txt", b"1 2\nking 1 nan\n", 78, "a.txt:2: expected a finite number"),
        ("a.txt", b"king 1 2\n", 78, "--from glove"),
        ("a.bin", b"1 2\n\xff\xfe " + struct.pack("<2f", 1, 2), 78, "not valid UTF-8"),
        ("a.parquet", b"", 2, "--from"),
        ("missing.txt", None, 66, "no such file"),
        ("a", None, 66, "no such"),
    ],
)
def test_bad_files(call: Run, tmp_path: Path, name: str, data: bytes | None, code: int, said: str) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    done = call("neighbors", name, stdin="king\n")
    assert (done.code, done.out) == (code, b"") and said in done.err, done.err


def test_a_large_binary_file_is_read_as_far_as_needed(call: Run, tmp_path: Path) -> None:
    row = struct.pack("<2f", 1, 2) * 1000
    (tmp_path / "a.bin").write_bytes(b"3000 2000\n" + b"".join(b"w%d " % i + row for i in range(2999)) + b"\xff " + row)
    done = call("neighbors", "a.bin", "-k", 1, "--restrict", 20, stdin="w3\n")
    assert (done.code, done.lines, done.err) == (0, ["w3\tw0\t1.0000"], "")
    for query in ("w3", "other"):
        done = call("neighbors", "a.bin", "-k", 1, stdin=f"{query}\n")
        assert (done.code, done.out) == (78, b"")
        assert "a.bin: word 3,000 is not valid UTF-8" in done.err and done.err.count("\n") == 2


def test_bad_queries(call: Run, table: Path) -> None:
    done = call("neighbors", table, stdin=b"king\n\xff\n")
    assert done.code == 65 and "<stdin>:2" in done.err
    assert call("neighbors", table, "missing").code == 66
    assert call("neighbors", table, "-k", 0).code == 2


def test_it_answers_while_the_pipe_is_open(shell: Run, table: Path) -> None:
    line = "mkfifo q a; (echo king; read -r answer < a; echo man) > q &\n"
    line += 'nlptools neighbors v.txt -k 1 q | { read -r one; echo "$one" > a; echo "$one"; cat; }'
    done = shell(line, timeout=60)
    assert [row.split("\t")[0] for row in done.lines] == ["king", "man"]
