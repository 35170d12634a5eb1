"""Files that are written whole: a name never stands for half a file, whatever ends the process or the power."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from nlptools.errors import StreamError, display, reason


def publish(temporary: str | Path, final: str | Path) -> None:
    """Give a finished temporary file its name, durably: fsync, permissions by umask, rename, fsync of the directory."""
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if os.path.isfile(temporary):
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
    os.replace(temporary, final)
    sync_directory(Path(final).parent)


def sync_directory(directory: str | Path) -> None:
    """Make the names in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: str | Path, data: bytes | str) -> None:
    """Write a file so that its name never stands for half of it.

    Raises:
        StreamError: disk full or another write error.
    """
    target = Path(path)
    try:
        import tempfile  # slow to import, see `streams`

        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with open(handle, "wb") as stream:
                stream.write(data if isinstance(data, bytes) else data.encode())
            publish(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise StreamError(f"{display(str(path))}: write failed: {reason(error)}") from None
