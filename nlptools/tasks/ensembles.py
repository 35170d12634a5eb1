"""Predictions of several models, combined by their means.

Shapes: M models, N examples, K labels, W words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nlptools.tasks.tag.decoding import TagTransitions


def mean(predictions: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """The mean of what M models predict for each of N examples."""
    return [np.mean(each, axis=0) for each in zip(*predictions, strict=True)]


def mean_of_logs(predictions: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
    """Log-probabilities (K,) of M models for each of N examples -> the logs of the mean probabilities."""
    return [np.logaddexp.reduce(each) - np.log(len(each)) for each in zip(*predictions, strict=True)]


def mean_of_tags(
    logits: Sequence[np.ndarray], transitions: Sequence[TagTransitions | None]
) -> tuple[np.ndarray, TagTransitions | None]:
    """Logits (W, K) of M taggers, and the transitions of those with a conditional random field -> scores (W, K), transitions.

    Without transitions, the scores are the logs of the mean probabilities. With the transitions of any model, the mean of
    log-probabilities of whole sentences: of the scores, and of the transitions (0 of a model that has none).
    """
    logs = [_log_softmax(scores) for scores in logits]
    if all(each is None for each in transitions):
        return np.logaddexp.reduce(logs) - np.log(len(logs)), None
    parts = [scores if each is None else own for scores, own, each in zip(logs, logits, transitions, strict=True)]
    given = [each for each in transitions if each is not None]
    return np.mean(parts, axis=0), TagTransitions(*(np.sum(part, axis=0) / len(logits) for part in zip(*given)))


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    wide = scores.astype(np.float64)
    logs: np.ndarray = wide - np.logaddexp.reduce(wide, axis=1, keepdims=True)
    return logs
