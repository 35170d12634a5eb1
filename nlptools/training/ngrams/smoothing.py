"""Smoothing of n-gram counts: from counts to a table with back-off.

All methods interpolate: P(w | h w') = share(h w' w) + gamma(h w') P(w | w'), from the uniform distribution upwards. They differ
in the shares and in gamma, the mass that a context leaves to shorter ones. See Chen and Goodman 1998, "An empirical study of
smoothing techniques for language modeling"; pruning and the details at sentence starts follow Heafield et al. 2013,
"Scalable modified Kneser-Ney language model estimation".
Shapes: V words, G n-grams of one length, C contexts (n-grams of one word less).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.arrays import Array, Doubles, Floats, Ints, Longs
from nlptools.corpora.columns import ColumnWriter, pieces
from nlptools.files.prefetch import mapped
from nlptools.models.language.ngram import Level, NGramConfig, NGrams
from nlptools.training.ngrams.counting import CountedLevel, NGramSpan, spans

_FALLBACK = (0.5, 1.0, 1.5)  # discounts for n-grams that occur once, twice, more often
ROWS = 1 << 17  # n-grams that a thread smooths at a time


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The two terms of an interpolated model, for some n-grams of one length.

    Attributes:
        shares: (G,) the share of the n-gram itself.
        gammas: (C,) the mass that each context leaves to shorter ones; 1 for a context without continuation.
    """

    shares: Doubles
    gammas: Doubles


# The smoothing of n-grams of one length: counts (G,), their contexts (G,) as numbers below C, and C.
Term = Callable[[Doubles, Longs, int], Smoothed]


@dataclass(frozen=True)
class Smoothing:
    """A method.

    Attributes:
        term: the smoothing of n-grams of n words, given n, the order, and the numbers of n-grams with counts 0, 1, 2, 3, 4.
        adjusts: whether the count of a shorter n-gram is the number of different words before it, instead of its occurrences.
            An n-gram at the start of a sentence has only <s> before it, and its count is its occurrences.
    """

    term: Callable[[int, int, Sequence[int]], Term]
    adjusts: bool = False


def estimate(
    levels: Sequence[CountedLevel],
    config: NGramConfig,
    smoothing: Smoothing,
    prune: Sequence[int] = (),
    folder: Path | None = None,
    threads: int = 1,
) -> NGrams:
    """A smoothed model.

    Args:
        prune: n-grams that occur at most this often are left out, for 1, 2, ... words; the last number holds for all longer
            ones. Words stay. Shorter contexts get the mass of pruned n-grams.
        folder: the tables are written to files in this folder, as `Column`s; None: they are in memory. Besides, memory holds
            up to 20 bytes for each n-gram of a length.
        threads: number of threads that compute.

    Raises:
        StreamError: disk full or another write error.
    """
    V, order = config.vocab_size, config.order
    tables = [_Table(n, folder) for n in range(1, order + 1)]
    below = _Below(np.full(1, 1 / (V - 1)), None)  # the uniform distribution: <s> is never predicted
    for n, (level, table) in enumerate(zip(levels, tables, strict=True), 1):
        counts = _Counts(levels, n, config, smoothing.adjusts)
        term = smoothing.term(n, order, counts.of_counts(threads))
        limit = prune[min(n, len(prune)) - 1] if prune and n > 1 else 0
        smooth = _Smoother(level, counts, term, limit, below, config)
        kept = np.ones(len(level), bool) if limit and n < order else None
        probabilities = np.empty(len(level) if n < order else 0)
        placed = 0  # contexts kept so far
        for rows in mapped(smooth, spans(levels, n, V, ROWS), threads):
            if n > 1:
                tables[n - 2].backoffs.append(rows.backoffs)
            table.keys.append(rows.keys + placed * V)
            placed += len(rows.backoffs)
            table.log_probs.append(rows.log_probs)
            if n < order:
                probabilities[rows.start : rows.start + len(rows.probabilities)] = rows.probabilities
            if kept is not None:
                kept[rows.start : rows.start + len(rows.probabilities)] = rows.stay
        below = _Below(probabilities, kept)
    return NGrams(config, [table.level(order) for table in tables])


class _Below(NamedTuple):
    """The n-grams one level below: their probabilities, and which are in the table; None: all."""

    probabilities: Doubles
    kept: NDArray[np.bool_] | None


class _Rows(NamedTuple):
    """The rows of a table for a span of G n-grams with C contexts. The table keeps K n-grams and c contexts.

    Attributes:
        start: index of the first n-gram.
        keys, log_probs: (K,); the kept contexts of the span are numbered from 0 on.
        backoffs: (c,) of the contexts.
        probabilities, stay: (G,) of all n-grams, and which are kept.
    """

    start: int
    keys: Longs
    log_probs: Floats
    backoffs: Floats
    probabilities: Doubles
    stay: NDArray[np.bool_] | slice


