"""Advantages against their formulas, written out."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.configs.ppo import TrainPPO
from nlptools.training.preferences import advantages


def test_generalized() -> None:
    rewards, values, discount, trace = np.array([0.1, -0.2, 1.0]), np.array([0.5, 0.3, 0.7]), 0.9, 0.8
    surprise = [0.1 + 0.9 * 0.3 - 0.5, -0.2 + 0.9 * 0.7 - 0.3, 1.0 - 0.7]
    wanted = [sum((discount * trace) ** k * surprise[t + k] for k in range(3 - t)) for t in range(3)]
    assert advantages.generalized(rewards, values, discount, trace) == pytest.approx(wanted)
    # without decay: what follows, less the value
    assert advantages.generalized(rewards, values, 1.0, 1.0) == pytest.approx(np.array([0.9, 0.8, 1.0]) - values)


def test_values_that_are_wrong_by_a_constant_do_not_matter_without_decay() -> None:
    """With decay they make the last token, which ends a sample, look better or worse than the others."""
    rng = np.random.default_rng(0)
    samples = [(rng.normal(size=5), rng.normal(size=5)) for _ in range(20)]

    def white(offset: float, trace: float) -> np.ndarray:
        return advantages.whitened(
            np.concatenate([advantages.generalized(r, v + offset, 1.0, trace) for r, v in samples])
        )

    assert white(3.0, TrainPPO("-", "-").trace) == pytest.approx(white(0.0, 1.0))
    change = (white(3.0, 0.95) - white(0.0, 0.95)).reshape(20, 5).mean(0)
    assert change[-1] < change[:-1].min()


def test_groups() -> None:
    rewards = np.array([1.0, 2, 6, 5, 5, 5])
    assert advantages.rloo(rewards, 3) == pytest.approx([1 - 4, 2 - 3.5, 6 - 1.5, 0, 0, 0])
    standardized = advantages.grpo(rewards, 3)
    assert standardized[3:] == pytest.approx([0, 0, 0])
    assert standardized[:3] == pytest.approx((rewards[:3] - 3) / np.std([1, 2, 6], ddof=1), rel=1e-3)


def test_whitening_variance_and_weight() -> None:
    values = np.random.default_rng(0).normal(3, 2, 1000)
    white = advantages.whitened(values)
    assert white.mean() == pytest.approx(0, abs=1e-9) and white.std() == pytest.approx(1)
    assert (advantages.whitened(np.ones(3)) == 0).all()
    assert advantages.explained_variance(values, values) == 1
    assert advantages.explained_variance(np.full(1000, 5.0), values) == pytest.approx(0)
    assert advantages.explained_variance(values, np.ones(1000)) == 0
    assert advantages.adapted(0.1, 9, 6) == pytest.approx(0.1 * 1.05)
    assert advantages.adapted(0.1, 99, 6) == pytest.approx(0.1 * 1.1)
    assert advantages.adapted(0.1, 6.6, 6) == pytest.approx(0.1 * 1.01)
    assert advantages.adapted(0.1, 0, 6) == pytest.approx(0.1 * 0.98)


def test_scale() -> None:
    rewards = np.random.default_rng(0).normal(3, 2, 100)
    scaled = advantages.Scale.of(rewards)(rewards)
    assert scaled.mean() == pytest.approx(0) and scaled.std() == pytest.approx(1)
    assert advantages.Scale.of(1000 * rewards - 7)(1000 * rewards - 7) == pytest.approx(scaled)
    assert advantages.Scale.of(np.full(9, 5.0))(np.array([5.0, 6.5])) == pytest.approx([0, 1.5])
