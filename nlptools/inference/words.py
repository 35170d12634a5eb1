"""Surprisal of words: from scores of tokens to scores of the words of the text.

A word is a stretch of text between white space. Its pieces are summed. Where the space before a word is a part of its first
piece, the pieces of `cat` also begin `catalogue`, and the next word pays for the end of the word. The correction of
Pimentel & Meister 2024 (arXiv:2406.14561) and Oh & Schuler 2024 (arXiv:2406.10851) moves it: the probability of a word is
multiplied by the probability that a new word or the end of the text follows, and divided by the same of the word before it.
So the scores of the words of a line, and of its end, still sum to the score of the line. The first word is divided by nothing.
Shapes: T tokens of a line, W words of it, V tokens of the vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools.arrays import Array
from nlptools.configs.scoring import Score
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.word_bounds import word_bounds, word_spans
from nlptools.text.word_marks import WordMarks, word_marks

Details = NDArray[np.floating]  # (T, 4) of each token, see below; columns that are not wanted hold any numbers
IMPOSSIBLE = -700.0  # nats; the least log-probability of a boundary, so that no difference of two is infinite
LOG_PROBABILITY, BOUNDARY, RANK, ENTROPY = range(4)  # columns of details, in nats
COLUMNS = 4


@dataclass(frozen=True)
class WordScore:
    """The words of a line.

    Attributes:
        words: unchanged from the text.
        surprisals: of each word, in nats: its negative log-probability, given all words before it.
        tokens: pieces of each word. A word without pieces (control characters only, or a part of the piece of the word
            before it) has 0 and the surprisal 0.
        ranks: of the first piece of each word among all tokens, from 1; None unless wanted, or for a word without pieces.
        entropies: of the distribution of the first piece, in nats; None as above.
        unknown: whether a piece of each word is the unknown token.
    """

    words: list[str]
    surprisals: list[float]
    tokens: list[int]
    ranks: list[int | None]
    entropies: list[float | None]
    unknown: list[bool] = field(default_factory=list)


class Wanted(NamedTuple):
    """Facts to compute about each next-token distribution, in addition to the log-probability of the token.

    Attributes:
        begins: (V,) the tokens that the column BOUNDARY sums, as a log-probability; None: none.
        rank: 1 plus the number of tokens that are more probable (RANK).
        entropy: of the distribution (ENTROPY).
    """

    begins: NDArray[np.bool_] | None = None
    rank: bool = False
    entropy: bool = False

    @property
    def whole(self) -> bool:
        """Whether whole distributions are needed."""
        return self.begins is not None or self.rank or self.entropy


class WordScorer:
    """Groups the scores of tokens by word."""

    def __init__(self, tokenizer: Tokenizer, settings: Score, size: int, eos: int | None = None) -> None:
        """
        Args:
            size: V of the model, which may have more tokens than the tokenizer.
            eos: the end of the text; None: a masked model, which sees both sides and needs no correction.
        """
        self.tokenizer = tokenizer
        self.marks: WordMarks = word_marks(tokenizer)
        begins = None
        if settings.boundary_correction and self.marks.begins is not None and eos is not None:
            begins = np.zeros(size, np.bool_)
            begins[: len(self.marks.begins)] = self.marks.begins[:size]
            begins[eos] = True
        self.wanted = Wanted(begins, "rank" in settings.measures, "entropy" in settings.measures)

    def scores(self, line: str, details: Details, ids: Sequence[int] | Array = ()) -> WordScore:
        """The words of a line, given the details (T or more, 4) of its tokens and of the end of the text.

        `ids` are the tokens, for the correction: white space that they do not show as such, as bytes of no-break spaces, moves
        nothing between two words.
        """
        spans, bounds = word_spans(self.tokenizer, line), word_bounds(self.tokenizer, line, self.marks.at_end)
        first, end = bounds[:-1], bounds[1:]
        log_probs = np.append(details[:, LOG_PROBABILITY].astype(np.float64), 0.0)
        # of an empty range, reduceat returns the number at its start
        surprisals = np.where(first < end, -np.add.reduceat(log_probs, bounds)[:-1], 0.0)
        if self.wanted.begins is not None:
            after = np.append(details[:, BOUNDARY].astype(np.float64), 0.0)[bounds]
            unmarked = ~self.wanted.begins[np.asarray(ids, np.int64)][bounds] if len(ids) else False
            after[(bounds == 0) | unmarked] = 0.0
            surprisals += after[:-1] - after[1:]
        counts = (end - first).tolist()
        ranks = _column(details, RANK, first, counts) if self.wanted.rank else []
        entropies = _column(details, ENTROPY, first, counts) if self.wanted.entropy else []
        words = [line[a:b] for a, b in spans]
        # 0.0 + x is never -0.0
        values = [0.0 + value for value in surprisals.tolist()]
        return WordScore(
            words, values, counts, [None if r is None else int(r) for r in ranks], entropies, self._unknown(ids, bounds)
        )

    def _unknown(self, ids: Sequence[int] | Array, bounds: NDArray[np.int64]) -> list[bool]:
        """Whether each word, which begins and ends at these tokens, has an unknown one."""
        vocab = self.tokenizer.vocab
        before = np.cumsum([0, *(id == (None if vocab is None else vocab.unk) for id in ids)])
        return [bool(before[end] > before[first]) for first, end in itertools.pairwise(bounds)] if len(ids) else []


def _column(details: Details, column: int, first: NDArray[np.int64], counts: list[int]) -> list[float | None]:
    """A column of the first token of each word; None for words without tokens."""
    values = np.append(details[:, column], 0.0)[first].tolist()
    return [value if count else None for value, count in zip(values, counts, strict=True)]
