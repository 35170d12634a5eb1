"""Words as numbers of their characters."""

from __future__ import annotations

from nlptools.text.spelling import BEGIN, END, FIRST, MOST_LETTERS, UNKNOWN, alphabet, numbered, spelled


def test_characters_that_occur_once_are_unknown() -> None:
    known = alphabet({"aab": 1, "cbé": 1, "aé": 1})
    assert known == "abé"
    assert alphabet({"東": 3, "京": 2, "x": 1}) == "東京", "a word that occurs twice shows its characters twice"
    assert alphabet({"東": 1, "京": 1}) == ""
    numbers = numbered(known)
    assert numbers == {"a": FIRST, "b": FIRST + 1, "é": FIRST + 2}
    assert spelled("bca", numbers) == [BEGIN, FIRST + 1, UNKNOWN, FIRST, END]
    assert spelled("", numbers) == [BEGIN, END]


def test_a_long_word_keeps_both_ends() -> None:
    numbers = numbered("abc")
    assert len(spelled("a" * MOST_LETTERS, numbers)) == MOST_LETTERS + 2
    half = MOST_LETTERS // 2
    long = spelled("a" * half + "b" * 1000 + "c" * half, numbers)
    assert long == [BEGIN, *[FIRST] * half, *[FIRST + 2] * half, END]
