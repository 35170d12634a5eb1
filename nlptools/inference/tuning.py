"""Settings of scoring that are chosen for a held-out text: weights of mixtures, settings of caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from nlptools import messages
from nlptools.configs.scoring import Score
from nlptools.errors import DataError, UsageError, display
from nlptools.files.streams import LineBlock
from nlptools.inference.mixture import best_weights, tune_weights
from nlptools.inference.perplexity import perplexity
from nlptools.inference.uses import Scores

if TYPE_CHECKING:
    from nlptools.inference.language_model import TextLanguageModel

FACTORS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)  # of the products of hidden states in a cache


def tune(model: Scores, read: Callable[[], Iterable[LineBlock]], settings: Score, name: str) -> Score:
    """Choose what is best for a held-out text, and report it: the settings of a cache, then the weights of a mixture.

    Args:
        model: what `loading.load` returns for these settings; a mixture gets its new weights.
        read: opens the text.
        name: of the text, for messages.

    Returns:
        the settings to score with.

    Raises:
        UsageError: there is nothing to choose.
        DataError: there is no text.
    """
    if model.mixed is None and not settings.cache:
        raise UsageError("--tune requires a mixture (--with, or a saved one) or --cache")
    settings, counted = replace(settings, tune=None), model.unknown
    model.unknown = counted.fresh(f"the text {display(name)}")
    if settings.cache:
        settings = _tune_cache(
            cast("TextLanguageModel", model), read(), settings, name
        )  # others are loaded without a cache
    if model.mixed is not None:
        tune_weights(model.mixed, read(), settings, name)
    model.unknown.report()
    model.unknown = counted
    return settings


def _tune_cache(model: TextLanguageModel, blocks: Iterable[LineBlock], settings: Score, name: str) -> Score:
    """The settings with the weight and the factor of the cache that give a text the highest probability.

    For each of some factors, the weight by expectation maximization.
    """
    scores = model.measured(blocks, settings, model.cache_grid(settings.cache, FACTORS)).astype(np.float64)
    if not len(scores):
        raise DataError("no text for --tune", path=name)
    best = (-np.inf, 0.0, 0.0)
    for factor, cached in zip(FACTORS, scores[:, 1:].T, strict=True):
        pair = np.stack([scores[:, 0], cached], 1)
        weights = best_weights(pair)
        mean = float(np.log(np.exp(pair) @ weights).mean())
        best = max(best, (mean, float(weights[1]), factor))
    before, after = perplexity(-float(scores[:, 0].mean())), perplexity(-best[0])
    messages.note(
        f"cache of {messages.counted(settings.cache, 'token')}: weight {best[1]:.4f}, factor {best[2]:g};"
        f" perplexity {before:,.3f} without, {after:,.3f} with it on {display(name)}"
    )
    # a weight of 1 leaves no probability to tokens that are not in the cache
    return replace(settings, cache_settings=f"{min(best[1], 0.999)!r},{best[2]!r}")
