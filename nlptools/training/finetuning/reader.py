"""What reads the texts of a task: a pretrained model (`pretrained`), or a network over words (`words`).

Shapes: B rows of a batch, T length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar, cast

import numpy as np
from torch import Tensor

from nlptools.batches.features import Features
from nlptools.batches.row_encodings import RowEncoding
from nlptools.batches.source import BatchSource, Share
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.formats.examples import TaskExample
from nlptools.json_types import JsonObject
from nlptools.models.tasks.heads import TaskHeads
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks import outputs
from nlptools.tasks.task import Task
from nlptools.training.engine import optimizers
from nlptools.training.engine.optimizers import Optimizer
from nlptools.training.engine.weights import Weights
from nlptools.training.objective import Objective

M = TypeVar("M", bound=TaskModel, covariant=True)


class Reader(Protocol):
    """A model that `finetune` trains on a task. A run calls these methods in this order, once per process."""

    @property
    def learns_vocabulary(self) -> bool:
        """Whether the vocabulary comes from the training examples, without their rare words."""

    def settings(self) -> JsonObject:
        """The settings besides `Finetune`; a continued run must have the same."""

    def encoding(self, task: Task, examples: Sequence[TaskExample], threads: int) -> RowEncoding:
        """How texts become rows, which may depend on the training examples; the argument of `Task.features`."""

    def learned(self) -> JsonObject:
        """What `encoding` has learned from the training examples, for `restore`."""

    def restore(self, learned: JsonObject) -> None:
        """Take over what `encoding` has learned in another process."""

    def model(self, task: Task, seed: int) -> TaskModel:
        """The initial model, on the CPU in float32."""

    def objective(self, model: TaskModel, task: Task) -> TaskLoss[TaskModel]:
        """The loss to minimize."""

    def source(self, features: Features, batch_size: int, seed: int, share: Share, backend: Backend) -> BatchSource:
        """The training batches of this process, each a `TaskBatch`; `batch_size`: examples of a joint batch."""

    def logits(
        self, model: TaskModel, task: Task, features: Features, backend: Backend, stop: Callable[[], bool] | None
    ) -> list[np.ndarray] | None:
        """The logits of each row for validation, see `tasks.outputs.logits`."""

    def save(
        self,
        directory: Path,
        model: TaskModel,
        weights: Mapping[str, Tensor],
        training: Mapping[str, object],
        more: Mapping[str, object],
    ) -> None:
        """Write the model directory, with `more` in its config.json."""


class TaskBatch(Protocol):
    """Rows of examples.

    Attributes:
        inputs: the arguments of the model; the first has B rows.
        targets: in the order of `Features.targets`.
        weight: the sum of the weights, the divisor of the loss.
    """

    @property
    def inputs(self) -> tuple[np.ndarray, ...]: ...

    @property
    def targets(self) -> tuple[np.ndarray, ...]: ...

    @property
    def weight(self) -> float: ...


# the logits of a task's head from the inputs of a batch, and of heads that read token spans, from these (B, M, 2)
TaskLogits = Callable[[M, tuple[Tensor, ...], Tensor | None], Tensor]


class TaskLoss(Objective[M]):
    """The loss of a task's head, as a weighted sum."""

    def __init__(
        self,
        model: M,
        task: Task,
        logits: TaskLogits[M],
        inputs: int,
        *,
        rates: Callable[[float], Mapping[str, float]] = lambda epoch: {},
        optimizer: Callable[[Weights[object], Training], Optimizer] = optimizers.of_options,
        in_16_bits: bool = True,
    ) -> None:
        """`inputs`: how many a batch has; `rates`: see `Objective.rates`."""
        super().__init__(model)
        self.task, self.logits, self.inputs = task, logits, inputs
        self._rates, self._optimizer, self.trains_in_16_bits = rates, optimizer, in_16_bits

    def counts(self, batch: TaskBatch) -> dict[str, float]:
        """The divisor of the loss: the sum of the weights."""
        return {"loss": batch.weight}

    def arrays(self, batch: TaskBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward`, to be put on the device."""
        return (*batch.inputs, *batch.targets)

    def forward(self, *arrays: Tensor) -> dict[str, Tensor]:
        """The inputs and the targets of a batch -> the sum of the losses."""
        inputs, targets, spans = arrays[: self.inputs], arrays[self.inputs :], None
        if self.task.head in outputs.OF_SPANS:
            spans, targets = targets[0].view(len(inputs[0]), -1, 2), targets[1:]
        logits = self.logits(self.model, inputs, spans).float()
        return {"loss": self.task.loss(logits, *targets, **self.task.layers_of(cast(TaskHeads, self.model)))}

    def optimizer(self, run: Training, weights: Weights[object]) -> Optimizer:
        """See `Objective`."""
        return self._optimizer(weights, run)

    def rates(self, epoch: float) -> Mapping[str, float]:
        """See `Objective`."""
        return self._rates(epoch)
