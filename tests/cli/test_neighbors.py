"""neighbors: a line for each line, whatever stands in it."""

from __future__ import annotations

import json
import shlex
import struct
import tempfile
from pathlib import Path

import pytest
from conftest import Run
from tiny_encoders import encoder_bundle

from tests.test_readme import command

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
    done = call("neighbors", table, "--to", "jsonl", "--method", "mul", stdin="king - man + woman\n\nzz + king - zz\n")
    first, empty, unknown = map(json.loads, done.lines)
    assert first["neighbors"][0][0] == "queen" and len(first["neighbors"]) == 3
    assert empty == {"query": "", "neighbors": []}
    assert unknown == {"query": "zz + king - zz", "neighbors": [], "unknown": ["zz"]}


def test_distances_and_dot_products(call: Run, table: Path) -> None:
    done = call("neighbors", table, "-k", 2, "--metric", "euclidean", stdin="man\n")
    assert done.lines == ["man\tking\t1.2806\twoman\t2.0000"] and "distances, the smallest first" in done.err
    done = call("neighbors", table, "-k", 2, "--metric", "dot", "--to", "jsonl", stdin="man\n")
    neighbors = [["na\u00efve", 9.9], ["king", 1.09]]
    assert json.loads(done.out) == {"query": "man", "metric": "dot", "neighbors": neighbors}
    done = call("neighbors", table, "--metric", "dot", "--method", "mul", stdin="man\n")
    assert done.code == 2 and "--method" in done.err


def test_options_reach_the_search(call: Run, table: Path) -> None:
    done = call("neighbors", table, "-k", 9, "--restrict", 3, stdin="na\u00efve\n")
    assert sorted(done.lines[0].split("\t")[1::2]) == ["king", "man", "queen"]
    again = call("neighbors", table, "-k", 9, "--restrict", 3, "--line-buffered", stdin="na\u00efve\n")
    assert again.out == done.out
    given = call("neighbors", table, "-k", 9, "--restrict", 3, "--text", "na\u00efve")
    assert given.out == done.out


def test_words_of_a_fasttext_model_that_it_has_never_seen(call: Run, tmp_path: Path) -> None:
    import numpy as np

    from nlptools.vectors.files.formats import save
    from nlptools.vectors.subwords import Subwords
    from nlptools.vectors.table import Vectors

    rng = np.random.default_rng(0)
    own, buckets = (rng.standard_normal((n, 8), dtype=np.float32) for n in (2, 500))
    kept = Subwords(3, 6, buckets, own)
    words = ["international", "cat"]
    save(Vectors(words, kept.vectors(words, range(len(words))), subwords=kept), str(tmp_path / "m.bin"), "fasttext")
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


# -- lines with vectors -----------------------------------------------------------------------------------------------


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """An array and its lines, of which two are equal, as embed writes them."""
    import numpy as np

    from nlptools.vectors.files.array_writer import ArrayWriter

    rows = np.array([[1, 0], [0.9, 0.1], [0.9, 0.1], [-1, 0.5], [0, 1]], np.float32)
    texts = ["the cat sat", "a cat - on a mat", "a cat - on a mat", "tab\there", ""]
    for form in ("npy", "jsonl"):
        with ArrayWriter(str(tmp_path / f"t.{form}"), form, 2) as writer:
            writer.write(rows, texts)
    (tmp_path / "texts").write_text("\n".join(texts) + "\n")
    return tmp_path / "t.npy"


def test_lines_are_words(call: Run, lines: Path) -> None:
    done = call("neighbors", lines, "-k", 3, stdin="the cat sat\na cat - on a mat\nno such line\n")
    rows = [line.split("\t") for line in done.lines]
    assert rows[0] == ["the cat sat", "a cat - on a mat", "0.9939", "", "0.0000", "tab\\there", "-0.8944"]
    assert rows[1][:3] == ["a cat - on a mat", "the cat sat", "0.9939"] and rows[2] == ["no such line"]
    assert "1 repeated word;" in done.err and "1 of 3 queries" in done.err
    expected = done.out
    for args, data in (
        (("t.jsonl", "queries"), b""),
        (("-", "queries"), (lines.parent / "t.jsonl").read_bytes()),
        (("-", "queries", "--lines", "texts"), lines.read_bytes()),
        (("t.npy", "queries", "--lines", "texts"), b""),
    ):
        (lines.parent / "queries").write_text("the cat sat\na cat - on a mat\nno such line\n")
        done = call("neighbors", *args, "-k", 3, stdin=data)
        assert done.out == expected, args
        noun = ("line", "are no line of the text") if "--lines" in args else ("word", "have words without a vector")
        assert f"1 repeated {noun[0]};" in done.err and f"1 of 3 queries {noun[1]}" in done.err, args


