"""The bytes of words, as bilm-tf and AllenNLP number them."""

from __future__ import annotations

import numpy as np

from nlptools.text import byte_spelling
from nlptools.text.byte_spelling import BEGIN_WORD, COLUMNS, END_WORD, FILL


def test_the_bytes_of_a_word_stand_between_its_marks() -> None:
    spelled = byte_spelling.spell(["ab", "é", ""])
    assert spelled.shape == (3, COLUMNS) and spelled.dtype == np.int16
    assert spelled[0, :5].tolist() == [BEGIN_WORD, 98, 99, END_WORD, FILL]
    assert spelled[1, :4].tolist() == [BEGIN_WORD, 0xC3 + 1, 0xA9 + 1, END_WORD]
    assert spelled[2, :3].tolist() == [BEGIN_WORD, END_WORD, FILL]
    assert (spelled[0, 4:] == FILL).all()


def test_numbers_are_the_published_ones() -> None:
    """bilm-tf: 256 begins a text, 257 ends it, 258 begins a word, 259 ends it, 260 fills up; AllenNLP adds 1 to all."""
    begin, end = byte_spelling.boundaries()
    assert begin[:4].tolist() == [259, 257, 260, 261] and end[:4].tolist() == [259, 258, 260, 261]
    assert byte_spelling.spell(["\xff"]).max() < byte_spelling.NUMBERS


def test_long_words_are_cut_and_counted() -> None:
    words = ["x" * 48, "x" * 49, "漢" * 16, "漢" * 17, "\ud800"]
    spelled = byte_spelling.spell(words)
    assert (spelled[:4, -1] == END_WORD).all()
    assert np.array_equal(spelled[0], spelled[1]) and np.array_equal(spelled[2], spelled[3])
    assert byte_spelling.count_cut(words) == 2
    assert byte_spelling.spell([]).shape == (0, COLUMNS)
