"""Words inside and outside a vocabulary, for models that read words as their spellings."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from nlptools import messages
from nlptools.errors import UsageError
from nlptools.text import byte_spelling
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.tokenizer import Tokenizer


class OpenWords:
    """Numbers for all words: the ids of the vocabulary, and from `size` on, words outside it as they occur.

    Attributes:
        size: the number of ids of the vocabulary.
        further: the words outside it, in the order of their numbers.
    """

    def __init__(self, tokenizer: Tokenizer, size: int) -> None:
        """
        Raises:
            UsageError: the tokens are not words.
        """
        check_words(tokenizer)
        assert tokenizer.vocab is not None
        self.tokenizer, self.size, self.unk = tokenizer, size, tokenizer.vocab.unk
        self.further: list[str] = []
        self._numbers = dict(tokenizer.vocab.ids)

    def encode_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The numbers of the words of each line. Raises DataError for an unknown word, if the vocabulary has no <unk>."""
        if self.unk is None:
            return self.tokenizer.encode_lines(lines, threads)
        numbers, rows = self._numbers, self.tokenizer.tokens_lines(lines, threads)
        for word in chain.from_iterable(rows):
            if word not in numbers:
                numbers[word] = self.size + len(self.further)
                self.further.append(word)
        return [[numbers[word] for word in row] for row in rows]

    def tokens(self, numbers: np.ndarray) -> np.ndarray:
        """The tokens of the vocabulary for numbers: the unknown token for words outside it."""
        return numbers if self.unk is None else np.where(numbers < self.size, numbers, self.unk)

    def warn_of_cut(self) -> None:
        """Warn of words that are longer than a spelling, if there are any."""
        assert self.tokenizer.vocab is not None
        cut = byte_spelling.count_cut(self.tokenizer.vocab.tokens) + byte_spelling.count_cut(self.further)
        if cut:
            what = f"longer than {byte_spelling.COLUMNS - 2} bytes, the model does not see their ends"
            messages.warn(f"{messages.counted(cut, 'word is', 'different words are')} {what}", kind="long words")


def check_words(tokenizer: Tokenizer) -> None:
    """Raise UsageError unless the tokens are words."""
    if not isinstance(tokenizer, NamedTokenizer) or tokenizer.kind in ("char", "bytes"):
        raise UsageError(
            f"the tokenizer '{tokenizer.kind}' does not split text into words, which this model reads letter by letter",
            hint="--tokenizer words or whitespace, with --vocab",
        )
