"""Atomic writes of directories: filled under a hidden name in the same place, and renamed when complete."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from nlptools.errors import OutputError, display, reason
from nlptools.files import atomic


def check_target(path: str, kind: str, is_kind: Callable[[Path], bool], *, force: bool) -> None:
    """Check that a directory can be written at `path`: the name is free, the directory is empty, or it may be replaced.

    Args:
        kind: the contents of the directory, for messages.
        is_kind: whether an existing directory has only such contents, so that `force` may replace it.

    Raises:
        OutputError: a file, an existing directory without `force`, or a directory with other contents.
    """
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise OutputError(f"{display(path)}: is a file, expected a directory of {kind}")
    if target.is_dir() and any(target.iterdir()):
        if not force:
            raise OutputError(f"{display(path)}: exists", hint="--force replaces it")
        if not is_kind(target):
            raise OutputError(f"{display(path)}: contains something other than {kind} and is not replaced")


@contextlib.contextmanager
def _moved_away(target: Path, aside: Path) -> Iterator[None]:
    """Move `target`, if it exists, to `aside`, and back after an error: it is never there in parts."""
    if not target.exists():
        yield
        return
    target.replace(aside)
    try:
        yield
    except BaseException:
        aside.replace(target)
        raise


@contextlib.contextmanager
def replacing(path: str) -> Iterator[Path]:
    """A new directory, which replaces `path` if the context ends without an error.

    On Linux, the two are exchanged at once: whenever the process is killed, `path` is the old or the new directory. Either is
    in a hidden directory while it has not that name, and `atomic.sweep` removes what a killed process left there.

    Raises:
        OutputError: it cannot be created or renamed.
    """
    target = Path(path).absolute()
    try:
        hidden = Path(atomic.temporary_directory(target))
    except OSError as error:
        raise OutputError(f"{display(path)}: {reason(error)}") from None
    new, old = hidden / "new", hidden / "old"
    try:
        new.mkdir()
        yield new
        if not (target.exists() and atomic.exchange(new, target)):
            with _moved_away(target, old):
                new.replace(target)
        atomic.sync_directory(target.parent)
    except OSError as error:
        raise OutputError(f"{display(path)}: {reason(error)}") from None
    finally:
        atomic.discard(hidden)
