"""nlptools extract: one summary for each line, whatever comes in."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import environment, examples
from hypothesis import given, settings
from hypothesis import strategies as st

import nlptools
from nlptools.configs import extract as configs
from nlptools.files import line_records
from nlptools.text import extraction
from tests.real_data import published

CATS = "Hello all. The cat sat on the mat. Dogs bark. The cat left the mat. A cat on a mat is happy."


def test_the_most_central_sentence_by_default(run):
    done = run("extract", stdin=f"{CATS}\n\nOnly this\n")
    assert (done.code, done.text, done.err) == (0, "The cat sat on the mat.\n\nOnly this\n", "")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--sentences", 2], "The cat sat on the mat. The cat left the mat."),
        (["--method", "textrank", "--sentences", 9], CATS),
        (["--method", "lead"], "Hello all."),
        (["--method", "lead", "--sentences", 3], "Hello all. The cat sat on the mat. Dogs bark."),
    ],
)
def test_sentences_and_methods(call, args, expected):
    assert call("extract", *args, stdin=CATS + "\n").text == expected + "\n"


def test_a_field_of_tsv_is_read_and_written_as_one(call):
    text = "Dear Ann\\n\\nthe file is C:\\\\new\\tand   here. Bye\n"  # \n ends a sentence, \\n does not
    assert call("extract", "--method", "lead", stdin=text).text == "Dear Ann\n"
    done = call("extract", "--method", "lead", "--sentences", 2, stdin=text)
    assert done.text == "Dear Ann the file is C:\\\\new and here.\n"
    assert line_records.unescape(done.lines[0]) == nlptools.extract(line_records.unescape(text.strip()), 2, "lead")


@pytest.mark.parametrize(
    ("stdin", "count"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"a", 1),
        (b"a\r\nb\r\n", 2),
        (b"\xef\xbb\xbfa\n", 1),
        (b"\xef\xbb\xbf", 0),
        ("a\u2028b\u0085c\x0bd\x0ce\n".encode(), 1),
        (b"a\0b\n\n", 2),
        (b"\\n\\n\n. . .\n", 2),
    ],
)
@pytest.mark.parametrize("method", configs.METHODS)
def test_one_line_for_each_line(call, method, stdin, count):
    done = call("extract", "--method", method, stdin=stdin)
    assert (done.code, done.out.count(b"\n"), done.err) == (0, count, "")
    assert b"\r" not in done.out and b"\xef\xbb\xbf" not in done.out


@settings(max_examples=examples(200))
@given(st.text("ab AB.!?\n\t\\", max_size=40), st.integers(1, 3), st.sampled_from(configs.METHODS))
def test_a_summary_stays_one_field(text, number, method):
    """What the command does to a line, here without a process."""
    found = line_records.escape(extraction.extract(line_records.unescape(line_records.escape(text)), number, method))
    assert not set(found) & set("\n\t\r")
    words = line_records.unescape(found).split()
    there = iter(text.split())
    assert all(word in there for word in words), "words of the text, in their order"


def test_files_in_turn_and_an_output(call, tmp_path):
    (tmp_path / "a").write_text("One. Two.\n")
    (tmp_path / "b").write_text("Three. Four.")
    done = call("extract", "--method", "lead", "a", "-", "b", "-o", "out", stdin="Five. Six.\n")
    assert (done.code, done.out) == (0, b"")
    assert (tmp_path / "out").read_text() == "One.\nFive.\nThree.\n"
    assert call("extract", "a", "-o", "out").code == 73
    assert call("extract", "a", "-o", "out", "--force", "--line-buffered").code == 0
    assert (tmp_path / "out").read_text() == "One.\n"


def test_an_answer_comes_before_the_next_question():
    with subprocess.Popen(
        [sys.executable, "-m", "nlptools", "extract", "--line-buffered"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for name in (b"One", b"Two"):
            process.stdin.write(name + b" here. Other.\n")
            process.stdin.flush()
            assert process.stdout.readline() == name + b" here.\n"
        process.stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["--sentences", 0], 2),
        (["--sentences", "x"], 2),
        (["--method", "magic"], 2),
        (["-", "-"], 2),
        (["nowhere"], 66),
        (["."], 66),
    ],
)
def test_wrong_usage(call, args, code):
    done = call("extract", *args, stdin="One.\n")
    assert (done.code, done.out) == (code, b"") and done.err.startswith("nlptools extract: ")


def test_invalid_bytes(call):
    done = call("extract", stdin=b"fine\n\xff\n")
    assert done.code == 65 and "<stdin>:2" in done.err
    assert call("extract", "--encoding-errors", "replace", stdin=b"\xff.\n").text == "\ufffd.\n"


def test_the_command_offers_the_methods_of_the_library():
    assert set(configs.METHODS) == set(extraction.METHODS)


def test_mails(call):
    import json

    path = published("aeslc", "dev.jsonl")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:300] if line]
    bodies = "".join(line_records.escape(row["text"]) + "\n" for row in rows)
    for method in configs.METHODS:
        done = call("extract", "--method", method, stdin=bodies)
        assert (done.code, len(done.lines)) == (0, len(rows))
        expected = [extraction.extract(row["text"], 1, method) for row in rows]
        assert [line_records.unescape(line) for line in done.lines] == expected
