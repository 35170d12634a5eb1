"""The common part of tasks that encode their training and validation data once, into files: `train-lm`, `train-seq2seq`,
`pretrain-bert` and others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from nlptools import messages
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.json_types import JsonObject

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class SpooledPart(Protocol):
    """Encoded data in files."""

    @property
    def path(self) -> Path: ...

    @property
    def digest(self) -> str: ...

    @property
    def counts(self) -> DataclassInstance:
        """A dataclass of numbers."""


P = TypeVar("P", bound=SpooledPart)


@dataclass(frozen=True)
class Spooled(Generic[P]):
    """Training data and validation data in files, and the names of their inputs. Implements `job.TaskData`."""

    train: P
    valid: P | None
    inputs: Sequence[str]
    held_out: Sequence[str]

    def digests(self) -> dict[str, str | None]:
        return {"train": self.train.digest, "valid": self.valid.digest if self.valid else None}

    def paths(self) -> list[str | None]:
        return [str(self.train.path), str(self.valid.path) if self.valid else None]

    def record(self) -> JsonObject:
        def describe(part: P, names: Sequence[str]) -> JsonObject:
            return {"inputs": list(names), "sha256": part.digest, **asdict(part.counts)}

        valid = describe(self.valid, self.held_out) if self.valid else None
        return {"train": describe(self.train, self.inputs), "valid": valid}


class SpooledTask(ABC, Generic[P]):
    """The methods of `job.TrainingRun` that deal with settings and data. Subclasses are frozen dataclasses with these fields."""

    options: DataclassInstance  # the settings besides `Training` and `Compute`
    run: Training
    inputs: Sequence[str]  # names of the training files

    @abstractmethod
    def encode(self, path: Path, backend: Backend, held_out: bool) -> P:
        """Encode the training data, or the data of `run.held_out`, into files `path`.*. Raises as `TrainingRun.spool`."""

    @abstractmethod
    def reopen(self, path: Path) -> P:
        """The data that `encode` has written."""

    @abstractmethod
    def describe(self, counts: Any) -> str:
        """The size of a part, and how much of it is unknown, cut or left out, for a message."""

    def settings(self) -> JsonObject:
        return asdict(self.options)

    def spool(self, directory: Path, backend: Backend, held_out: bool) -> Spooled[P]:
        train = self.encode(directory / "train", backend, False)
        valid = self.encode(directory / "valid", backend, True) if held_out and self.run.held_out else None
        return Spooled(train, valid, self.inputs, self.run.held_out)

    def open(self, paths: list[str | None]) -> Spooled[P]:
        train, valid = (None if path is None else self.reopen(Path(path)) for path in paths)
        assert train is not None
        return Spooled(train, valid, self.inputs, self.run.held_out)

    def announce(self, data: Spooled[P], seconds: float) -> None:
        held_out = f"; validation: {self.describe(data.valid.counts)}" if data.valid else ""
        messages.note(f"text: {self.describe(data.train.counts)}{held_out} ({seconds:.1f} s)")
