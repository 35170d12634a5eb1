"""The counters of a training run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class RunProgress:
    """The counters of a run; all of them are in the checkpoint."""

    step: int = 0
    tokens: int = 0  # targets seen
    seconds: float = 0.0  # of training, over all parts of an interrupted run
    bad_steps: int = 0  # consecutive skipped updates
    best: float | None = None  # value of the criterion at the best validation
    best_step: int = 0
    best_valid: dict[str, float] = field(default_factory=dict)  # all metrics of that validation
    since_best: int = 0  # validations since the best one
    last_valid: dict[str, float] = field(default_factory=dict)
    averaged: list[int] = field(default_factory=list)  # steps of the checkpoints to average
    cuts: int = 0  # of the learning rate, by --schedule plateau
    measured: dict[str, float] = field(default_factory=dict)  # sums of measures (entropy of PPO) since the last report
    measured_targets: float = 0.0  # and targets
    valid_pending: bool = False  # a validation is due but not done, or was interrupted by a signal

    @property
    def held(self) -> list[int]:
        """Steps of checkpoints that are still needed: the step of the best validation, and the steps to average."""
        return [*self.averaged] if self.best is None else [self.best_step, *self.averaged]
