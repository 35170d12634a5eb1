"""Numbers of words inside and outside a vocabulary."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.errors import DataError, UsageError
from nlptools.text import tokenizer as tokenizers
from nlptools.text.open_words import OpenWords
from nlptools.text.vocab import Vocab

VOCAB = Vocab(["<unk>", "</s>", "a", "b"])


def test_words_outside_the_vocabulary_get_the_next_numbers() -> None:
    words = OpenWords(tokenizers.load("whitespace", vocab=VOCAB), 4)
    assert words.encode_lines(["a x b", "", "y x </s>"]) == [[2, 4, 3], [], [5, 4, 1]]
    assert words.encode_lines(["z a"]) == [[6, 2]] and words.further == ["x", "y", "z"]
    assert words.tokens(np.array([2, 4, 6, 1])).tolist() == [2, 0, 0, 1]


def test_words_are_lowercased_as_the_tokenizer_says() -> None:
    words = OpenWords(tokenizers.load("words", vocab=VOCAB, lowercase=True), 4)
    assert words.encode_lines(["A X, x"]) == [[2, 4, 5, 4]] and words.further == ["x", ","]


def test_without_an_unknown_token_all_words_are_known() -> None:
    words = OpenWords(tokenizers.load("whitespace", vocab=Vocab(["</s>", "a"])), 2)
    assert words.encode_lines(["a a"]) == [[1, 1]] and words.tokens(np.array([1])).tolist() == [1]
    with pytest.raises(DataError, match="'x' is not in the vocabulary"):
        words.encode_lines(["a x"])


@pytest.mark.parametrize("name", ["char", "bytes"])
def test_letters_are_no_words(name: str) -> None:
    with pytest.raises(UsageError, match="does not split text into words"):
        OpenWords(tokenizers.load(name, vocab=VOCAB if name == "char" else None), 4)
