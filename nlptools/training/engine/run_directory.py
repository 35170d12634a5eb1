"""The directory of a run: its record in training.json, and whether a run in it may continue."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shlex
import socket
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nlptools import bundle, environment
from nlptools.configs.combinations import free_options
from nlptools.errors import BundleError, OutputError, Stopped, display
from nlptools.files import artifacts, atomic, directory_lock, replaced_run
from nlptools.files.json_fields import child, texts
from nlptools.json_types import JsonObject
from nlptools.version import __version__

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RECORD = replaced_run.RECORD
FINISHED = "{}: the run is finished already; --force repeats it"  # the message of a repeated command
Record = dict[str, object]  # the content of training.json
READING = "reading"  # status of a run that is still reading its text, or failed to


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run.

    Attributes:
        values: all settings, by name.
        free: names of the settings that may change when the run continues.
        defaults: the defaults of options. An option that is newer than a run counts as having its default there.
    """

    values: Mapping[str, object]
    free: Collection[str] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, *options: DataclassInstance, **more: object) -> RunSettings:
        """The settings in `options`, instances of dataclasses, and `more`."""
        values = {name: value for each in options for name, value in asdict(each).items()}
        defaults = {option.name: option.default for each in options for option in fields(each)}
        return cls({**values, **more}, free_options(*options), defaults)

    @property
    def fingerprint(self) -> JsonObject:
        """The settings that must be the same when the run continues, as JSON gives them back."""
        fixed = {name: value for name, value in self.values.items() if name not in self.free}
        plain: JsonObject = json.loads(json.dumps(fixed, default=str))
        return plain

    def changed(self, record: JsonObject) -> list[str]:
        """The settings that must be equal to those in `record`, but are not."""
        before = child(record, "fingerprint", RECORD)
        return [
            name
            for name, value in self.fingerprint.items()
            if (before[name] != value if name in before else bool(value) and value != self.defaults.get(name))
        ]


class RunData(Protocol):
    """The data of a run: training data, and held-out data if any."""

    def digests(self) -> dict[str, str | None]:
        """SHA-256 of each part, None for a missing part. A run continues only if they are unchanged."""

    def record(self) -> Mapping[str, object]:
        """The description in training.json: names, checksums and counts of each part."""


def previous(directory: Path, resume: str, force: bool, settings: RunSettings) -> JsonObject | None:
    """The record of the run to continue in `directory`, or None to start a new one.

    With `force` any existing run is replaced. A run that ended before it had read its text is always replaced.

    Raises:
        OutputError: the directory holds something else, which is never removed; or nothing, and `resume` is "must".
    """
    name = display(str(directory))
    record = _read_record(directory)
    atomic.sweep(directory / RECORD)  # of a run that was killed at its start: the directory is then empty
    if record is None and any(path.name != directory_lock.NAME for path in directory.iterdir()):
        raise OutputError(f"{name}: exists and holds no training run", hint="choose another directory")
    if record is None or record["status"] == READING:
        if resume == "must":
            raise OutputError(f"{name}: nothing to resume")
        return None
    if force:
        return None
    if resume == "never":
        raise OutputError(f"{name}: exists", hint="--force replaces it")
    if different := settings.changed(record):
        raise OutputError(
            f"{name}: holds a run with other settings ({', '.join(different)})",
            hint="--force replaces it; or choose another directory",
        )
    return record


def other_text(directory: Path) -> OutputError:
    """The error for a run of the same settings on another text."""
    return OutputError(f"{display(str(directory))}: holds a run on other text", hint="--force replaces it")


@contextlib.contextmanager
def reading(directory: Path, before: JsonObject | None) -> Iterator[Path]:
    """Context in which a run reads its text into the directory it yields; `before` is the result of `previous`.

    A new run sets aside the run that it replaces, and writes its record first: the files of a directory with a record belong to
    a run. If reading fails, a new run removes all its files.
    """
    if before is None and (_read_record(directory) or {"status": READING})["status"] != READING:
        replaced_run.set_aside(directory)
    try:
        if before is None:
            replaced_run.clear(directory)
            artifacts.write_json(directory / RECORD, {"status": READING})
        place = directory / "data"
        place.mkdir(exist_ok=True)
        for leftover in place.glob(".*"):  # incomplete files of a killed run
            leftover.unlink()
        yield place
    except BaseException:
        if before is None:
            replaced_run.clear(directory)
        raise


def record(
    before: JsonObject | None,
    data: RunData,
    settings: RunSettings,
    invocation: Mapping[str, object],
    more: Mapping[str, object],
) -> Record:
    """The content of training.json during a run: everything needed to reproduce the model.

    Args:
        before: the record of the run that is continued, or None.
        more: further entries.
    """
    return {
        "nlptools": __version__,
        "host": socket.gethostname(),
        "process": os.getpid(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "executable": sys.executable,
        "versions": {name: metadata.version(name) for name in ("torch", "numpy") if name in sys.modules},
        "status": "running",
        **{key: value for key, value in (before or {}).items() if key == bundle.WEIGHTS_OF},
        "invocation": dict(invocation),
        "settings": dict(settings.values),
        **more,
        "fingerprint": settings.fingerprint,
        "data": data.record(),
        "data_sha256": data.digests(),
        # start times of the parts of an interrupted run
        "parts": [*texts(before or {}, "parts", RECORD), time.strftime("%Y-%m-%dT%H:%M:%S%z")],
        "metrics": {},
    }


def stopped(directory: Path, reason: str, step: int, force: bool) -> Stopped:
    """The error for a run that was stopped with everything saved; `force`: the command had --force."""
    hint = "the same command continues" if not force else "the same command with --resume must continues"
    if environment.under_torchrun():
        hint += f"; 'nlptools describe --status {shlex.quote(str(directory))}' ends with status 75"
    return Stopped(
        f"stopped by {reason} after step {step}, everything is saved in {display(str(directory))}",
        hint=hint,
        exit_code=stopped_status(),
    )


def stopped_status() -> int:
    """The exit status of a run that was stopped with everything saved: 75, but 0 under torchrun."""
    return 0 if environment.under_torchrun() else Stopped.exit_code


def _read_record(directory: Path) -> JsonObject | None:
    """The record of the run in `directory`; None if there is none."""
    with contextlib.suppress(BundleError):
        record = artifacts.read_json(directory / RECORD)
        return record if "status" in record else None
    return None
