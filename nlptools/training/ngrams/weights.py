"""Weights of interpolated n-gram models, fitted to held-out text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlptools.arrays import Doubles, Longs
from nlptools.corpora.columns import in_memory
from nlptools.models.language.ngram import Level, NGramConfig, NGrams
from nlptools.training.ngrams.counting import CountedLevel, spans
from nlptools.training.ngrams.smoothing import sums

_ROUNDS, _CHANGE = 200, 1e-4


def fitted_weights(levels: Sequence[CountedLevel], config: NGramConfig, ids: Longs) -> tuple[float, ...]:
    """The weights of n-grams of 1, 2, ... words under which a text is most likely (EM; Jelinek and Mercer 1980).

    The rest to 1 is the weight of the uniform distribution. If the training text lacks a context, shorter ones get its weight.

    Args:
        ids: (T,) held-out text; <s> begins each sentence.
    """
    V = config.vocab_size
    seen, shares = _relative_frequencies(levels, config, ids)
    lambdas = np.full(config.order, 0.5)
    for _ in range(_ROUNDS):
        before = lambdas
        mixed = [np.full(shares.shape[1], 1 / (V - 1))]
        for known, share, weight in zip(seen, shares, lambdas, strict=True):
            mixed.append(np.where(known, weight * share + (1 - weight) * mixed[-1], mixed[-1]))
        reach = np.ones(shares.shape[1])  # probability that no longer n-gram was chosen
        lambdas = np.empty_like(before)
        for n in range(config.order - 1, -1, -1):
            taken = np.where(seen[n], reach * before[n] * shares[n] / mixed[n + 1], 0.0)
            lambdas[n] = taken.sum() / max(reach[seen[n]].sum(), 1e-300)
            reach = reach - taken
        lambdas = np.clip(lambdas, 1e-6, 1 - 1e-6)
        if np.abs(lambdas - before).max() < _CHANGE:
            break
    kept = np.append(np.cumprod((1 - lambdas)[::-1])[::-1][1:], 1.0)  # the share that longer n-grams leave
    return tuple((lambdas * kept).tolist())


def _relative_frequencies(
    levels: Sequence[CountedLevel], config: NGramConfig, ids: Longs
) -> tuple[np.ndarray, Doubles]:
    """For each length and each token but <s>: whether the context was seen, and the relative frequency after it."""
    V, T = config.vocab_size, len(ids)
    all_keys = [in_memory(level.keys) for level in levels]
    hashed = isinstance(levels[0].counts, np.ndarray)
    table = NGrams(config, [Level(keys, np.zeros(len(keys), np.float32), hashed=hashed) for keys in all_keys])
    seen, shares = np.zeros((config.order, T), bool), np.zeros((config.order, T))
    counts = levels[0].counts[:].astype(np.float64)
    counts[config.bos] = 0
    seen[0], shares[0] = True, counts[ids] / counts.sum()
    for n, (known, contexts, places, _) in enumerate(table.walk(ids), 2):
        totals = np.zeros(len(levels[n - 2]))
        for span in spans(levels, n, V, 1 << 19):
            totals[span.first : span.last] = sums(
                levels[n - 1].counts[span.start : span.end], span.contexts, span.last - span.first
            )
        seen[n - 1, known] = totals[contexts] > 0
        own = in_memory(levels[n - 1].counts)[places]
        shares[n - 1, known] = np.where(places >= 0, own, 0.0) / np.maximum(totals[contexts], 1)
    words = ids != config.bos
    return seen[:, words], shares[:, words]