def test_queries_with_vectors(call: Run, lines: Path) -> None:
    queries = '{"text": "the cat sat", "embedding": [2, 0]}\n\n{"embedding": [0, 3]}\n'
    done = call("neighbors", lines, "--embedded", "-k", 2, stdin=queries)
    assert done.code == 0
    assert done.lines == [
        "the cat sat\tthe cat sat\t1.0000\ta cat - on a mat\t0.9939",
        "",
        "2\t\t1.0000\ttab\\there\t0.4472",
    ]
    shown = call("neighbors", lines, "--embedded", "-k", 1, "--to", "jsonl", stdin=queries).lines
    assert json.loads(shown[0]) == {"query": "the cat sat", "neighbors": [["the cat sat", 1.0]]}
    assert json.loads(shown[1]) == {"query": "", "neighbors": []}
    assert call("neighbors", lines, "--embedded", "-k", 2, "--line-buffered", stdin=queries).out == done.out
    bad = call("neighbors", lines, "--embedded", stdin='{"embedding": [1, 2]}\n{"embedding": [1]}\n')
    assert bad.code == 65 and "<stdin>:2: expected 2 numbers, as in VECTORS, found 1" in bad.err
    assert call("neighbors", lines, "--embedded", "--method", "mul").code == 2


def test_an_array_without_words(call: Run, lines: Path) -> None:
    (lines.parent / "t.vocab.tsv").unlink()
    done = call("neighbors", lines, stdin="x\n")
    assert done.code == 66 and "t.npy: an array without words: no " in done.err and "--lines" in done.err
    (lines.parent / "queries").write_text("0\n")
    done = call("neighbors", "-", "queries", "-k", 1, stdin=lines.read_bytes())
    assert done.lines == ["0\t1\t0.9939"], "numbers from 0"
    done = call("neighbors", lines, "--lines", "queries", stdin="x\n")
    assert done.code == 65 and "queries: 1 lines for the 5 vectors of" in done.err
    done = call("neighbors", "-", "queries", stdin=lines.read_bytes()[:-1])
    assert done.code == 78 and "<stdin>: the input ends inside an array" in done.err


def test_a_pipe_with_a_name(shell: Run, lines: Path) -> None:
    done = shell("echo 'the cat sat' | nlptools neighbors <(cat t.jsonl) -k 1")
    assert done.text == "the cat sat\ta cat - on a mat\t0.9939\n"


