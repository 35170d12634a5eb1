"""Smoothing of n-gram counts: from counts to a table with back-off.

All methods interpolate: P(w | h w') = share(h w' w) + gamma(h w') P(w | w'), from the uniform distribution upwards. They differ
in the shares and in gamma, the mass that a context leaves to shorter ones. See Chen and Goodman 1998, "An empirical study of
smoothing techniques for language modeling"; pruning and the details at sentence starts follow Heafield et al. 2013,
"Scalable modified Kneser-Ney language model estimation".
Shapes: V words, G n-grams of one length, C contexts (n-grams of one word less).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.models.language.ngram import Level, Longs, NGramConfig, NGrams
from nlptools.training.ngrams.counting import CountedLevel

Doubles = NDArray[np.float64]

_FALLBACK = (0.5, 1.0, 1.5)  # discounts for n-grams that occur once, twice, more often


@dataclass(frozen=True, eq=False)
class Smoothed:
    """The two terms of an interpolated model, for the n-grams of one length.

    Attributes:
        shares: (G,) what an n-gram has of its own.
        gammas: (C,) what each context leaves to shorter ones; 1 for a context that nothing follows.
    """

    shares: Doubles
    gammas: Doubles


Smoothing = Callable[[Sequence[CountedLevel], int], list[Smoothed]]


def estimate(
    levels: Sequence[CountedLevel], config: NGramConfig, smoothing: Smoothing, prune: Sequence[int] = ()
) -> NGrams:
    """A smoothed model.

    Args:
        prune: n-grams that occur at most this often are left out, for 1, 2, ... words; the last number holds for all longer
            ones. Words themselves stay. What is left out goes to the shorter contexts.
    """
    V = config.vocab_size
    out: list[Level] = []
    below = np.full(1, 1 / (V - 1))  # the uniform distribution: <s> is never predicted
    below_kept = np.ones(1, bool)
    places = np.zeros(1, np.int64)  # of the n-grams below, in the table
    for n, (level, term) in enumerate(zip(levels, smoothing(levels, V), strict=True), 1):
        parents = _contexts(level, n, V)
        kept = np.ones(len(level), bool) if n == 1 or not prune else level.counts > prune[min(n, len(prune)) - 1]
        lost = np.bincount(parents[~kept], weights=term.shares[~kept], minlength=len(term.gammas))
        gammas = term.gammas + lost
        probabilities = term.shares + gammas[parents] * below[level.suffixes]
        if n == 1:
            probabilities[config.bos] = 1.0  # as KenLM writes it; it is never looked up
        else:
            out[-1] = replace(out[-1], backoffs=log10(gammas[below_kept]))
        out.append(Level(places[parents[kept]] * V + level.words(V)[kept], log10(probabilities[kept])))
        below, below_kept, places = probabilities, kept, np.cumsum(kept) - 1
    return NGrams(config, out)


def log10(values: NDArray[Any]) -> NDArray[np.float32]:
    """The logarithms, -inf for 0."""
    with np.errstate(divide="ignore"):
        out: NDArray[np.float32] = np.log10(values).astype(np.float32)
    return out


def _contexts(level: CountedLevel, n: int, V: int) -> Longs:
    """(G,) the context of each n-gram; single words have one and the same."""
    return np.zeros(len(level), np.int64) if n == 1 else level.parents(V)


def sums(values: Doubles, levels: Sequence[CountedLevel], n: int, V: int) -> Doubles:
    """Sums (C,) over the n-grams of each context."""
    contexts = 1 if n == 1 else len(levels[n - 2])
    out: Doubles = np.bincount(_contexts(levels[n - 1], n, V), weights=values, minlength=contexts).astype(np.float64)
    return out


def _counts(level: CountedLevel, n: int) -> Doubles:
    """The counts of n-grams; <s> by itself is never predicted."""
    counts = level.counts.astype(np.float64)
    if n == 1:
        counts[level.starts_sentence] = 0
    return counts


# -- Kneser and Ney -----------------------------------------------------------------------------------------------------


def kneser_ney(levels: Sequence[CountedLevel], V: int) -> list[Smoothed]:
    """Interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998).

    Shorter n-grams count by the number of different words before them; those that begin a sentence have only <s> before
    them and count by their occurrences. Each length has three discounts. Where the counts of counts allow no discount, as in
    small texts, those of `_FALLBACK` serve, with a warning.
    """
    out = []
    for n, level in enumerate(levels, 1):
        counts = _counts(level, n)
        if n < len(levels):
            different = np.bincount(levels[n].suffixes, minlength=len(level))
            counts = np.where(level.starts_sentence, counts, different)
        discounts = np.array([0.0, *_discounts(counts, n)])[np.minimum(counts, 3).astype(np.int64)]
        out.append(_discounted(levels, V, n, counts, discounts))
    return out


def _discounts(counts: Doubles, n: int) -> tuple[float, ...]:
    """The discounts of n-grams that count 1, 2, and 3 or more."""
    of_count = [int((counts == k).sum()) for k in range(5)]
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


def _discounted(
    levels: Sequence[CountedLevel], V: int, n: int, counts: Doubles, discounts: Doubles | float
) -> Smoothed:
    """What is discounted goes to the shorter contexts."""
    parents, totals = _contexts(levels[n - 1], n, V), sums(counts, levels, n, V)
    taken = np.minimum(counts, discounts)
    with np.errstate(invalid="ignore", divide="ignore"):
        gammas = np.where(totals > 0, sums(taken, levels, n, V) / totals, 1.0)
    return Smoothed((counts - taken) / np.where(totals > 0, totals, 1.0)[parents], gammas)


# -- other methods ------------------------------------------------------------------------------------------------------


def absolute(levels: Sequence[CountedLevel], V: int) -> list[Smoothed]:
    """Absolute discounting (Ney, Essen and Kneser 1994): n1 / (n1 + 2 n2) off each count, a number for each length."""
    out = []
    for n, level in enumerate(levels, 1):
        counts = _counts(level, n)
        once, twice = int((counts == 1).sum()), int((counts == 2).sum())
        out.append(_discounted(levels, V, n, counts, once / (once + 2 * twice) if once else 0.5))
    return out


def witten_bell(levels: Sequence[CountedLevel], V: int) -> list[Smoothed]:
    """Witten and Bell 1991, method C: a context leaves to shorter ones as much as it has different words after it."""
    out = []
    for n, level in enumerate(levels, 1):
        counts = _counts(level, n)
        types = sums((counts > 0).astype(np.float64), levels, n, V)
        whole = sums(counts, levels, n, V) + types
        gammas = np.where(whole > 0, types / np.maximum(whole, 1), 1.0)
        out.append(Smoothed(counts / np.maximum(whole, 1)[_contexts(level, n, V)], gammas))
    return out


def add_k(k: float) -> Smoothing:
    """Additive smoothing (Lidstone; Laplace with k = 1) of the longest n-grams; an unseen context is uniform."""

    def smoothing(levels: Sequence[CountedLevel], V: int) -> list[Smoothed]:
        out = []
        for n, level in enumerate(levels, 1):
            counts = _counts(level, n) if n == len(levels) else np.zeros(len(level))
            totals = sums(counts, levels, n, V) + k * (V - 1)
            out.append(Smoothed(counts / totals[_contexts(level, n, V)], k * (V - 1) / totals))
        return out

    return smoothing


def jelinek_mercer(lambdas: Sequence[float]) -> Smoothing:
    """Jelinek and Mercer 1980: a fixed share `lambdas[n - 1]` of relative frequencies of n-grams, the rest of shorter ones."""

    def smoothing(levels: Sequence[CountedLevel], V: int) -> list[Smoothed]:
        out = []
        for n, (level, share) in enumerate(zip(levels, lambdas, strict=True), 1):
            counts = _counts(level, n)
            totals = sums(counts, levels, n, V)
            shares = share * counts / np.maximum(totals, 1)[_contexts(level, n, V)]
            out.append(Smoothed(shares, np.where(totals > 0, 1 - share, 1.0)))
        return out

    return smoothing
