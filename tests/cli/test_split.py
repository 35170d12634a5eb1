"""nlptools split: sentences, one per line."""

from __future__ import annotations

import gzip
import time

import pytest

from nlptools.text.sentences import split_sentences

TEXT = "Dr. Smith left. He came back!\n\nWas it late? It was.\n"


def test_sentences_and_empty_lines(call):
    done = call("split", stdin=TEXT)
    assert (done.code, done.err) == (0, "")
    assert done.text == "Dr. Smith left.\nHe came back!\n\nWas it late?\nIt was.\n"
    assert call("split", stdin="").out == b"" and call("split", stdin="\n \n").text == "\n\n"
    assert call("split", stdin="no end").text == "no end\n"


def test_wrapped_paragraphs(call, tmp_path):
    (tmp_path / "a").write_text("One sentence\nover lines. Another\n")
    with gzip.open(tmp_path / "b.gz", "wb") as out:
        out.write(b"one begins\nhere. It ends.\n\nA new\nparagraph.\n\n")
    done = call("split", "--wrapped", "a", "b.gz")
    assert done.text == (
        "One sentence over lines.\nAnother\none begins here.\nIt ends.\n\nA new paragraph.\n\n"
    )  # a paragraph ends with its file
    assert call("split", "a", "b.gz").text.startswith("One sentence\nover lines.\nAnother\none begins\nhere.\n")


def test_blocks_do_not_matter(call, english, tmp_path):
    text = "\n\n".join(english[:3000])
    (tmp_path / "text").write_text(text + "\n")
    expected = "".join(sentence + "\n" for line in text.split("\n") for sentence in split_sentences(line) or [""])
    for args in ((), ("--wrapped",), ("--line-buffered",)):
        assert call("split", *args, "text").text == expected


def test_bad_input(call, tmp_path):
    done = call("split", stdin=b"ok\n\xff\n")
    assert done.code == 65 and "<stdin>:2: invalid UTF-8 at byte 1" in done.err
    assert call("split", "missing").code == 66


@pytest.mark.sampled(2)
@pytest.mark.parametrize("piece", [".", "J. ", "I. ", '."', "! ", "1. ", "a"])
def test_the_time_is_linear(piece):
    """A hundred kilobytes of marks in one line: with the square of the length, this takes many minutes."""
    began = time.process_time()
    split_sentences(piece * 100_000 + "x")
    assert time.process_time() - began < 10