def test_a_model_for_queries(call: Run, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("4 2\ncat 1 0.1\ndog 0.9 0.3\nstock 0 1\nmarket -0.1 0.9\n")
    (tmp_path / "texts").write_text("cat dog\nstock market\nmarket\n")
    assert call("embed", "v.txt", "texts", "-o", "t.npy").code == 0
    done = call(
        "neighbors", "t.npy", "--lines", "texts", "--model", "v.txt", "-k", 1, stdin="a dog - and cat\n\nStock\nzzz\n"
    )
    assert done.code == 0
    rows = [line.split("\t")[:2] for line in done.lines]
    assert rows == [["a dog - and cat", "cat dog"], [""], ["Stock", "stock market"], ["zzz", "cat dog"]]
    assert "have no known word" in done.err and "left out" in done.err
    assert call("neighbors", "t.npy", "--lines", "texts", "--model", "v.txt", "-k", 1, stdin="cat dog\n").lines == [
        "cat dog\tcat dog\t1.0000"
    ]
    (tmp_path / "w.txt").write_text("1 3\ncat 1 0.1 2\n")
    done = call("neighbors", "t.npy", "--lines", "texts", "--model", "w.txt", stdin="cat\n")
    assert done.code == 2 and "3 dimensions, the vectors of t.npy 2" in done.err and "--embedded" in done.err
    assert call("neighbors", "t.npy", "--lines", "texts", "--model", "v.txt", "--embedded").code == 2
    assert call("neighbors", "t.npy", "--lines", "texts", "--model", "v.txt", "--method", "mul").code == 2


def test_an_encoder_for_queries(call: Run, tmp_path: Path) -> None:
    model, texts = encoder_bundle(tmp_path / "bert"), ["the cat sat", "a mat", "it ate up the mat"]
    (tmp_path / "texts").write_text("".join(f"{text}\n" for text in texts))
    assert call("embed", model, "texts", "-o", "t.npy").code == 0
    done = call("neighbors", "t.npy", "--lines", "texts", "--model", model, "-k", 3, stdin="a mat\n\ncat + on - it\n")
    assert done.code == 0 and "29% of the tokens of the text are unknown" in done.err  # + and -
    rows = [line.split("\t") for line in done.lines]
    assert [row[0] for row in rows] == ["a mat", "", "cat + on - it"] and len(rows[1]) == 1
    assert rows[0][1] == "a mat" and float(rows[0][2]) == pytest.approx(1, abs=1e-3)
    asked = call("embed", model, "--to", "jsonl", stdin="cat + on - it\n").text
    same = call("neighbors", "t.npy", "--lines", "texts", "--embedded", "-k", 3, stdin=asked).lines[0].split("\t")
    # the text as it stands, whatever the precision of the model
    expected = dict(zip(same[1::2], map(float, same[2::2]), strict=True))
    assert dict(zip(rows[2][1::2], map(float, rows[2][2::2]), strict=True)) == pytest.approx(expected, abs=5e-3)
    assert sorted(expected) == sorted(texts)
    (tmp_path / "v.txt").write_text("1 2\ncat 1 0\n")
    wrong = call("neighbors", "v.txt", "--model", model, stdin="cat\n")
    assert wrong.code == 2 and "have 8 dimensions, the vectors of v.txt 2" in wrong.err


def test_a_text_is_searched_in_one_command(call: Run, tmp_path: Path) -> None:
    """The example of the manual page gives what embed and neighbors give one after the other."""
    encoder_bundle(tmp_path / "minilm")
    texts = ["the cat sat", "a mat", "it ate up the mat", "", "a mat", "tab\there", "the mat"]
    (tmp_path / "notes.txt").write_text("".join(f"{text}\n" for text in texts))
    (tmp_path / "questions.txt").write_text("a mat\n\nwhat ate up the mat ?\n")
    lines = dict(command("neighbors").page.examples)
    done = call(*shlex.split(lines["Search a text by meaning, with a question per line:"])[1:])
    assert done.code == 0 and "notes.txt: 1 repeated line;" in done.err, done.err
    embed, search = (
        shlex.split(part)[1:] for part in lines["The same, with vectors that are computed once:"].split(";")
    )
    assert call(*embed).code == 0
    rows = [line.split("\t") for line in done.lines]
    for row, line in zip(rows, call(*search).lines, strict=True):  # in another precision, perhaps: near ones may swap
        same = line.split("\t")
        expected = dict(zip(same[1::2], map(float, same[2::2]), strict=True))
        assert row[0] == same[0]
        assert dict(zip(row[1::2], map(float, row[2::2]), strict=True)) == pytest.approx(expected, abs=5e-3)
    assert rows[0][:3] == ["a mat", "a mat", "1.0000"] and rows[1] == [""] and len(rows[2]) == 11
    one = call("neighbors", "minilm", "--corpus", "notes.txt", "-k", 5, "--line-buffered", "questions.txt")
    assert [sorted(line.split("\t")[1::2]) for line in one.lines] == [sorted(row[1::2]) for row in rows]
    assert not list(Path(tempfile.gettempdir()).glob("nlptools-search-*"))


def test_refusals_of_a_text_to_search(call: Run, table: Path) -> None:
    (table.parent / "notes").write_text("")
    for args, code, message in (
        (["--model", "v.txt"], 2, "--model cannot be combined with --corpus"),
        (["--embedded"], 2, "--corpus cannot be combined with --embedded"),
        (["--method", "mul"], 2, "--method cannot be combined with --corpus"),
        (["--lines", "notes"], 2, "--corpus cannot be combined with --lines"),
        ([], 65, "notes: no lines to search"),
        (["-"], 65, "notes: no lines to search"),
    ):
        done = call("neighbors", table, "--corpus", "notes", *args, stdin="king\n")
        assert (done.code, done.out) == (code, b"") and message in done.err, done.err
    done = call("neighbors", table, "--corpus", "missing", stdin="king\n")
    assert done.code == 66 and "missing: no such file" in done.err


def test_pipes_of_embed(fork_shell: Run, tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("4 2\ncat 1 0.1\ndog 0.9 0.3\nstock 0 1\nmarket -0.1 0.9\n")
    (tmp_path / "texts").write_text("cat dog\nstock market\nmarket\n")
    (tmp_path / "queries").write_text("cat dog\n")
    first = fork_shell("nlptools embed v.txt texts --to jsonl | nlptools neighbors - queries -k 1")
    assert first.code == 0 and first.text.startswith(
        "cat dog\tstock market\t0.1543"
    )  # .1425 of (.95, .2) and (-.05, .95)
    again = fork_shell("nlptools embed v.txt texts | nlptools neighbors - queries --lines texts -k 1")
    assert again.text == first.text
    line = "nlptools embed v.txt texts -o t.npy && echo dog | nlptools embed v.txt --to jsonl"
    assert fork_shell(f"{line} | nlptools neighbors t.npy --lines texts --embedded -k 1").text.startswith(
        "dog\tcat dog\t0.99"
    )
    assert len(fork_shell("nlptools embed v.txt texts | nlptools project -").lines) == 3


def test_a_line_per_neighbor(call: Run, lines: Path) -> None:
    queries = "the cat sat\n\nno such line\na cat - on a mat\n"
    rows = [line.split("\t") for line in call("neighbors", lines, "-k", 3, "--to", "tsv", stdin=queries).lines]
    # the second of two equal lines is left out, and the numbers of the lines after it stay those of the file
    assert rows[:3] == [
        ["1", "1", "2", "0.9939", "a cat - on a mat"],
        ["1", "2", "5", "0.0000", ""],
        ["1", "3", "4", "-0.8944", "tab\\there"],
    ]
    assert [row[:3] for row in rows[3:]] == [["4", "1", "1"], ["4", "2", "5"], ["4", "3", "4"]]
    again = call("neighbors", lines, "-k", 3, "--to", "tsv", "--line-buffered", stdin=queries)
    assert [line.split("\t") for line in again.lines] == rows
