"""A tokenizer that numbers all words, also words outside its vocabulary, for models that read the spelling of words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from nlptools.text import byte_spelling, spelling
from nlptools.text.builtin import NamedTokenizer


class Lexicon(NamedTokenizer):
    """Numbers words as they occur, with their capitals; the first numbers are the special tokens of the vocabulary.

    Attributes:
        words: by number.
    """

    def __init__(self, tokenizer: NamedTokenizer, special: int) -> None:
        """
        Args:
            tokenizer: splits texts into words, and has a vocabulary with an unknown word; it may look them up in lower case.
            special: the number of special tokens, the first of the vocabulary.
        """
        super().__init__(tokenizer.kind, tokenizer.vocab)
        self.tokenizer = tokenizer
        self.words = self._vocab().tokens[:special]
        self._numbers: dict[str, int] = {}

    def encode_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The numbers of the words of each line."""
        numbers, rows = self._numbers, self.tokens_lines(lines, threads)
        for word in chain.from_iterable(rows):
            if word not in numbers:
                numbers[word] = len(self.words)
                self.words.append(word)
        return [[numbers[word] for word in row] for row in rows]

    def vocabulary_ids(self, numbers: Iterable[int], special: int) -> np.ndarray:
        """(U,) int64: the id in the vocabulary of each word, the unknown word for others."""
        vocab = self._vocab()
        ids, unk = vocab.ids, vocab.unk
        assert unk is not None
        out = []
        for number in numbers:
            word = self.words[number]
            found = ids.get(word.lower(), unk)
            if not self.tokenizer.lowercase:
                found = ids.get(word, found)
            out.append(number if number < special else found if found >= special else unk)
        return np.array(out, np.int64)

    def letters(self, numbers: Sequence[int], alphabet: str) -> np.ndarray:
        """(U, L) int64: the characters of each word, padded on the right."""
        letters_of = spelling.numbered(alphabet)
        rows = [spelling.spelled(self.words[number], letters_of) for number in numbers]
        out = np.full((len(rows), max(map(len, rows), default=0)), spelling.PAD, np.int64)
        for row, letters in zip(out, rows, strict=True):
            row[: len(letters)] = letters
        return out

    def bytes(self, numbers: Iterable[int], lowercase: bool) -> np.ndarray:
        """(U, C) int64: see `byte_spelling.spell`."""
        words = [self.words[number] for number in numbers]
        return byte_spelling.spell([word.lower() for word in words] if lowercase else words).astype(np.int64)
