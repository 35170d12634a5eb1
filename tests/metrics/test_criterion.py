"""Which of two validations is better."""

from __future__ import annotations

from nlptools.metrics.criterion import LOSS, Criterion


def test_better() -> None:
    accuracy = Criterion("accuracy", higher_is_better=True)
    assert accuracy.better(0.9, 0.8) and not accuracy.better(0.8, 0.9) and not accuracy.better(0.9, 0.9)
    assert LOSS.better(1.0, 2.0) and not LOSS.better(2.0, 1.0) and not LOSS.better(1.0, 1.0)
