"""Atomic writes: a name never refers to an incomplete file, even after a crash or a power failure.

An unfinished file has a hidden name in the same directory, `.NAME.` and eight characters, until `publish` or `discard`. A
signal that ends the process runs no `finally` and would leave the hidden file, so the command line removes it
(`remove_on_signals`). A Python signal handler waits until a call into C returns. It is therefore installed only while there
are unfinished files; at other times such a signal ends the process at once.

A killed process removes nothing. Each process locks the hidden files and directories that it fills, and the next process that
writes the same name removes those without a lock (`sweep`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, TypeVar

from nlptools.errors import StreamError, display, reason

T = TypeVar("T")

unfinished: dict[str, int] = {}  # temporary files and directories -> process that writes them
_actions: dict[Callable[[], None], int] = {}  # called before a signal ends a process -> that process
_groups: dict[int, int] = {}  # process groups of commands -> process that runs them
_locks: dict[str, int] = {}  # temporary files and directories -> open descriptor that locks them
_RANDOM = re.compile("[0-9a-f]{8}")
_DATE = re.compile(
    r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"
)  # more likely part of a name that someone has given
REPLACED = ".replaced"  # hidden folder of the run that --force replaces, see `replaced_run`
_CURRENT, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux
_signals: tuple[signal.Signals, ...] = ()  # signals that remove them; none if imported as a library


# -- temporary names ----------------------------------------------------------------------------------------------------


def temporary_file(final: str | Path) -> tuple[int, str]:
    """Open a new hidden file in the directory of `final`, for reading and writing: (descriptor, name). Raises OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return _make(*_hidden(final), lambda name: os.open(name, flags, 0o600))


def temporary_directory(final: str | Path) -> str:
    """Make a hidden directory in the directory of `final`. Raises OSError."""
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
    """A hidden directory in the directory of `final`, removed at the end. Raises StreamError."""
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


def sweep(final: str | Path) -> None:
    """Remove the temporary files and directories of `final` that killed processes left; errors are ignored."""
    _sweep(*_hidden(final))


def _sweep(folder: str, prefix: str) -> None:
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            end = name[len(prefix) :]
            if name.startswith(prefix) and _RANDOM.fullmatch(end) and not _DATE.fullmatch(end):
                with contextlib.suppress(OSError):
                    _remove_if_left(os.path.join(folder, name))


def _remove_if_left(name: str) -> None:
    """Remove a temporary file or directory that no process fills. Raises OSError if a process does, or if locks are missing."""
    if name not in unfinished:
        _forget(name)
    status = os.lstat(name)
    is_ours = status.st_uid == os.getuid() and stat.S_IMODE(status.st_mode) in (0o600, 0o700)
    if is_ours and (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(name)
        finally:
            os.close(handle)


def _hidden(final: str | Path) -> tuple[str, str]:
    """The folder and the prefix of the temporary names of `final`."""
    folder, name = os.path.split(os.path.abspath(final))
    return folder, f".{name}."


def _make(folder: str, prefix: str, make: Callable[[str], T]) -> tuple[T, str]:
    """Call `make` with a free name and return the result and the name, which is registered before the call."""
    _sweep(folder, prefix)
    while True:
        name = os.path.join(folder, prefix + os.urandom(4).hex())
        unfinished[name] = os.getpid()
        _handle_signals(signal.SIG_DFL, _end)
        try:
            made = make(name)
            if _lock(name):
                return made, name
            _forget(name)
        except FileExistsError:
            _forget(name)
        except BaseException:
            _forget(name)
            raise


def _lock(name: str) -> bool:
    """Lock a temporary file or directory until `_forget` or the end of the process. False: another process removed it.

    Without locks in the operating system, `sweep` removes nothing.
    """
    try:
        _locks[name] = handle = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(handle).st_nlink > 0
    except (FileNotFoundError, BlockingIOError):
        return False
    except OSError:
        return True


def _remove(temporary: str | Path) -> None:
    with contextlib.suppress(OSError):
        if os.path.isdir(temporary):
            import shutil  # slow to import

            shutil.rmtree(temporary, ignore_errors=True)
        else:
            os.unlink(temporary)


def _forget(temporary: str | Path) -> None:
    name = os.path.abspath(temporary)
    unfinished.pop(name, None)
    if (handle := _locks.pop(name, None)) is not None:
        os.close(handle)
    _stop_handling()


# -- signals --------------------------------------------------------------------------------------------------------------


def remove_on_signals(*numbers: signal.Signals) -> None:
    """From now on, these signals remove unfinished files before they end the process.

    Existing handlers remain, such as the handlers of training: a signal is handled only if it has its default action when a
    temporary file is created.
    """
    global _signals
    _signals = numbers


@contextlib.contextmanager
def with_group(group: int) -> Iterator[None]:
    """Context in which a signal that ends this process also kills a process group, which this process has started."""
    _groups[group] = os.getpid()
    _handle_signals(signal.SIG_DFL, _end)
    try:
        yield
    finally:
        _groups.pop(group, None)
        _stop_handling()


@contextlib.contextmanager
def before_end(action: Callable[[], None]) -> Iterator[None]:
    """Context in which a signal that ends this process first calls `action`, after it has removed unfinished files."""
    _actions[action] = os.getpid()
    _handle_signals(signal.SIG_DFL, _end)
    try:
        yield
    finally:
        _actions.pop(action, None)
        _stop_handling()


def undo() -> None:
    """Remove the unfinished files of this process and kill its commands, before a signal ends it; its parent keeps its own."""
    for group, process in list(_groups.items()):
        if process == os.getpid():
            with contextlib.suppress(OSError):
                os.killpg(group, signal.SIGKILL)
    for name, process in reversed(list(unfinished.items())):
        if process == os.getpid():
            _remove(name)
    for action, process in list(_actions.items()):
        if process == os.getpid():
            action()


def _stop_handling() -> None:
    if not unfinished and not _groups and not _actions:
        _handle_signals(_end, signal.SIG_DFL)


def _handle_signals(before: object, handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    """Replace the handler `before` by `handler`; only the main thread may do so."""
    if threading.current_thread() is threading.main_thread():
        for number in _signals:
            if signal.getsignal(number) == before:
                signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """Undo what is unfinished; then terminate by the signal itself."""
    undo()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


# -- finished files -------------------------------------------------------------------------------------------------------


def publish(temporary: str | Path, final: str | Path) -> None:
    """Give a finished temporary file its name, durably: fsync, rename, permissions by umask, fsync of the directory."""
    descriptor = os.open(temporary, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, final)
    _forget(temporary)
    if os.path.isfile(final):  # only now: the permissions of a hidden file tell that it is one of ours
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(final, 0o666 & ~mask)
    sync_directory(Path(final).parent)


def sync_directory(directory: str | Path) -> None:
    """Make the names in `directory` durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exchange(first: str | Path, second: str | Path) -> bool:
    """Exchange the names of two directories at once, so that neither name is ever free; False where the system cannot.

    Raises:
        OSError: it failed for another reason.
    """
    import ctypes  # only here: most commands replace no directory

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # Linux
    if rename is None:
        return False
    if not rename(_CURRENT, os.fsencode(first), _CURRENT, os.fsencode(second), _EXCHANGE):
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(second))


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