@dataclass(frozen=True, eq=False)
class _Smoother:
    """Smooths the n-grams of one length. The table leaves out n-grams that occur at most `limit` times."""

    level: CountedLevel
    counts: _Counts
    term: Term
    limit: int
    below: _Below
    config: NGramConfig

    def __call__(self, span: NGramSpan) -> _Rows:
        smoothed, stay = self._smoothed(span)
        probabilities = smoothed.gammas.take(span.contexts)
        probabilities *= self.below.probabilities.take(self.level.suffixes[span.start : span.end])
        probabilities += smoothed.shares
        if self.counts.n == 1:
            probabilities[self.config.bos] = 1.0  # as KenLM writes it; it is never looked up
        gammas, places = self._of_kept_contexts(smoothed.gammas, span)
        keys = (places * self.config.vocab_size + span.words)[stay]
        return _Rows(span.start, keys, log10(probabilities[stay]), log10(gammas), probabilities, stay)

    def _smoothed(self, span: NGramSpan) -> tuple[Smoothed, NDArray[np.bool_] | slice]:
        """The terms of some n-grams, and which of them stay."""
        counts = self.counts(span.start, span.end).astype(np.float64)
        smoothed = self.term(counts, span.contexts, span.last - span.first)
        if not self.limit:
            return smoothed, slice(None)
        stay = self.level.counts[span.start : span.end] > self.limit
        lost = sums(smoothed.shares[~stay], span.contexts[~stay], len(smoothed.gammas))
        return Smoothed(smoothed.shares, smoothed.gammas + lost), stay

    def _of_kept_contexts(self, gammas: Doubles, span: NGramSpan) -> tuple[Doubles, Longs]:
        """The gammas of the contexts that are in the table, and the place of each n-gram's context among them."""
        if self.below.kept is None:
            return gammas, span.contexts
        stay = self.below.kept[span.first : span.last]
        return gammas[stay], (np.cumsum(stay) - 1)[span.contexts]


class _Counts:
    """The counts of the n-grams of one length."""

    def __init__(self, levels: Sequence[CountedLevel], n: int, config: NGramConfig, adjusts: bool) -> None:
        self._level, self.n, self._bos = levels[n - 1], n, config.bos
        self._different: Ints | None = None
        if adjusts and n < len(levels):
            self._different = np.zeros(len(self._level), np.int32)
            for some in pieces(levels[n].suffixes):
                np.add.at(self._different, some, np.int32(1))  # a plain 1 is 30 times slower

    def __call__(self, start: int, end: int) -> Array:
        """The counts of some n-grams."""
        given = self._level.counts if self._different is None else self._different
        counts: Array = np.array(given[start:end])
        low, high = (min(max(place, start), end) for place in self._level.starts)
        if self.n == 1:
            counts[low - start : high - start] = 0  # <s> by itself is never predicted
        elif self._different is not None:
            counts[low - start : high - start] = self._level.counts[low:high]
        return counts

    def of_counts(self, threads: int) -> list[int]:
        """The numbers of n-grams with counts 0, 1, 2, 3, 4."""

        def histogram(start: int) -> Longs:
            counts = np.minimum(self(start, min(start + ROWS, len(self._level))), 5)
            return np.bincount(counts, minlength=6)

        numbers = sum(mapped(histogram, range(0, len(self._level), ROWS), threads), np.zeros(6, np.int64))
        return [int(number) for number in numbers[:5]]


class _Table:
    """The growing table of one length, in memory or in files."""

    def __init__(self, n: int, folder: Path | None) -> None:
        new = _List if folder is None else lambda name, dtype: ColumnWriter(folder / f"{name}.{n}", dtype)
        self.keys, self.log_probs = new("keys", np.int64), new("log_probs", np.float32)
        self.backoffs, self._n = new("backoffs", np.float32), n

    def level(self, order: int) -> Level:
        backoffs = self.backoffs.close()
        return Level(self.keys.close(), self.log_probs.close(), backoffs if self._n < order else None)


class _List:
    """An array in memory that grows, as a `ColumnWriter`."""

    def __init__(self, name: str, dtype: type) -> None:
        self._parts: list[Array] = [np.empty(0, dtype)]

    def append(self, numbers: Array) -> None:
        self._parts.append(numbers)

    def close(self) -> Array:
        out = np.concatenate(self._parts)
        self._parts = []
        return out


