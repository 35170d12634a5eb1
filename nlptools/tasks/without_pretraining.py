"""The models that `finetune --scratch` and --features train: a module for each family, with its rows and their logits."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nlptools.models import registry

if TYPE_CHECKING:
    from nlptools.batches.features import Features
    from nlptools.batches.row_encodings import RowEncoding
    from nlptools.bundle import Bundle
    from nlptools.compute.backend import Backend
    from nlptools.models.tasks.task_model import TaskModel

_MODULES = {
    registry.TEXT_CLASSIFIER: "classifiers",
    registry.LOGISTIC: "linear",
    registry.IMAGE_CLASSIFIER: "pictures",
    registry.WORD_TAGGER: "taggers",
    registry.WORD_READER: "readers",
}

# from the numbers of rows (B,) to the logits of each
RowLogits = Callable[[np.ndarray], Sequence[np.ndarray] | np.ndarray]


class Family(Protocol):
    """A module of this table."""

    def encoding(self, loaded: Bundle[object], max_length: int, threads: int) -> RowEncoding:
        """How texts become rows for the model of a directory. Raises BundleError."""

    def row_logits(self, model: TaskModel, features: Features, backend: Backend) -> RowLogits:
        """The logits of rows by their numbers, see `outputs.in_batches`."""


def family(name: str | None) -> Family | None:
    """The module for models of this family; None for pretrained models."""
    if name not in _MODULES:
        return None
    module: Family = pkgutil.resolve_name(f"nlptools.tasks.{_MODULES[name]}")
    return module
