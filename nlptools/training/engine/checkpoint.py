"""Checkpoints: all state that a run needs to continue as if it had never stopped.

`checkpoints/step-000500/` holds the master weights, the optimizer's state, the random states, the position in the data and
the counters of the loop, as safetensors and JSON. The directory is written under a temporary name and renamed when its
manifest is complete, so a directory with the final name is never incomplete. Old checkpoints are removed only after the new
one has been verified. The step of the best validation is stored only in the record of the checkpoint, and so is saved
together with the weights.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from nlptools import messages
from nlptools.compute.backend import Backend
from nlptools.errors import BundleError, NlptoolsError, StreamError
from nlptools.files import artifacts, atomic
from nlptools.json_types import JsonObject

_NAME = re.compile(r"step-(\d{6,})")
Tensors = dict[str, torch.Tensor]
Checkpoint = tuple[Tensors, Tensors, JsonObject]  # weights, state, record
WEIGHTS, STATE, RECORD = "weights.safetensors", "state.safetensors", "state.json"


class Checkpoints:
    """The checkpoints of one run directory."""

    def __init__(self, directory: Path, keep: int) -> None:
        self.directory = directory / "checkpoints"
        self.keep = keep
        self._written: set[int] = set()  # steps of checkpoints that this process has written or verified

    def save(
        self,
        step: int,
        weights: Tensors,
        state: Tensors,
        record: Mapping[str, object],
        held: Collection[int] = (),
    ) -> Path:
        """Write the checkpoint of `step`, verify it, then remove all but the last `keep`, except the steps in `held`.

        Raises:
            StreamError: disk full or another write error; existing checkpoints are unchanged.
        """
        final = self.path(step)
        if not self._exists(step):
            with self._writing(step) as temporary:
                temporary.mkdir(parents=True)
                artifacts.save_tensors(temporary / WEIGHTS, weights)
                artifacts.save_tensors(temporary / STATE, state)
                self._publish(temporary, final, record, [WEIGHTS, STATE])
            self._verified(step, held)
        return final

    def save_part(
        self,
        backend: Backend,
        step: int,
        weights: Tensors,
        state: Tensors,
        record: Mapping[str, object],
        held: Collection[int] = (),
    ) -> None:
        """As `save`, where each process writes its `weights` and `state` to a file; all processes call this together.

        `weights-00001-of-00002.safetensors` and so on have an index, as the weights of large published models do.

        Raises:
            StreamError: in one of the processes. NlptoolsError without a message in the others.
        """
        if backend.first(lambda: self._exists(step)):
            return
        part = f"{backend.rank + 1:05d}-of-{backend.world_size:05d}.safetensors"
        failure = None
        with self._writing(step, backend.is_main) as temporary:
            backend.first(lambda: temporary.mkdir(parents=True))
            try:
                artifacts.save_tensors(temporary / f"weights-{part}", weights)
                artifacts.save_tensors(temporary / f"state-{part}", state)
            except StreamError as error:
                failure = StreamError(f"rank {backend.rank}: {error}")
            if backend.sum([float(failure is not None)])[0]:
                raise failure or NlptoolsError("")

            def publish() -> None:
                names = sorted(path.name for path in temporary.glob("*-of-*.safetensors"))
                for stem in ("weights", "state"):
                    shards = [name for name in names if name.startswith(stem)]
                    names.append(artifacts.write_index(temporary, stem, shards))
                self._publish(temporary, self.path(step), record, names)

            backend.first(publish)
        backend.first(lambda: self._verified(step, held))

    def _exists(self, step: int) -> bool:
        """Whether there is an intact checkpoint of `step`; a damaged one is removed."""
        final = self.path(step)
        if final.is_dir() and not (step in self._written or self._is_intact(final)):
            self._remove(final)
        if final.is_dir():
            self._written.add(step)
        return final.is_dir()

    @contextmanager
    def _writing(self, step: int, removes: bool = True) -> Iterator[Path]:
        """Context with the name of a new directory; `removes` it after an error. Raises StreamError."""
        temporary = self.directory / f".tmp-{step:06d}"
        try:
            if removes:
                shutil.rmtree(temporary, ignore_errors=True)
            yield temporary
        except BaseException as error:  # also when memory runs out
            if removes:
                shutil.rmtree(temporary, ignore_errors=True)
            if isinstance(error, OSError | StreamError):
                raise StreamError(f"checkpoint of step {step} not saved: {error}") from None
            raise

    def _publish(self, temporary: Path, final: Path, record: Mapping[str, object], names: list[str]) -> None:
        artifacts.write_json(temporary / RECORD, record)
        artifacts.write_manifest(temporary, [*names, RECORD])
        atomic.sync_directory(temporary)
        os.replace(temporary, final)
        atomic.sync_directory(self.directory)

    def _verified(self, step: int, held: Collection[int]) -> None:
        artifacts.verify(self.path(step))
        self._written.add(step)
        self._prune(held)

    def path(self, step: int) -> Path:
        """The directory of the checkpoint of `step`, whether or not it exists."""
        return self.directory / f"step-{step:06d}"

    def load_last(self) -> Checkpoint | None:
        """(weights, state, record) of the newest intact checkpoint, or None; damaged ones are skipped with a warning."""
        for path in reversed(self._all()):
            try:
                return self.load(path)
            except BundleError as error:
                messages.warn(f"checkpoint {path.name} is damaged, trying the one before ({error})")
        return None

    def load(self, path: Path) -> Checkpoint:
        """(weights, state, record) of one checkpoint. Raises BundleError when it is missing or damaged."""
        weights = _verified_weights(path)
        return weights, artifacts.load_weights(path, "state"), artifacts.read_json(path / RECORD)

    def weights(self, step: int) -> Tensors:
        """The weights of the checkpoint of `step`. Raises BundleError when it is missing or damaged."""
        return _verified_weights(self.path(step))

    def clean(self) -> None:
        """Remove the incomplete checkpoints of a killed run."""
        for path in self.directory.glob(".tmp-*"):
            shutil.rmtree(path, ignore_errors=True)

    def _all(self) -> list[Path]:
        if not self.directory.is_dir():
            return []
        paths = [p for p in self.directory.iterdir() if _NAME.fullmatch(p.name) and p.is_dir()]
        return sorted(paths, key=lambda p: int(p.name[5:]))

    def _is_intact(self, path: Path) -> bool:
        try:
            return bool(artifacts.verify(path))
        except BundleError:
            return False

    def _prune(self, held: Collection[int]) -> None:
        for path in self._all()[: -self.keep]:
            if int(path.name[5:]) not in held:
                self._remove(path)

    def _remove(self, path: Path) -> None:
        # renamed first: a partly removed directory must not look like a checkpoint
        renamed = path.with_name(f".tmp-old-{path.name}")
        os.replace(path, renamed)
        shutil.rmtree(renamed, ignore_errors=True)


def _verified_weights(path: Path) -> Tensors:
    if not artifacts.verify(path):
        raise BundleError(f"{path}: no {artifacts.MANIFEST}")
    return artifacts.load_weights(path, "weights")
