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
from types import MappingProxyType
from typing import IO, Any, Protocol, TypeVar

from nlptools import bundle
from nlptools.errors import BundleError, OutputError, Stopped, display, reason
from nlptools.files import artifacts, atomic
from nlptools.version import __version__

RECORD = "training.json"
LOCK = ".lock"
FINISHED = "{}: the run is finished already; --force repeats it"  # the message of a command that is given again
READING = "reading"  # status of a run that is still reading its text, or failed to


class RunData(Protocol):
    """The data of a run: training data, and held-out data if any."""

    def digests(self) -> dict[str, str | None]:
        """SHA-256 of each part, None for a missing part. A run continues only if they are unchanged."""

    def record(self) -> dict[str, Any]:
        """The description in training.json: names, checksums and counts of each part."""


D = TypeVar("D", bound=RunData)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock the directory for one run, and create it if necessary. The lock ends with the process, however it ends.

    Directories that were created here and are empty at the end are removed with the lock.

    Raises:
        OutputError: it cannot be created, or another run has locked it; the message has host, process and start time.
    """
    created = [path for path in (directory, *directory.parents) if not path.exists()]
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
                for path in created:
                    path.rmdir()


def _lock(directory: Path) -> IO[str]:
    """The lock file, open and locked. Raises as `locked`."""
    path, name = directory / LOCK, display(str(directory))
    while True:
        try:
            directory.mkdir(parents=True, exist_ok=True)
            handle = open(path, "a+", encoding="utf-8")  # noqa: SIM115  held for the whole run
        except OSError as error:
            raise OutputError(f"{name}: cannot be created: {reason(error)}") from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):  # another run has ended meanwhile and removed the file
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


def previous(
    directory: Path,
    resume: str,
    force: bool,
    fingerprint: Mapping[str, Any],
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any] | None:
    """The record of the run to continue in `directory`, or None to start a new one.

    `fingerprint` holds the settings that must be the same to continue. An option that is newer than the run counts as having
    its value in `defaults`, or as off. With `force` any existing run is removed; a run that
    ended before it had read its text is always removed.

    Raises:
        OutputError: the directory holds something else, whose files are never removed, or nothing although `resume` is
            "must".
    """
    name = display(str(directory))
    record = _read_record(directory)
    atomic.sweep(directory / RECORD)  # which leaves nothing of a run that was killed at its start
    if record is None and not any(p.name != LOCK for p in directory.iterdir()):
        if resume == "must":
            raise OutputError(f"{name}: nothing to resume")
        return None
    if record is None:
        raise OutputError(f"{name}: exists and holds no training run", hint="choose another directory")
    if record["status"] == READING:
        if resume == "must":
            raise OutputError(f"{name}: nothing to resume")
        force = True
    if force:
        clear(directory)
        return None
    if resume == "never":
        raise OutputError(f"{name}: exists", hint="--force replaces it")
    if different := changed(record, fingerprint, defaults):
        raise OutputError(
            f"{name}: holds a run with other settings ({', '.join(different)})",
            hint="--force replaces it; or choose another directory",
        )
    return record


def changed(
    record: Mapping[str, Any], fingerprint: Mapping[str, Any], defaults: Mapping[str, Any] = MappingProxyType({})
) -> list[str]:
    """The settings in `fingerprint` that the run of `record` had otherwise; see `previous`."""
    marks = record.get("fingerprint", {})
    return [
        key
        for key, value in fingerprint.items()
        if (marks[key] != value if key in marks else bool(value) and value != defaults.get(key))
    ]


def other_text(directory: Path) -> OutputError:
    """The error for a run of the same settings on another text."""
    return OutputError(f"{display(str(directory))}: holds a run on other text", hint="--force replaces it")


@contextlib.contextmanager
def reading(directory: Path, before: Mapping[str, Any] | None) -> Iterator[Path]:
    """Context in which a run reads its text into the directory it yields; `before` is the result of `previous`.

    A new run writes its record first, so that its files are always known to belong to a run. If reading fails, a new run
    removes all its files.
    """
    try:
        if before is None:
            artifacts.write_json(directory / RECORD, {"status": READING})
        place = directory / "data"
        place.mkdir(exist_ok=True)
        for leftover in place.glob(".*"):  # incomplete files of a killed run
            leftover.unlink()
        yield place
    except BaseException:
        if before is None:
            clear(directory)
        raise


def begin(
    directory: Path,
    resume: str,
    force: bool,
    marks: Mapping[str, Any],
    read: Callable[[Path], D],
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[D, dict[str, Any] | None]:
    """The data of the run in the locked `directory`, and the record of the run that it continues, or None.

    Args:
        marks, defaults: the `fingerprint` and the `defaults` of `previous`.
        read: reads the data into files of the directory that it is given.

    Raises:
        OutputError: see `previous`; or the data are not those of the run to continue.
        Any error of `read`.
    """
    before = previous(directory, resume, force, marks, defaults)
    with reading(directory, before) as place:
        data = read(place)
    if before is not None and before.get("data_sha256") != data.digests():
        raise other_text(directory)
    return data, before


def record(before: Mapping[str, Any] | None, data: RunData, marks: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The content of training.json during a run: everything needed to reproduce the model.

    Args:
        before: the record of the run that is continued, or None.
        more: further entries of the trainer, such as settings.
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
        **{key: value for key, value in (before or {}).items() if key == bundle.WEIGHTS_OF},
        **more,
        "fingerprint": dict(marks),
        "data": data.record(),
        "data_sha256": data.digests(),
        # start times of the parts of an interrupted run
        "parts": [*(before or {}).get("parts", []), time.strftime("%Y-%m-%dT%H:%M:%S%z")],
        "metrics": {},
    }


def stopped(directory: Path, reason: str, step: int, force: bool) -> Stopped:
    """The error for a run that was stopped with everything saved; `force`: the command had --force."""
    return Stopped(
        f"stopped by {reason} after step {step}, everything is saved in {display(str(directory))}",
        hint="the same command continues" + (", without --force" if force else ""),
    )


def _read_record(directory: Path) -> dict[str, Any] | None:
    """The record of the run in `directory`; None if there is none."""
    with contextlib.suppress(BundleError):
        record = artifacts.read_json(directory / RECORD)
        return record if "status" in record else None
    return None


def clear(directory: Path) -> None:
    """Remove the files of a run and nothing else; its record last, so that remaining files are known to belong to a run."""
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
                    os.rmdir(path.parent)  # fails until its last file is removed


def fingerprint(settings: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """`settings` and `more` after a round trip through JSON."""
    plain: dict[str, Any] = json.loads(json.dumps({**settings, **more}, default=str))
    return plain
