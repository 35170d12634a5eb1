"""The lock of a directory that one process fills, such as the directory of a training run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from nlptools.errors import OutputError, display, reason

NAME = ".lock"


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Lock the directory for one run, and create it if necessary. The lock ends with the process, even if that is killed.

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
                if os.path.samestat(os.fstat(handle.fileno()), os.stat(directory / NAME)):
                    os.unlink(directory / NAME)
                for path in created:
                    path.rmdir()


def _lock(directory: Path) -> IO[str]:
    """The lock file, open and locked. Raises as `locked`."""
    path, name = directory / NAME, display(str(directory))
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


def is_locked(directory: Path) -> bool:
    """Whether a run has locked the directory."""
    try:
        with open(directory / NAME, "rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no lock, or the file system has none
        return False
    return False
