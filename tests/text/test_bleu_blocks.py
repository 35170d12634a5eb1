"""The tokenizers of BLEU over blocks of lines: rules worked out by hand, and that a block is its lines."""

from __future__ import annotations

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.text.bleu_blocks import SEPARATE


def tokens(name: str, lines: list[str]) -> list[list[str]]:
    """The tokens of each line."""
    separated = SEPARATE[name](lines).split(b"\n")
    assert separated.pop() == b""
    return [[token.decode("utf-8", "surrogatepass") for token in line.split()] for line in separated]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("In 1990.", "In 1990."),  # the last point of a line stays
        ("3.5 or 1,000", "3.5 or 1,000"),
        ("x.y", "x . y"),
        (".5", ".5"),
        (" .5", ". 5"),  # a blank is no number
        ("a.5", "a . 5"),
        ("5.a", "5 . a"),
        ("a..5", "a . .5"),
        ("a...5", "a . . . 5"),
        ("7..5", "7 . . 5"),
        ("7...5", "7 . . .5"),
        ("..5", ". . 5"),
        ("5..", "5 . ."),
        (".", "."),
        ("...", ". . ."),
        ("„Hut“ – ja…", "„ Hut “ – ja …"),
        ("5€+3", "5 € + 3"),
        ("½·²", "½·²"),  # fractions and superscripts are numbers
        ("a·²", "a · ²"),
        ("&amp; x-ray", "& amp ; x - ray"),
        ("٣٫٥", "٣٫٥"),
        ("𝟏𐄀x", "𝟏 𐄀 x"),  # beyond the basic plane
        ("a\u00a0b\u3000c", "a b c"),
        ("", ""),
    ],
)
def test_intl(line, expected):
    assert tokens("intl", [line]) == [expected.split()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("我们有3.5个", "我 们 有 3.5 个"),
        ("中.5", "中 . 5"),
        ("你好，world!", "你 好 ， world !"),
        ("5. ", "5."),  # the blank is stripped first
        (" .5", ".5"),
        ("-5 5-6 a-b", "-5 5 - 6 a-b"),
        ("don't &lt;", "don't & lt ;"),  # entities are left alone
        ("x\u2022y", "x \u2022 y"),  # inside U+2001 to U+2A6D, which was meant to be extension B
        ("x\u2000y", "x y"),
        ("x\u2013y", "x \u2013 y"),
        ("𠀀𠀁", "𠀀𠀁"),  # extension B itself
        ("１２", "１ ２"),
        ("", ""),
    ],
)
def test_zh(line, expected):
    assert tokens("zh", [line]) == [expected.split()]


def test_char():
    assert tokens("char", ["ab ü日\t𠀀.", "", "\ud800x"]) == [["a", "b", "ü", "日", "𠀀", "."], [], ["\ud800", "x"]]


@pytest.mark.parametrize("name", SEPARATE)
def test_newlines_inside_a_line_are_blanks(name):
    assert tokens(name, ["a\nb", "5\n.\n5", "\n"]) == tokens(name, ["a b", "5 . 5", " "])


@pytest.mark.parametrize("name", SEPARATE)
@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.text(st.sampled_from("a5.,-(€“½ \u00a0\n日，ü\ud800𠀀𝟏𐄀"), max_size=10), min_size=1, max_size=6))
def test_a_block_is_its_lines(name, lines):
    assert tokens(name, lines) == [tokens(name, [line])[0] for line in lines]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["intl", "zh", "char", "none"])
@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=20))
def test_only_white_space_is_added(name, line):
    assert "".join(tokens(name, [line])[0]) == "".join(line.split())
