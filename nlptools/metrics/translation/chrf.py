"""chrF and chrF++: F-score of the character n-grams and word n-grams shared by translation and reference.

Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation" (W15-3049); Popović 2017, "chrF++: words
helping character n-grams" (W17-4770). Scores equal sacrebleu's (Post 2018, W18-6319) to the last bit.
Departure: n-grams are counted with numpy over a block of segments at a time.
Shapes: S segments, B resamples, O orders: of characters, then of words.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from nlptools.errors import UsageError
from nlptools.metrics.metric import Floats, Ints, Items, Table
from nlptools.metrics.ngrams import END, Ids, matches
from nlptools.metrics.translation.metric import CorpusMetric, References, score_type

_PUNCTUATION = frozenset(string.punctuation)
_TINY = 1e-16  # precision or recall without n-grams, with smoothing


@dataclass(frozen=True)
class Chrf(CorpusMetric):
    """chrF; with a `word_order` of 2, chrF++.

    Attributes:
        char_order, word_order: the longest n-grams; 0 for none.
        beta: how many times recall weighs as much as precision.
        lowercase: ignore case.
        whitespace: white space counts as characters.
        eps_smoothing: every order counts, even without n-grams, as in the author's script; otherwise the mean is over
            the orders in which both translation and reference have n-grams.

    Raises:
        UsageError: no n-grams at all, or a negative order.
    """

    char_order: int = 6
    word_order: int = 0
    beta: int = 2
    lowercase: bool = False
    whitespace: bool = False
    eps_smoothing: bool = False

    def __post_init__(self) -> None:
        if min(self.char_order, self.word_order) < 0 or not self.order:
            raise UsageError(
                f"expected orders of n-grams from 0, not both 0: got {self.char_order} of characters, "
                f"{self.word_order} of words"
            )

    @property
    def order(self) -> int:
        """O: the number of n-gram lengths."""
        return self.char_order + self.word_order

    @property
    def name(self) -> str:
        return f"chrF{self.beta}" + "+" * self.word_order

    @property
    def columns(self) -> tuple[str, ...]:
        orders = [f"char{n + 1}" for n in range(self.char_order)] + [f"word{n + 1}" for n in range(self.word_order)]
        return tuple(f"{order}_{kind}" for order in orders for kind in ("hypothesis", "reference", "match"))

    def _count(self, hypotheses: Sequence[str], references: References) -> Ints:
        """N-grams of hypothesis, of reference, and shared n-grams, by order, of each segment: (S, 3 O).

        Of several references, the one with the best score counts, the first of equals.
        """
        best = np.zeros((len(hypotheses), 3 * self.order), np.int64)
        highest = np.full(len(hypotheses), -1.0)
        # Each reference is scored alone; a missing one ranks below every score.
        for reference in references:
            table = self._table([hypotheses, [line or "" for line in reference]])
            scores = self.scores(table)
            scores[[line is None for line in reference]] = -np.inf
            better = scores > highest
            best[better], highest[better] = table[better], scores[better]
        return best

    def _table(self, texts: list[Sequence[str]]) -> Ints:
        """The statistics of hypotheses and one reference (2 texts of S lines): (S, 3 O)."""
        if self.lowercase:
            texts = [[line.lower() for line in lines] for lines in texts]
        table = np.empty((len(texts[0]), self.order, 3), np.int64)
        for count, streams, counted in (
            (self.char_order, self._characters, table[:, : self.char_order]),
            (self.word_order, _words, table[:, self.char_order :]),
        ):
            if not count:
                continue
            tokens, num_ids = streams(texts)
            lengths = [np.diff(np.flatnonzero(stream == END), prepend=-1) - 1 for stream in tokens]
            grams = np.maximum(np.stack(lengths, axis=1)[:, None] - np.arange(count)[:, None], 0)  # (S, count, 2)
            counted[:, :, 0] = grams[:, :, 0] * (grams[:, :, 1] > 0)  # counts only if the reference has n-grams too
            counted[:, :, 1] = grams[:, :, 1]
            counted[:, :, 2] = matches(tokens, num_ids, len(texts[0]), count)
        return table.reshape(len(table), -1)

    def _characters(self, texts: list[Sequence[str]]) -> tuple[list[Ints], int]:
        """The characters of each text as ids, END after each line; and the number of ids."""
        if not self.whitespace:
            texts = [["".join(line.split()) for line in lines] for lines in texts]
        joined = "".join(chain.from_iterable(texts))
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
        used = np.zeros(0x110000, np.int64)
        used[codes] = 1
        numbers = np.cumsum(used)[codes]
        out = []
        start = 0
        for lines in texts:
            lengths = np.array([len(line) for line in lines])
            size = int(lengths.sum())
            stream = np.full(size + len(lines), END)
            stream[np.arange(size) + np.repeat(np.arange(len(lines)), lengths)] = numbers[start : start + size]
            out.append(stream)
            start += size
        return out, int(used.sum()) + 1

    def scores(self, totals: Table) -> Floats:
        # the same order of operations as in sacrebleu
        counts = np.asarray(totals).reshape(-1, self.order, 3)
        factor = self.beta**2
        value, precision, recall, orders = np.zeros((4, len(counts)), score_type(totals))
        for hypothesis, reference, match in counts.transpose(1, 2, 0):
            p = _ratio(match, hypothesis)
            r = _ratio(match, reference)
            if self.eps_smoothing:
                below = factor * p + r
                value += np.where(below > 0, (1 + factor) * p * r / np.where(below > 0, below, 1.0), _TINY)
            both = (hypothesis > 0) & (reference > 0)
            precision += p * both
            recall += r * both
            orders += both
        if self.eps_smoothing:
            smoothed: Floats = 100 * value / self.order
            return smoothed
        precision /= np.maximum(orders, 1)
        recall /= np.maximum(orders, 1)
        below = factor * precision + recall
        some = precision + recall > 0
        scores: Floats = 100 * ((1 + factor) * precision * recall / np.where(some, below, 1.0)) * some
        return scores

    def signature(self) -> Items:
        return (
            ("case", "lc" if self.lowercase else "mixed"),
            ("eff", "no" if self.eps_smoothing else "yes"),
            ("nc", str(self.char_order)),
            ("nw", str(self.word_order)),
            ("space", "yes" if self.whitespace else "no"),
        )


def _ratio(part: Table, whole: Table) -> Floats:
    """part / whole; a tiny number if whole is 0."""
    ratio: Floats = np.where(whole > 0, part / np.maximum(whole, 1), _TINY)
    return ratio


def _words(texts: list[Sequence[str]]) -> tuple[list[Ints], int]:
    """The words of each text as ids, END after each line; and the number of ids."""
    ids = Ids({None: END})
    parts = _Parts(ids)
    out = []
    for lines in texts:
        numbers: list[int] = []
        for line in lines:
            numbers.extend(chain.from_iterable(map(parts.__getitem__, line.split())))
            numbers.append(END)
        out.append(np.array(numbers, np.int64))
    return out, len(ids)


class _Parts(dict[str, tuple[int, ...]]):
    """Word -> ids of its parts: a punctuation mark at its end, otherwise one at its beginning, is a separate part."""

    def __init__(self, ids: Ids) -> None:
        self.ids = ids

    def __missing__(self, word: str) -> tuple[int, ...]:
        ids = self.ids
        if len(word) > 1 and word[-1] in _PUNCTUATION:
            numbers: tuple[int, ...] = ids[word[:-1]], ids[word[-1]]
        elif len(word) > 1 and word[0] in _PUNCTUATION:
            numbers = ids[word[0]], ids[word[1:]]
        else:
            numbers = (ids[word],)
        self[word] = numbers
        return numbers
