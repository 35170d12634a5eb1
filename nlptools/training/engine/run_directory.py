"""The directory of a run: its lock, whether a run in it may be continued, and its record in training.json."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

from nlptools import __version__
from nlptools.errors import BundleError, OutputError, Stopped, display, reason
from nlptools.files import artifacts, atomic

RECORD = "training.json"
LOCK = ".lock"
READING = "reading"  # status of a run that has not begun: its text is being read, or could not be


class Data(Protocol):
    """What a run has read: its training data, and held-out data if any."""

    def digests(self) -> dict[str, str | None]:
        """SHA-256 of each part, None for a part that is not there. A run goes on only where they are the same."""

    def record(self) -> dict[str, Any]:
        """What training.json says about it: names, sums, counts of each part."""


D = TypeVar("D", bound=Data)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory, made if need be, for one run; the lock goes with the process, whatever ends it.

    A directory that was made for this and is empty at the end is removed with its lock.

    Raises:
        OutputError: it cannot be made, or another run holds it (says host, process and start).
    """
    made = not directory.exists()
    with _lock(directory) as handle:
        holder = f"host {socket.gethostname()}, process {os.getpid()}, since {time.strftime('%Y-%m-%dT%H:%M:%S')}\n"
        with contextlib.suppress(OSError):  # the disk may be full; the lock holds without its text
            handle.truncate(0)
            os.write(handle.fileno(), holder.encode())
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.unlink(directory / LOCK)
                if made:
                    os.rmdir(directory)


def _lock(directory: Path) -> IO[str]:
    """The lock file, open and locked. Raises as `locked`."""
    path, name = directory / LOCK, display(str(directory))
    while True:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            handle = open(path, "a+", encoding="utf-8")  # noqa: SIM115  held for the whole run
        except OSError as error:
            raise OutputError(f"{name}: cannot be made: {reason(error)}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):  # a run that has ended since removed it
                if os.path.samestat(os.fstat(handle.fileno()), os.stat(path)):
                    return handle
            handle.close()
        except BlockingIOError:
            with handle:
                handle.seek(0)
                raise OutputError(f"{name}: locked by another run ({handle.read().strip()})") from None
        except OSError as error:
            with handle:
                raise OutputError(f"{name}: cannot be locked: {reason(error)}") from None


def previous(directory: Path, resume: str, force: bool, fingerprint: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record of the run to continue in `directory`, or None for a fresh start.

    `fingerprint` holds the settings that make it the same run. With `force` whatever run was there is removed; a run that
    ended before it had read its text is always removed.

    Raises:
        OutputError: something else is there, or nothing is although `resume` is "must".
    """
    name = display(str(directory))
    record = _read_record(directory)
    for left in atomic.unfinished(directory / RECORD):  # all that a run leaves that is killed while it begins
        atomic.discard(left)
    if record is None and not any(p.name != LOCK for p in directory.iterdir()):
        if resume == "must":
            raise OutputError(f"{name}: nothing to resume")
        return None
    if record is not None and record.get("status") == READING:
        if resume == "must":
            raise OutputError(f"{name}: nothing to resume")
        force = True
    if force:
        clear(directory)
        return None
    if record is None:
        raise OutputError(f"{name}: exists and holds no training run", hint="choose another directory, or --force")
    if resume == "never":
        raise OutputError(f"{name}: exists", hint="--force replaces it")
    marks = record.get("fingerprint", {})
    # an option that a run before its time knows nothing of is off
    different = [key for key, value in fingerprint.items() if (marks[key] != value if key in marks else bool(value))]
    if different:
        raise OutputError(
            f"{name}: holds a run with other settings ({', '.join(different)})",
            hint="--force replaces it; or choose another directory",
        )
    return record


@contextlib.contextmanager
def reading(directory: Path, before: Mapping[str, Any] | None) -> Iterator[Path]:
    """Context in which a run reads its text into the folder that this gives; `before` is what `previous` gave.

    A run that begins here is known as one from the first moment on. If it cannot read its text it leaves nothing.
    """
    try:
        if before is None:
            artifacts.write_json(directory / RECORD, {"status": READING})
        place = directory / "data"
        place.mkdir(exist_ok=True)
        for left in place.glob(".*"):  # what a killed run left half-written
            left.unlink()
        yield place
    except BaseException:
        if before is None:
            clear(directory)
        raise


def begin(
    directory: Path, resume: str, force: bool, marks: Mapping[str, Any], read: Callable[[Path], D]
) -> tuple[D, dict[str, Any] | None]:
    """The data of the run in `directory`, which is locked, and the record of the run that it continues, if it does.

    Args:
        marks: see `previous`.
        read: reads the data, into files of the folder that it is given.

    Raises:
        OutputError: see `previous`; or the run was on other data.
        What `read` raises.
    """
    before = previous(directory, resume, force, marks)
    with reading(directory, before) as place:
        data = read(place)
    if before is not None and before.get("data_sha256") != data.digests():
        raise OutputError(f"{display(str(directory))}: holds a run on other text", hint="--force replaces it")
    return data, before


def record(before: Mapping[str, Any] | None, data: Data, marks: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """What training.json says while a run goes on: enough to know, and to repeat, how the model was made.

    Args:
        before: the record of the run that it continues.
        more: what else the trainer records, such as settings.
    """
    import numpy as np
    import torch

    return {
        "nlptools": __version__,
        "host": socket.gethostname(),
        "process": os.getpid(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "executable": sys.executable,
        "versions": {"torch": torch.__version__, "numpy": np.__version__},
        "status": "running",
        **more,
        "fingerprint": dict(marks),
        "data": data.record(),
        "data_sha256": data.digests(),
        # when each part of an interrupted run began
        "parts": [*(before or {}).get("parts", []), time.strftime("%Y-%m-%dT%H:%M:%S%z")],
        "metrics": {},
    }


def stopped(directory: Path, reason: str, step: int, force: bool) -> Stopped:
    """The error that ends a run that was stopped with everything saved; `force`: it was begun with --force."""
    return Stopped(
        f"stopped by {reason} after step {step}, everything is saved in {display(str(directory))}",
        hint="the same command continues" + (", without --force" if force else ""),
    )


def _read_record(directory: Path) -> dict[str, Any] | None:
    try:
        return artifacts.read_json(directory / RECORD)
    except BundleError:
        return None


def clear(directory: Path) -> None:
    """Remove what a run leaves, and nothing else; its record last, so that what is left is always known to be a run's."""
    for name in ("checkpoints", "data", "tensorboard"):
        shutil.rmtree(directory / name, ignore_errors=True)
    manifest = {}
    with contextlib.suppress(BundleError, OSError):
        manifest = artifacts.read_json(directory / artifacts.MANIFEST).get("files", {})
    manifest.pop(RECORD, None)
    for name in [*manifest, artifacts.MANIFEST, "log.jsonl", RECORD]:
        path = directory / str(name)
        if artifacts.is_inside(str(name)) and not path.parent.is_symlink():
            with contextlib.suppress(OSError):
                os.unlink(path)
                if path.parent != directory:
                    os.rmdir(path.parent)  # with its last file; before, it is not empty and stays


def fingerprint(settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """`settings` and `more` as JSON would give them back."""
    plain: dict[str, Any] = json.loads(json.dumps({**settings, **more}, default=str))
    return plain
