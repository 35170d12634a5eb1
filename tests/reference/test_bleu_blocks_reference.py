"""The tokens of whole blocks are those of sacrebleu, for every tokenizer.

`intl` asks for the Unicode category of characters, which is sacrebleu's business by way of the package regex and ours by
way of unicodedata; where their Unicode versions differ, a character is left out.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import cache

import pytest
from conftest import examples, this_month
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.text.bleu_blocks import SEPARATE
from nlptools.text.mteval import split_intl
from tests.real_data import published

pytest.importorskip("sacrebleu")
regex = pytest.importorskip("regex")
pytestmark = pytest.mark.reference

NAMES = list(SEPARATE)
QUIRKS = "ab05 \t.,.,--/\\&;:!?\"'()_`|$+äß„“–…½²٣٫€¬日，。１𠀀𝟏𐄀😀\ud800"
QUIRKS += "\u00a0\u3000\u2028\u0085\x1c\x0b\r\n\u2000\u2001\u2a6d\u2a6e"


@cache
def theirs(name):
    from sacrebleu.metrics.bleu import _get_tokenizer

    return _get_tokenizer(name)()


def check(name, lines):
    separated = SEPARATE[name](lines).split(b"\n")
    assert separated.pop() == b""
    ours = [[token.decode("utf-8", "surrogatepass") for token in line.split()] for line in separated]
    assert ours == [theirs(name)(line).split() for line in lines]


@cache
def disputed() -> frozenset[str]:
    """The characters of which regex and unicodedata differ: those that one of them does not know yet."""
    characters = "".join(map(chr, range(sys.maxunicode + 1)))
    found = set()
    for category in "PSN":
        known = set(regex.findall(rf"\p{{{category}}}", characters))
        found |= known ^ {c for c in characters if unicodedata.category(c)[0] == category}
    return frozenset(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(600), deadline=None)
@given(st.lists(st.text(st.sampled_from(QUIRKS), max_size=16), min_size=1, max_size=5))
def test_quirks(name, lines):
    check(name, lines)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(600), deadline=None)
@given(st.lists(st.text(st.sampled_from("a5.,-€“ "), max_size=12), min_size=1, max_size=5))
def test_runs_of_points_and_digits(name, lines):
    check(name, lines)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.text(st.sampled_from("7.٣“𝟏€日x"), max_size=9), min_size=1, max_size=3))
def test_points_numbers_and_symbols_of_every_width(name, lines):
    check(name, lines)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_every_character(name):
    assert len(disputed()) < 10_000
    # beyond are private characters and those without a name
    characters = [c for c in map(chr, range(0x32000)) if c not in disputed()]
    lines = ["".join(f"a{c}5{c}{c}b5{c}5 {c}" for c in characters[i : i + 64]) for i in range(0, len(characters), 64)]
    check(name, this_month(lines, 800))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=4))
def test_any_text(name, lines):
    check(name, ["".join(c for c in line if c not in disputed()) for line in lines])


@settings(max_examples=examples(600), deadline=None)
@given(st.text(st.sampled_from(QUIRKS), max_size=16))
def test_intl_of_one_line(line):
    assert split_intl([line])[0] == theirs("intl")(line).split()


@pytest.mark.parametrize("name", NAMES)
def test_translations_of_wmt17(name):
    folder = published("wmt17_en_de_systems")
    for path in sorted(folder.glob("*.de"))[:3]:
        check(name, path.read_text(encoding="utf-8").split("\n")[:-1])
