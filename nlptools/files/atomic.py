"""Atomic writes: a name never refers to an incomplete file, even after a crash or a power failure.

A file in progress has a hidden name in the same directory, `.NAME.` and eight characters, until `publish` or `discard`. A
signal that ends the process runs no `finally` and would leave the hidden file; the command line removes it
(`remove_on_signals`). A Python signal handler waits until a call into C returns, so it is installed only while there is
something to remove; at other times such a signal ends the process at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, TypeVar

from nlptools.errors import StreamError, display, reason

T = TypeVar("T")

_unfinished: dict[str, int] = {}  # temporary files and directories -> process that writes them
_signals: tuple[signal.Signals, ...] = ()  # signals that remove them; none if imported as a library


# -- temporary names ----------------------------------------------------------------------------------------------------


def temporary_file(final: str | Path) -> tuple[int, str]:
    """Open a new file under a hidden name beside `final`, for reading and writing: (descriptor, name). Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return _make(*_hidden(final), lambda name: os.open(name, flags, 0o600))


def temporary_directory(final: str | Path) -> str:
    """Make a directory under a hidden name beside `final`. Raises OSError."""
    return _make(*_hidden(final), lambda name: os.mkdir(name, 0o700))[1]


@contextlib.contextmanager
def scratch_directory(prefix: str) -> Iterator[Path]:
    """A directory among the temporary files of the system, removed at the end. Raises OSError."""
    import tempfile  # slow to import

    name = _make(tempfile.gettempdir(), prefix, lambda name: os.mkdir(name, 0o700))[1]
    try:
        yield Path(name)
    finally:
        discard(name)


@contextlib.contextmanager
def scratch_beside(final: str | Path) -> Iterator[Path]:
    """A directory under a hidden name beside `final`, removed at the end. Raises StreamError."""
    try:
        name = temporary_directory(final)
    except OSError as error:
        raise StreamError(f"{display(str(final))}: {reason(error)}") from None
    try:
        yield Path(name)
    finally:
        discard(name)


def discard(temporary: str | Path) -> None:
    """Remove a temporary file or directory if it exists; errors are ignored."""
    _remove(temporary)
    _forget(temporary)


def unfinished(final: str | Path) -> list[Path]:
    """The existing temporary files and directories of `final`, such as those of a killed process."""
    folder, prefix = _hidden(final)
    end = re.compile("[0-9a-f]{8}")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return [Path(folder, name) for name in names if name.startswith(prefix) and end.fullmatch(name[len(prefix) :])]


def _hidden(final: str | Path) -> tuple[str, str]:
    """The folder and the prefix of the temporary names of `final`."""
    folder, name = os.path.split(os.path.abspath(final))
    return folder, f".{name}."


def _make(folder: str, prefix: str, make: Callable[[str], T]) -> tuple[T, str]:
    """Call `make` with a free name and return the result and the name, which is registered before the call."""
    while True:
        name = os.path.join(folder, prefix + os.urandom(4).hex())
        _unfinished[name] = os.getpid()
        _handle_signals(signal.SIG_DFL, _end)
        try:
            return make(name), name
        except FileExistsError:
            _forget(name)
        except BaseException:
            _forget(name)
            raise


def _remove(temporary: str | Path) -> None:
    with contextlib.suppress(OSError):
        if os.path.isdir(temporary):
            import shutil  # slow to import

            shutil.rmtree(temporary, ignore_errors=True)
        else:
            os.unlink(temporary)


def _forget(temporary: str | Path) -> None:
    _unfinished.pop(os.path.abspath(temporary), None)
    if not _unfinished:
        _handle_signals(_end, signal.SIG_DFL)


# -- signals --------------------------------------------------------------------------------------------------------------


def remove_on_signals(*numbers: signal.Signals) -> None:
    """From now on, these signals remove unfinished files before they end the process.

    Existing handlers, such as those of training, are kept: a signal is handled only if it has its default action when a
    temporary file is created.
    """
    global _signals
    _signals = numbers


def _handle_signals(before: object, handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Replace the handler `before` by `handler`; only the main thread may do so."""
    if threading.current_thread() is threading.main_thread():
        for number in _signals:
            if signal.getsignal(number) == before:
                signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """Remove the unfinished files of this process, not those of its parent; then terminate by the signal itself."""
    for name, process in reversed(list(_unfinished.items())):
        if process == os.getpid():
            _remove(name)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


# -- finished files -------------------------------------------------------------------------------------------------------


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
    _forget(temporary)
    sync_directory(Path(final).parent)


def sync_directory(directory: str | Path) -> None:
    """Make the names in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: str | Path, data: bytes | str) -> None:
    """Write a file atomically: its name never refers to an incomplete file.

    Raises:
        StreamError: disk full or another write error.
    """
    fill(Path(path), lambda stream: stream.write(data if isinstance(data, bytes) else data.encode()))


def copy_whole(source: str | Path, path: str | Path) -> None:
    """Copy a file atomically: the new name never refers to an incomplete file.

    Raises:
        OSError: `source` cannot be opened.
        StreamError: disk full or another write error.
    """
    import shutil  # slow to import

    with open(source, "rb") as given:
        fill(Path(path), lambda stream: shutil.copyfileobj(given, stream))


def fill(target: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file atomically: `write` gets a stream for its content. Raises StreamError."""

    def fill_stream(name: str) -> None:
        with open(name, "wb") as stream:
            write(stream)

    fill_named(target, fill_stream)


def fill_named(target: Path, write: Callable[[str], object]) -> None:
    """Write a file atomically: `write` gets the name of an empty file for its content. Raises StreamError for an OSError."""
    try:
        handle, temporary = temporary_file(target)
        os.close(handle)
        try:
            write(temporary)
            publish(temporary, target)
        finally:
            discard(temporary)
    except OSError as error:
        raise StreamError(f"{display(str(target))}: write failed: {reason(error)}") from None
