"""Sources in parts that an encoder-decoder can read."""

from __future__ import annotations

from nlptools.inference.source_parts import split
from nlptools.text.tokenizer import load


def test_sentences_stay_whole_where_they_fit() -> None:
    letters = load("bytes")
    for text, most in (
        ("One two. Three four! Five. Six? " * 3, 20),
        ("x" * 50, 7),
        (" " * 30 + "x", 4),
        ("One. " + "word " * 40 + "end. Two.", 16),
        ("", 5),
    ):
        parts = split(text, letters, most)
        assert all(0 < len(part) <= most for part in parts)
        whole = "".join(letters.decode(part) for part in parts)
        assert whole.replace(" ", "") == text.replace(" ", "")
        assert not any(letters.decode(part).strip() in "rd nd or" for part in parts), "words are whole"
    first, second, *_ = (letters.decode(part) for part in split("One two. Three four! Five. Six? ", letters, 20))
    assert (first, second) == ("One two. Three four!", "Five. Six?")
