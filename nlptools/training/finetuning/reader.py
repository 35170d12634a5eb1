"""What reads the texts of a task for its head: an encoder that was pretrained, or a text classifier from nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from nlptools.batches.features import Features
from nlptools.batches.windows import Source
from nlptools.compute.backend import Backend
from nlptools.tasks.task import Kind
from nlptools.training.objective import Objective


class Reader(Protocol):
    """The job calls these in this order, once per process."""

    def settings(self) -> dict[str, Any]:
        """All that was chosen besides `Finetune`; continuing a run takes the same."""

    def encoding(self, examples: Sequence[Any], threads: int) -> Any:
        """How texts become rows, perhaps learnt from the training examples; what `Kind.features` takes."""

    def model(self, kind: Kind, seed: int) -> Any:
        """The model to begin with, on the CPU in float32: the same weights in every process."""

    def objective(self, model: Any, kind: Kind) -> Objective:
        """What is minimised."""

    def source(self, features: Features, batch_size: int, seed: int, backend: Backend) -> Source:
        """The training batches of this process."""

    def save(
        self, directory: Path, model: Any, weights: Mapping[str, Any], training: Mapping[str, Any], more: dict[str, Any]
    ) -> None:
        """Write the bundle, `more` in its config.json."""
