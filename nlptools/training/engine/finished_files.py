"""Finished runs whose output is a file, which has no room for their record.

The record is kept in the user's cache directory, by the SHA-256 of the file: a file is known wherever it is moved, and one that
has changed is not. Without it, a command that is given again refuses an output that exists, as other commands do.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from nlptools import environment
from nlptools.errors import BundleError, StreamError
from nlptools.files import artifacts
from nlptools.training.engine.run_directory import RECORD

_MOST = 1000  # records that are kept, the newest


def remember(output: Path, directory: Path) -> None:
    """Keep the record of the finished run in `directory`, which has written the file `output`; errors are ignored."""
    if not output.is_file():  # a pipe or a device
        return
    with contextlib.suppress(OSError, StreamError, BundleError):
        record = {**artifacts.read_json(directory / RECORD), "written": state(output)}
        artifacts.write_json(directory / RECORD, record)
        place = _place(output)
        place.parent.mkdir(parents=True, exist_ok=True)
        artifacts.write_json(place, record)
        kept = sorted(place.parent.glob("*.json"), key=lambda each: each.stat().st_mtime)
        for old in kept[:-_MOST]:
            old.unlink()


def recall(output: Path, directory: Path) -> dict[str, Any] | None:
    """The record of the finished run that has written the file `output`; None if there is no such file, or it is not known.

    A run that was killed after it had written the output has left its record in its directory.
    """
    if not output.is_file():
        return None
    with contextlib.suppress(OSError, BundleError):
        if is_finished(directory):
            record = artifacts.read_json(directory / RECORD)
            now = state(output)
            if record["written"] == now if "written" in record else record.get("replaces") != now:
                return record
        return artifacts.read_json(_place(output))
    return None


def is_finished(directory: Path) -> bool:
    """Whether there is a run in a directory, and it is finished."""
    with contextlib.suppress(BundleError):
        return artifacts.read_json(directory / RECORD).get("status") == "finished"
    return False


def state(output: Path) -> list[int] | None:
    """What changes when the file `output` is written; None if there is none."""
    if not output.is_file():
        return None
    status = output.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _place(output: Path) -> Path:
    return environment.cache_directory() / "runs" / f"{artifacts.sha256(output)}.json"
