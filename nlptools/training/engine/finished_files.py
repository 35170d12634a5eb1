"""The records of finished runs that have written a file.

A file has no room for a record, so the record is kept in the user's cache directory, under the SHA-256 of the file. A file is
recognized wherever it is moved, but not after a change. Without the record, a repeated command refuses the existing output, as
other commands do.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from nlptools import environment
from nlptools.errors import BundleError, StreamError
from nlptools.files import artifacts
from nlptools.json_types import JsonObject
from nlptools.training.engine.run_directory import RECORD

_MOST = 1000  # records that are kept, the newest


def remember(output: Path, directory: Path) -> None:
    """Keep the record of the finished run in `directory` that has written the file `output`; errors are ignored."""
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


def recall(output: Path, directory: Path) -> JsonObject | None:
    """The record of the finished run that has written the file `output`; None without a file or a record.

    If a run was killed after it had written the output, its record is still in its directory.
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
    """Whether a directory holds a finished run."""
    with contextlib.suppress(BundleError):
        return artifacts.read_json(directory / RECORD).get("status") == "finished"
    return False


def state(output: Path) -> list[int] | None:
    """Inode, size and time of the file `output`, which change when it is written; None without a file."""
    if not output.is_file():
        return None
    status = output.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns]


def _place(output: Path) -> Path:
    return environment.cache_directory() / "runs" / f"{artifacts.sha256(output)}.json"
