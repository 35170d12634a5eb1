"""The protocol of objectives: sums of losses, and the number of targets before anything is computed.

Means over batches of different sizes cannot be averaged; sums and counts can be added, over accumulated batches and over
processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from nlptools.configs import Training
from nlptools.training.engine import optimizers
from nlptools.training.engine.optimizers import Optimizer
from nlptools.training.engine.weights import M, OfModel, Weights

if TYPE_CHECKING:
    from nlptools.models.contract import CarriedState

CARRIED = "carried."  # prefix of the names of state that a batch hands on to the next one


class Objective(OfModel[M], ABC):
    """The quantity that training minimizes for a model of type M. Subclasses define `counts`, `arrays` and `forward`.

    An objective has no state: all methods are functions of their arguments and of the model, which owns all parameters.
    `forward` takes the arrays as tensors on the device and returns, by name:
        the SUM of each loss in `counts`: `fit` divides each by its count and adds them;
        sums of measures under other names, without gradients: the log has their means per target;
        tensors with names that begin with `CARRIED`: further arguments of `forward` for a batch that `continues`.
    """

    trains_in_16_bits: bool = True  # False: training computes in float32 on every device
    shown: ClassVar[tuple[str, ...]] = ()  # facts and measures that the progress line shows

    @abstractmethod
    def counts(self, batch: Any) -> Mapping[str, float]:
        """The number of targets of each loss."""

    @abstractmethod
    def arrays(self, batch: Any) -> tuple[np.ndarray, ...]:
        """The arguments of `forward` for a batch."""

    def continues(self, batch: Any) -> bool:
        """Whether `forward` takes the state after the batch before this one; by default never."""
        return False

    def state(self, carried: Sequence[Tensor]) -> CarriedState:
        """The state of the model that `forward` has given as these tensors, a `contract.CarriedState`, if there is any."""
        raise TypeError(f"{type(self).__name__} carries no state")

    def facts(self, batch: Any) -> Mapping[str, float]:
        """Numbers of a batch for the log; by default none."""
        return {}

    def optimizer(self, run: Training, weights: Weights[object]) -> Optimizer:
        """The optimizer of the weights, by default `run.optimizer`."""
        return optimizers.of_options(weights, run)

    def rates(self, epoch: float) -> Mapping[str, float] | None:
        """Factors of the learning rate at this point of the training, by parameter name; None: 1 for all."""
        return None
