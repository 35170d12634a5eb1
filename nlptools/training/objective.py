"""The contract of what is minimised: sums of losses, and beforehand over how many targets.

Means over batches of different sizes cannot be averaged; sums and counts can be added over accumulated batches and over
processes alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from nlptools.configs import Training
from nlptools.training.engine.optimizers import AdamW, Optimizer


class Objective(nn.Module):
    """What is minimised over batches; subclasses write `counts`, `arrays` and `forward`, and are one level deep.

    `forward` takes the arrays as tensors on the device and returns the SUM of each kind of loss, under the names of `counts`:
    `fit` divides each by its count and adds them. An objective owns no parameters; heads are part of the model. Where
    training computes in 16 bits, `forward` runs in a copy with a copy of the model.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def counts(self, batch: Any) -> Mapping[str, float]:
        """Number of targets of each kind of loss, known before anything is computed."""
        raise NotImplementedError

    def arrays(self, batch: Any) -> tuple[np.ndarray, ...]:
        """The arrays of a batch that `forward` takes."""
        raise NotImplementedError

    def carry(self) -> dict[str, Tensor]:
        """What goes on from batch to batch, for a checkpoint, under names that begin with `carried.`; by default nothing."""
        return {}

    def restore_carry(self, tensors: dict[str, Tensor]) -> None:
        """Go back to a `carry()`."""

    def optimizer(self, run: Training) -> Optimizer:
        """What updates the parameters, with its state; by default AdamW."""
        return AdamW(self, run.beta2, run.weight_decay)

    def rates(self, epoch: float) -> Mapping[str, float] | None:
        """Factors of the learning rate at this point of the training, by parameter name; None: 1 for all."""
        return None
