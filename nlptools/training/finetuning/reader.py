"""The contract of what turns texts into input for the head of a task: a pretrained encoder, or a text classifier from scratch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from nlptools.batches.features import Features
from nlptools.batches.source import Source
from nlptools.compute.backend import Backend
from nlptools.tasks.task import Task
from nlptools.training.objective import Objective


class Reader(Protocol):
    """The run calls these methods in this order, once per process."""

    def settings(self) -> dict[str, Any]:
        """The settings besides `Finetune`; a continued run must have the same."""

    def encoding(self, examples: Sequence[Any], threads: int) -> Any:
        """How texts become rows, which may depend on the training examples; the argument of `Task.features`."""

    def model(self, task: Task, seed: int) -> Any:
        """The initial model, on the CPU in float32: the same weights in every process."""

    def objective(self, model: Any, task: Task) -> Objective:
        """The loss to minimize."""

    def source(self, features: Features, batch_size: int, seed: int, backend: Backend) -> Source:
        """The training batches of this process."""

    def save(
        self, directory: Path, model: Any, weights: Mapping[str, Any], training: Mapping[str, Any], more: dict[str, Any]
    ) -> None:
        """Write the bundle, with `more` in its config.json."""
