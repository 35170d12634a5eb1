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
def _moved_away(target: Path) -> Iterator[None]:
    """Give `target`, if it exists, a hidden name, and remove it at the end: it is never there in parts."""
    if not target.exists():
        yield
        return
    aside = Path(atomic.temporary_directory(target))
    mode = target.stat().st_mode
    try:
        target.replace(aside)
        try:
            aside.chmod(0o700)  # if this process is killed, the next one removes it
            yield
        except BaseException:
            aside.replace(target)
            target.chmod(mode)
            raise
    finally:
        atomic.discard(aside)


@contextlib.contextmanager
def replacing(path: str) -> Iterator[Path]:
    """A new directory, which replaces `path` if the context ends without an error.

    On Linux, the two are exchanged at once: whenever the process is killed, `path` is the old or the new directory.

    Raises:
        OutputError: it cannot be created or renamed.
    """
    target = Path(path).absolute()
    try:
        temporary = Path(atomic.temporary_directory(target))
    except OSError as error:
        raise OutputError(f"{display(path)}: {reason(error)}") from None
    try:
        yield temporary
        if target.exists() and atomic.exchange(temporary, target):
            temporary.chmod(0o700)  # the old one: if this process is killed, the next one removes it
        else:
            with _moved_away(target):
                temporary.replace(target)
        target.chmod(0o755)
        atomic.sync_directory(target.parent)
    except OSError as error:
        raise OutputError(f"{display(path)}: {reason(error)}") from None
    finally:
        atomic.discard(temporary)
