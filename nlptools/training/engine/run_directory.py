"""The directory of a run: its lock, and whether a run in it may be continued."""

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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nlptools import __version__
from nlptools.errors import BundleError, OutputError, display, reason
from nlptools.files import artifacts

RECORD = "training.json"
LOCK = ".lock"
READING = "reading"  # status of a run that has not begun: its text is being read, or could not be


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory, made if need be, for one run; the lock goes with the process, whatever ends it.

    Raises:
        OutputError: it cannot be made, or another run holds it (says host, process and start).
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = open(directory / LOCK, "a+", encoding="utf-8")  # noqa: SIM115  held for the whole run
    except OSError as error:
        raise OutputError(f"{display(str(directory))}: cannot be made: {reason(error)}") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise OutputError(f"{display(str(directory))}: locked by another run ({handle.read().strip()})") from None
        handle.seek(0)
        handle.truncate()
        start = time.strftime("%Y-%m-%dT%H:%M:%S")
        handle.write(f"host {socket.gethostname()}, process {os.getpid()}, since {start}\n")
        handle.flush()
        yield


def previous(directory: Path, resume: str, force: bool, fingerprint: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record of the run to continue in `directory`, or None for a fresh start.

    `fingerprint` holds the settings that make it the same run. With `force` (or `resume` "never" and `force`) whatever
    run was there is removed, and always one that never began.

    Raises:
        OutputError: something else is there, or nothing is although `resume` is "must".
    """
    entries = [p.name for p in directory.iterdir() if p.name != LOCK] if directory.is_dir() else []
    name = display(str(directory))
    if not entries:
        if resume == "must":
            raise OutputError(f"{name}: nothing to resume")
        return None
    record = _record(directory)
    if record is not None and record.get("status") == READING:
        if resume == "must":
            raise OutputError(f"{name}: nothing to resume")
        force = True
    if force:
        _clear(directory)
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


def circumstances() -> dict[str, Any]:
    """Which program runs where, for the training record."""
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
    }


def _record(directory: Path) -> dict[str, Any] | None:
    try:
        return artifacts.read_json(directory / RECORD)
    except BundleError:
        return None


def _clear(directory: Path) -> None:
    """Remove what a run leaves, and nothing else."""
    for name in ("checkpoints", "data", "tensorboard"):
        shutil.rmtree(directory / name, ignore_errors=True)
    manifest = {}
    with contextlib.suppress(BundleError, OSError):
        manifest = artifacts.read_json(directory / artifacts.MANIFEST).get("files", {})
    for name in [*manifest, artifacts.MANIFEST, RECORD, "log.jsonl"]:
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
