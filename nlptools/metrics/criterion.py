"""The number of a validation by which weights are chosen."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Criterion:
    """The number of a validation that decides which weights are best, and when patience runs out."""

    name: str
    higher_is_better: bool

    def better(self, value: float, other: float) -> bool:
        """Whether `value` is better than `other`."""
        return value > other if self.higher_is_better else value < other


LOSS = Criterion("loss", higher_is_better=False)
