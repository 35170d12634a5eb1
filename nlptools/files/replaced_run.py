"""The run that --force replaces: it stays in a hidden folder of its directory until the new run has saved something.

After an error before that, and by the next command after a crash, it is put back. In each state that a crash leaves, the record
(training.json) tells which files belong to which run: it is the last file to move away and the first to come back.
"""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from nlptools.errors import BundleError
from nlptools.files import artifacts
from nlptools.json_types import JsonObject

RECORD = "training.json"
FOLDER = ".replaced"
FINISHED = "finished"  # status of a record


def names(directory: Path) -> list[str]:
    """The files and folders of a run, whether they are there or not; the record comes last."""
    manifest: JsonObject = {}
    with contextlib.suppress(BundleError, OSError):
        manifest = artifacts.manifest_files(directory)
    listed = [name for name in map(str, manifest) if artifacts.is_inside(name) and name != RECORD]
    return ["checkpoints", "data", "tensorboard", *listed, artifacts.MANIFEST, "log.jsonl", RECORD]


def set_aside(directory: Path) -> None:
    """Move the run of the directory into its folder. Raises OSError."""
    folder = directory / FOLDER
    folder.mkdir()
    for name in names(directory):
        _move(directory, folder, name)


def settle(directory: Path) -> None:
    """Keep the new run, if it has saved anything, else the replaced one. Without a replaced run, do nothing."""
    folder = directory / FOLDER
    if not folder.is_dir():
        return
    if (folder / RECORD).is_file():  # else a crash came while its files moved, and there is no other run
        if _has_saved(directory):
            drop(directory)
            return
        clear(directory)
        _move(folder, directory, RECORD)
    for path in sorted(path.relative_to(folder) for path in folder.iterdir()):
        _move(folder, directory, str(path))
    drop(directory)


def drop(directory: Path) -> None:
    """Remove the replaced run, if any."""
    shutil.rmtree(directory / FOLDER, ignore_errors=True)


def clear(directory: Path) -> None:
    """Remove the files of a run and nothing else. The record comes last: while it exists, the other files belong to a run."""
    for name in names(directory):
        path = directory / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)  # leaves a link to a folder, perhaps on another disk, as it is
        elif not path.parent.is_symlink():
            with contextlib.suppress(OSError):
                path.unlink()
        _remove_empty(path.parent, directory)


def _has_saved(directory: Path) -> bool:
    """Whether the run of the directory has a checkpoint or is finished."""
    if any(directory.glob("checkpoints/step-*")):
        return True
    with contextlib.suppress(BundleError):
        return artifacts.read_json(directory / RECORD).get("status") == FINISHED
    return False


def _move(source: Path, target: Path, name: str) -> None:
    """Move a file, or what a folder has, where it is missing."""
    path, place = source / name, target / name
    if path.is_dir() and place.is_dir():
        for inner in sorted(path.iterdir()):
            _move(source, target, str(inner.relative_to(source)))
    elif path.exists() and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
    _remove_empty(path.parent, source)


def _remove_empty(folder: Path, within: Path) -> None:
    """Remove a folder inside another one, if nothing is in it."""
    if folder != within:
        with contextlib.suppress(OSError):
            folder.rmdir()
