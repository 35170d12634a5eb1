"""Learning rates by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nlptools.configs import Training
from nlptools.train.optim import learning_rate


def test_inverse_square_root_by_hand() -> None:
    """Linear up to the peak, then a half after four times as many steps; neither the end nor --min-lr matters."""
    run = Training(output="", lr=2.0, warmup=4, schedule="inverse-sqrt")
    rates = [learning_rate(step, 100, run) for step in range(400)]
    assert rates[:4] == [0.5, 1.0, 1.5, 2.0] and rates[15] == 1.0 and rates[399] == pytest.approx(0.2)
    assert rates[4] == pytest.approx(2 * (4 / 5) ** 0.5)
    assert rates == [learning_rate(step, 1000, replace(run, min_lr=0.9)) for step in range(400)]
    bare = [learning_rate(step, 100, replace(run, warmup=0)) for step in range(4)]
    assert bare == pytest.approx([2.0, 2**0.5, 2 / 3**0.5, 1.0])