def log10(values: Array) -> Floats:
    """The logarithms, -inf for 0."""
    with np.errstate(divide="ignore"):
        out: Floats = np.log10(values).astype(np.float32)
    return out


def sums(values: Array, contexts: Longs, C: int) -> Doubles:
    """Sums (C,) over the n-grams of each context."""
    out: Doubles = np.bincount(contexts, weights=values, minlength=C).astype(np.float64)
    return out


# -- Kneser and Ney -----------------------------------------------------------------------------------------------------


def _kneser_ney(n: int, order: int, of_counts: Sequence[int]) -> Term:
    discounts = np.array([0.0, *_discounts(of_counts, n)])
    return lambda counts, contexts, C: _discounted(
        counts, contexts, C, discounts[np.minimum(counts, 3).astype(np.int64)]
    )


# Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998). Each length has three discounts. Where the counts of
# counts allow no discount, as in small texts, `_FALLBACK` has the discounts, with a warning.
kneser_ney = Smoothing(_kneser_ney, adjusts=True)


def _discounts(of_count: Sequence[int], n: int) -> tuple[float, ...]:
    """The discounts of n-grams with counts 1, 2, and 3 or more."""
    if all(of_count[1:4]):
        y = of_count[1] / (of_count[1] + 2 * of_count[2])
        discounts = tuple(k - (k + 1) * y * of_count[k + 1] / of_count[k] for k in (1, 2, 3))
        if all(0 <= discount <= k for k, discount in enumerate(discounts, 1)):
            return discounts
    messages.warn(
        f"{n}-grams: {of_count[1]:,} occur once, {of_count[2]:,} twice, {of_count[3]:,} three times:"
        " too unlike a natural text to estimate discounts, using 0.5, 1, 1.5"
    )
    return _FALLBACK


def _discounted(counts: Doubles, contexts: Longs, C: int, discounts: Doubles | float) -> Smoothed:
    """Shorter contexts get the discounted mass."""
    totals = sums(counts, contexts, C)
    taken = np.minimum(counts, discounts)
    with np.errstate(invalid="ignore", divide="ignore"):
        gammas = np.where(totals > 0, sums(taken, contexts, C) / totals, 1.0)
    return Smoothed((counts - taken) / np.where(totals > 0, totals, 1.0)[contexts], gammas)


# -- other methods ------------------------------------------------------------------------------------------------------


def _absolute(n: int, order: int, of_counts: Sequence[int]) -> Term:
    once, twice = of_counts[1:3]
    discount = once / (once + 2 * twice) if once else 0.5
    return lambda counts, contexts, C: _discounted(counts, contexts, C, discount)


# Absolute discounting (Ney, Essen and Kneser 1994): n1 / (n1 + 2 n2) off each count, a number for each length.
absolute = Smoothing(_absolute)


def _witten_bell(n: int, order: int, of_counts: Sequence[int]) -> Term:
    def term(counts: Doubles, contexts: Longs, C: int) -> Smoothed:
        types = sums((counts > 0).astype(np.float64), contexts, C)
        whole = sums(counts, contexts, C) + types
        gammas = np.where(whole > 0, types / np.maximum(whole, 1), 1.0)
        return Smoothed(counts / np.maximum(whole, 1)[contexts], gammas)

    return term


# Witten and Bell 1991, method C: a context leaves to shorter ones as much as it has different words after it.
witten_bell = Smoothing(_witten_bell)


def add_k(k: float, V: int) -> Smoothing:
    """Additive smoothing (Lidstone; Laplace with k = 1) of the longest n-grams; an unseen context is uniform."""

    def of_length(n: int, order: int, of_counts: Sequence[int]) -> Term:
        def term(counts: Doubles, contexts: Longs, C: int) -> Smoothed:
            counts = counts if n == order else np.zeros(len(counts))
            totals = sums(counts, contexts, C) + k * (V - 1)
            return Smoothed(counts / totals[contexts], k * (V - 1) / totals)

        return term

    return Smoothing(of_length)


def jelinek_mercer(lambdas: Sequence[float]) -> Smoothing:
    """Jelinek and Mercer 1980: a fixed share `lambdas[n - 1]` of relative frequencies of n-grams, the rest of shorter ones."""

    def of_length(n: int, order: int, of_counts: Sequence[int]) -> Term:
        def term(counts: Doubles, contexts: Longs, C: int) -> Smoothed:
            totals = sums(counts, contexts, C)
            shares = lambdas[n - 1] * counts / np.maximum(totals, 1)[contexts]
            return Smoothed(shares, np.where(totals > 0, 1 - lambdas[n - 1], 1.0))

        return term

    return Smoothing(of_length)
