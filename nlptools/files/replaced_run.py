"""The run that --force replaces: it stays in a hidden folder of its directory until the new run has saved something.

After an error before that, it is put back; after a crash, by the next command that trains there or reads a file there. In each
state that a crash leaves, the record (training.json) tells which files belong to which run: it is the last file to move away, the
first to come back, and the last to be removed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from nlptools import messages
from nlptools.errors import BundleError, OutputError, display
from nlptools.files import artifacts, directory_lock
from nlptools.files.atomic import REPLACED
from nlptools.json_types import JsonObject

RECORD = "training.json"
FINISHED = "finished"  # status of a record


def names(directory: Path) -> list[str]:
    """The files and folders that a run may have; the record comes last."""
    manifest: JsonObject = {}
    with contextlib.suppress(BundleError, OSError):
        manifest = artifacts.manifest_files(directory)
    listed = [name for name in map(str, manifest) if artifacts.is_inside(name) and name != RECORD]
    return ["checkpoints", "data", "tensorboard", *listed, artifacts.MANIFEST, "log.jsonl", RECORD]


def set_aside(directory: Path) -> None:
    """Move the run of the directory into its folder. Raises OSError."""
    folder = directory / REPLACED
    folder.mkdir()
    for name in names(directory):
        _move(directory, folder, name)


def settle(directory: Path) -> None:
    """Keep the new run, if it has saved anything, else the replaced one. Without a replaced run, do nothing."""
    if not _is_there(directory):
        return
    if _is_superseded(directory):
        drop(directory)
    else:
        _put_back(directory)


def restore(directory: Path) -> None:
    """Put the replaced run back, for a command that reads the directory, if the new run was killed before it saved anything.

    Without a replaced run, do nothing.

    Raises:
        BundleError: the directory has no model, because the new run is at work, or was killed after it had saved something.
    """
    folder, name = directory / REPLACED, display(str(directory))
    if not _is_there(directory):
        return
    is_running = directory_lock.is_locked(directory)
    with contextlib.suppress(OutputError, OSError), directory_lock.locked(directory):
        if _is_there(directory) and not _is_superseded(directory):
            _put_back(directory)
            messages.note(f"{name}: a killed run of training has saved nothing, so the run that it replaced is back")
    if folder.is_dir() and not (directory / artifacts.MANIFEST).is_file():
        found = "a run of training is replacing the model" if is_running else "no model: its run of training was killed"
        kept = f"{display(str(folder))} has the model before, until the new run ends"
        raise BundleError(
            f"{name}: {found}", hint=kept if is_running else f"the same command continues the run; {kept}"
        )


def _is_there(directory: Path) -> bool:
    """Whether there is a replaced run, and not another folder of this name.

    A link of a directory from elsewhere could lead anywhere, and another user can make a folder in a shared place such as /tmp.
    """
    folder = directory / REPLACED
    if not folder.is_dir() or folder.is_symlink():
        return False
    is_run = (folder / RECORD).is_file() or (directory / RECORD).is_file()
    return is_run and folder.stat().st_uid in (directory.stat().st_uid, os.geteuid())


def _is_superseded(directory: Path) -> bool:
    """Whether the new run has saved something. While the files of the replaced run move, there is no new run yet."""
    return (directory / REPLACED / RECORD).is_file() and _has_saved(directory)


def _put_back(directory: Path) -> None:
    """Remove the new run and move the replaced one back."""
    folder = directory / REPLACED
    if (folder / RECORD).is_file():  # else a crash came while its files moved, and there is no other run
        clear(directory, names(folder)[:-1])  # the new run was perhaps killed before it had a manifest
        _move(folder, directory, RECORD)
    for path in sorted(path.relative_to(folder) for path in folder.iterdir()):
        _move(folder, directory, str(path))
    drop(directory)


def drop(directory: Path) -> None:
    """Remove the replaced run, if any; its record comes last, because what is left without it would be put back."""
    folder = directory / REPLACED
    if not _is_there(directory):
        return
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != RECORD:
                path.unlink()
        (folder / RECORD).unlink(missing_ok=True)
        folder.rmdir()


def clear(directory: Path, more: Iterable[str] = ()) -> None:
    """Remove the files of a run, and `more`, and nothing else.

    The record comes last: while it exists, the other files belong to a run.
    """
    for name in (*more, *names(directory)):
        path = directory / name
        if _leaves(path, directory):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)  # keeps a link to a folder, perhaps on another disk
        else:
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
    if _leaves(path, source) or _leaves(place, target):
        return
    if path.is_dir() and place.is_dir():
        for inner in sorted(path.iterdir()):
            _move(source, target, str(inner.relative_to(source)))
    elif path.exists() and not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        path.rename(place)
    _remove_empty(path.parent, source)


def _leaves(path: Path, within: Path) -> bool:
    """Whether a path inside `within` leads elsewhere by a link. A file may be a link itself: links are moved and removed."""
    return any(parent.is_symlink() for parent in path.parents if parent != within and within in parent.parents)


def _remove_empty(folder: Path, within: Path) -> None:
    """Remove a folder inside another one, if nothing is in it."""
    if folder != within:
        with contextlib.suppress(OSError):
            folder.rmdir()
