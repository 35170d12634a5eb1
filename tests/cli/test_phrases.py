"""nlptools phrases: one line for each line, learned or from a file."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import environment

TEXT = "new york is big\n\nnew york is old\na new day\nthe house of lords\nhouse of lords\n"
EASY = ("--min-count", "1", "--threshold", "1.9")


def test_learns_and_joins(run, tmp_path):
    done = run("phrases", *EASY, stdin=TEXT)
    joined = "new_york is big\n\nnew_york is old\na new day\nthe house_of lords\nhouse_of lords\n"
    assert (done.code, done.text, done.err) == (0, joined, "")
    (tmp_path / "a").write_text(TEXT)
    assert run("phrases", *EASY, "a").text == joined
    done = run("phrases", *EASY, "a", "-o", "out")
    assert (done.code, done.text, (tmp_path / "out").read_text()) == (0, "", joined)
    assert run("phrases", *EASY, "a", "-o", "out").code == 73


def test_connectors_from_a_list_a_file_and_by_name(call, tmp_path):
    (tmp_path / "words").write_text("of\n the \n\n")
    for words in ("of,the", "words", "english"):
        done = call("phrases", *EASY, "--connectors", words, "--delimiter", "+", stdin=TEXT)
        assert (done.code, done.lines[-2:]) == (0, ["the house+of+lords", "house+of+lords"]), done.err
    assert call("phrases", "--connectors", "no/such", stdin=TEXT).code == 66


def test_a_file_joins_the_same(call, tmp_path):
    first = call("phrases", *EASY, "--passes", "2", "--save", "m", stdin=TEXT)
    assert (first.code, (tmp_path / "m").read_text().count("# phrases\t")) == (0, 2)
    for extra in ([], ["--line-buffered"]):
        done = call("phrases", "--model", "m", *extra, stdin=TEXT)
        assert (done.code, done.out, done.err) == (0, first.out, "")
    assert "_" not in call("phrases", "--model", "m", "--threshold", "1000", stdin=TEXT).text
    assert call("phrases", "--model", "m", stdin="").text == ""
    again = call("phrases", *EASY, "--save", "m", stdin=TEXT)
    assert (again.code, again.text) == (73, "")
    assert call("phrases", *EASY, "--save", "m", "--force", stdin=TEXT).code == 0
    (tmp_path / "m").write_text("new york\t3\n")
    done = call("phrases", "--model", "m", stdin=TEXT)
    assert (done.code, done.err.count("\n")) == (78, 1)
    assert "m:1: not a file of phrases" in done.err


def test_a_file_answers_while_the_pipe_is_open(call, tmp_path):
    call("phrases", *EASY, "--save", "m", stdin=TEXT)
    process = subprocess.Popen(
        [sys.executable, "-m", "nlptools", "phrases", "--model", "m"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(),
    )
    assert process.stdin and process.stdout
    for _ in range(2):
        process.stdin.write(b"in new york city\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"in new_york city\n"
    process.stdin.close()
    process.stdout.close()
    assert process.wait() == 0


@pytest.mark.parametrize(
    "args",
    [
        ["--scoring", "npmi", "--threshold", "2"],
        ["--threshold", "0"],
        ["--threshold", "nan"],
        ["--delimiter", "a b"],
        ["--min-count", "0"],
        ["--save", "-"],
        ["--model", "m", "--min-count", "3"],
        ["--model", "m", "--save", "n"],
    ],
)
def test_wrong_usage(call, args):
    done = call("phrases", *args, stdin=TEXT)
    assert (done.code, done.out) == (2, b"")


def test_bad_input(call):
    for text in (b"", b"\n \n"):
        done = call("phrases", stdin=text)
        assert (done.code, done.err) == (65, "nlptools phrases: no training data: expected at least one word\n")
    done = call("phrases", stdin=b"a\nb \xff\n")
    assert done.code == 65
    assert "<stdin>:2: invalid UTF-8 at byte 3" in done.err
    assert call("phrases", "--encoding-errors", "ignore", stdin=b"a\nb \xff\n").text == "a\nb\n"


def test_odd_text(call):
    text = "a\u2028b\u0085c\x0bd\x0ce \u3000\r\n\ufeff a\0b\n"
    assert call("phrases", stdin="\ufeff" + text).text == "a\u2028b\u0085c\x0bd\x0ce \u3000\n\ufeff a\0b\n"


def test_forgotten_pairs_are_told(call):
    done = call("phrases", "--max-vocab", "3", stdin=TEXT)
    assert done.code == 0
    assert "more than 3 different pairs" in done.err


def test_nothing_is_left_in_the_temporary_directory(run, tmp_path):
    (tmp_path / "temporary").mkdir()
    run("phrases", "--passes", "3", stdin=TEXT, env={"TMPDIR": str(tmp_path / "temporary")})
    assert not list((tmp_path / "temporary").iterdir())
