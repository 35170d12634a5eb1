"""The contract of objectives: sums of losses, and the number of targets before anything is computed.

Means over batches of different sizes cannot be averaged; sums and counts can be added over accumulated batches and over
processes alike.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from nlptools.configs import Training
from nlptools.training.engine import optimizers
from nlptools.training.engine.optimizers import Optimizer


class Objective(nn.Module, ABC):
    """The quantity that training minimises. Subclasses define `counts`, `arrays` and `forward`, and are one level deep.

    `forward` takes the arrays as tensors on the device and returns the SUM of each kind of loss, under the names of `counts`:
    `fit` divides each by its count and adds them. An objective owns no parameters; heads are part of the model. For training
    in 16 bits, `forward` runs in a copy with a copy of the model.
    """

    trains_in_16_bits: ClassVar[bool] = True  # False: training computes in float32 on every device
    over = False  # set to end the training before its last step

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    @abstractmethod
    def counts(self, batch: Any) -> Mapping[str, float]:
        """Number of targets of each kind of loss, known before anything is computed."""

    @abstractmethod
    def arrays(self, batch: Any) -> tuple[np.ndarray, ...]:
        """The arguments of `forward` for a batch."""

    def carry(self) -> dict[str, Tensor]:
        """State that is carried from batch to batch, for checkpoints, under names that begin with `carried.`; by default none."""
        return {}

    def restore_carry(self, tensors: dict[str, Tensor]) -> None:
        """Restore the state that `carry` returned."""

    shown: ClassVar[tuple[str, ...]] = ()  # the numbers of `report` that are shown while training goes on

    def report(self) -> dict[str, float]:
        """More numbers about the last steps, for the log; by default none."""
        return {}

    def adjust_gradients(self) -> None:
        """Change the gradients of the parameters before they are measured and clipped; by default not at all."""

    def optimizer(self, run: Training, dtype: torch.dtype = torch.float32) -> Optimizer:
        """The optimizer of the parameters, by default `run.optimizer`; `dtype`: the type of matrix products."""
        return optimizers.of_options(self, run, dtype)

    def rates(self, epoch: float) -> Mapping[str, float] | None:
        """Factors of the learning rate at this point of the training, by parameter name; None: 1 for all."""
        return None
