"""The one place that opens text: files, standard input and output, compressed or not, blocks of lines at a time.

Lines end at `\\n` alone and one `\\r` before it is dropped; U+2028, U+0085, VT, FF are data. UTF-8 whatever the locale;
a byte order mark at the start is dropped. A block is what one read gave, cut at the last line end, so that a filter
answers as soon as a pipe delivers and memory does not grow with the input.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from nlptools.errors import DataError, InputError, OutputError, StreamError, Unavailable, UsageError, display, reason
from nlptools.files import atomic

BLOCK_BYTES = 1 << 20
MAX_LINE = 64 << 20  # bytes: more in one line is nearly always a wrong file, and ends some libraries in an abort
BOM = b"\xef\xbb\xbf"
_MODULES = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma", ".zst": "zstandard"}  # suffix -> module with `open`
COMPRESSED = tuple(_MODULES)  # suffixes of compressed files
_limits = {"line": MAX_LINE}
_closed_streams: set[int] = set()  # of 0, 1, 2: those that were closed when the process started


class Block(NamedTuple):
    """Consecutive lines of one input."""

    path: str
    start: int  # number of the first line, from 1
    lines: list[str]


# -- reading --------------------------------------------------------------------------------------------------------


def limit_lines(size: int) -> None:
    """From now on, reading a line of more than `size` bytes raises DataError (`--max-line`); `MAX_LINE` at first."""
    _limits["line"] = size


def blocks(
    path: str | Path, errors: str = "strict", size: int = BLOCK_BYTES, keep_bom: bool = False
) -> Iterator[Block]:
    """The lines of `path` (`-`: standard input), in blocks of roughly `size` bytes.

    `keep_bom`: a byte order mark at the start is the first character, U+FEFF, instead of being dropped.

    Raises:
        InputError: no such file, a directory, unreadable.
        DataError: invalid UTF-8 while `errors` is "strict" (names line and byte), a line longer than the limit of
            `limit_lines`, or a damaged compressed file.
        StreamError: a read failed.
    """
    name = str(path)
    number = 1
    for chunk in line_chunks(name, size):
        if number == 1 and not keep_bom:
            chunk = chunk.removeprefix(BOM)
        try:
            text = chunk.decode("utf-8", errors)
        except UnicodeDecodeError:
            refuse_invalid(name, number, chunk.split(b"\n"))
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        if "\r" in text:
            lines = [line[:-1] if line.endswith("\r") else line for line in lines]
        yield Block(name, number, lines)
        number += len(lines)


def lines(path: str | Path, errors: str = "strict") -> Iterator[str]:
    """The lines of `path`, one by one, without their ends. Raises as `blocks` does."""
    for block in blocks(path, errors):
        yield from block.lines


def all_blocks(paths: Sequence[str], errors: str = "strict") -> Iterator[Block]:
    """The blocks of several inputs in turn; no path means standard input."""
    for path in check_inputs(paths):
        yield from blocks(path, errors)


def check_inputs(paths: Sequence[str], held_out: Sequence[str] = ()) -> list[str]:
    """`paths`, or standard input when there is none, after a look at each, and at those of `held_out`: all can be opened.

    Raises:
        InputError: see `blocks`.
        UsageError: `-` stands more than once.
    """
    names = [str(path) for path in paths] or ["-"]
    looked_at = [*names, *map(str, held_out)]
    if looked_at.count("-") > 1:
        raise UsageError("'-' (standard input) may stand only once")
    for name in looked_at:
        if name == "-":
            _announce_terminal()
        else:
            _check_readable(name)
    return names


def zip_blocks(paths: Sequence[str], errors: str = "strict", keep_bom: bool = False) -> Iterator[tuple[list[str], ...]]:
    """Parallel lines of several inputs, as many at a time as are at hand: one list of lines for each (`blocks`).

    Raises:
        DataError: the inputs differ in their number of lines; all counts are named.
    """
    sources = [blocks(path, errors, keep_bom=keep_bom) for path in paths]
    waiting: list[list[str]] = [[] for _ in paths]
    count = 0
    while True:
        for i, source in enumerate(sources):
            if not waiting[i] and (block := next(source, None)) is not None:
                waiting[i] = block.lines
        taken = min(map(len, waiting), default=0)
        if not taken:
            break
        yield tuple(held[:taken] for held in waiting)
        waiting = [held[taken:] for held in waiting]
        count += taken
    if any(waiting):
        counts = [
            count + len(held) + sum(len(block.lines) for block in source)
            for held, source in zip(waiting, sources, strict=True)
        ]
        told = ", ".join(f"{display(str(path))} has {n}" for path, n in zip(paths, counts, strict=True))
        raise DataError(f"unequal numbers of lines: {told}")


def line_chunks(
    name: str, size: int, ends: Sequence[bytes] = (b"\n",), opened: io.BufferedReader | None = None
) -> Iterator[bytes]:
    """Byte strings that each end at a line end, or another of `ends` (the last one perhaps without).

    `opened` is the input where it is open already, and is closed at the end. No more than `size` bytes beyond the limit
    of `limit_lines` are held.

    Raises:
        DataError: more bytes than the limit without one of `ends`, or damaged compressed data.
    """
    with opened or open_bytes(name) as stream:
        rest: list[bytes] = []
        held, number = 0, 1  # bytes in `rest`, and the number of the line that they begin
        while True:
            try:
                data = stream.read1(size)
            except (EOFError, OSError, ValueError) as error:
                _refuse_read(name, error)
            except Exception as error:  # zlib.error, lzma.LZMAError, ZstdError: each library has its own
                raise DataError(f"damaged compressed data: {error}", path=name) from None
            if not data:
                break
            if held + len(data) > _limits["line"]:
                _check_lengths(name, number, held, data, ends)
            end = max(map(data.rfind, ends)) + 1
            if not end:
                rest.append(data)
                held += len(data)
                continue
            yield b"".join([*rest, data[:end]])
            rest = [data[end:]] if end < len(data) else []
            held = len(data) - end
            number += data.count(b"\n")
        if rest:
            yield b"".join(rest)


def _check_lengths(name: str, number: int, held: int, data: bytes, ends: Sequence[bytes]) -> None:
    """Refuse `data`, which continues the `held` bytes of line `number`, if a piece between `ends` is too long."""
    place = 0
    for piece in re.split(b"[%b]" % b"".join(ends), data):
        if held + len(piece) > _limits["line"]:
            raise DataError(
                f"a line of more than {_limits['line']:,} bytes, the limit of --max-line",
                path=name,
                line=number + data.count(b"\n", 0, place),
                hint="check that this is text, or raise the limit: --max-line 1G",
            )
        held, place = 0, place + len(piece) + 1


def open_bytes(name: str) -> io.BufferedReader:
    """`name` opened for reading bytes, decompressed by its suffix."""
    if name == "-":
        if 0 in _closed_streams:
            raise InputError("<stdin>: standard input is closed")
        # closefd=False: leaving the reader must not close descriptor 0 for whoever opens a file next
        return open(0, "rb", closefd=False)
    _check_readable(name)
    try:
        return cast(io.BufferedReader, _codec(name)(name, "rb"))
    except OSError as error:
        raise InputError(f"{display(name)}: {reason(error)}") from None


def _codec(name: str) -> Callable[..., Any]:
    """The `open` function for the compression that the suffix names."""
    module = _MODULES.get(Path(name).suffix)
    if module is None:
        return open
    try:
        return cast(Callable[..., Any], importlib.import_module(module).open)
    except ImportError:
        hint = "pip install 'nlptools[zstd]'"
        raise Unavailable(f"{display(name)}: reading .zst needs the zstandard package", hint=hint) from None


def without_compression(path: str) -> str:
    """`path` without the suffix of a compression."""
    for suffix in COMPRESSED:
        path = path.removesuffix(suffix)
    return path


def is_pipe_or_device(path: str) -> bool:
    """Whether `path` exists and is neither a file nor a directory."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _check_readable(name: str) -> None:
    try:
        mode = os.stat(name).st_mode
    except OSError as error:
        raise InputError(f"{display(name)}: {reason(error)}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{display(name)}: is a directory, expected a file")
    if not os.access(name, os.R_OK):
        raise InputError(f"{display(name)}: permission denied")


@functools.cache  # a command looks at its inputs before torch is loaded, and the function it calls does so again
def _announce_terminal() -> None:
    if 0 not in _closed_streams and os.isatty(0):
        from nlptools import messages

        messages.note("reading from the terminal; end with Ctrl-D")


def refuse_invalid(name: str, number: int, raw: Iterable[bytes]) -> None:
    """Raise DataError with the place of the first invalid UTF-8 in lines that begin with line `number` of `name`."""
    for offset, line in enumerate(raw):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"invalid UTF-8 at byte {error.start + 1} of the line (0x{line[error.start]:02x})",
                path=name,
                line=number + offset,
                hint="convert with iconv, or choose --encoding-errors replace or ignore",
            ) from None


def _refuse_read(name: str, error: Exception) -> None:
    if isinstance(error, OSError) and error.errno is not None:
        raise StreamError(f"{display(name)}: read failed: {reason(error)}") from None
    raise DataError(f"damaged compressed data: {error}", path=name) from None


# -- writing --------------------------------------------------------------------------------------------------------


class Output:
    """Lines to a file or standard output.

    A file is written under a temporary name and renamed when whole; devices, pipes and standard output are written to
    directly. Use as a context manager. `line_buffered` flushes after every line, otherwise after every `write`; `append`
    writes behind what the file has, at once.

    Raises:
        OutputError: the file exists and `force` is not set, or cannot be made.
        StreamError: a write failed (disk full), or standard output is closed.
    """

    def __init__(
        self, path: str = "-", *, force: bool = False, line_buffered: bool = False, append: bool = False
    ) -> None:
        self.name = "<stdout>" if path == "-" else display(path)
        self.line_buffered = line_buffered
        self._final: Path | None = None
        self._temporary: str | None = None
        try:
            self._stream = self._open(path, force, append)
        except OSError as error:
            raise OutputError(f"{self.name}: {reason(error)}") from None

    def _open(self, path: str, force: bool, append: bool) -> IO[bytes]:
        if path == "-":
            return stdout_bytes()
        target = Path(path)
        if target.is_dir():
            raise OutputError(f"{self.name}: is a directory, expected a file")
        if target.exists() and not target.is_file():  # a device or a named pipe
            return open(path, "wb")
        if append:
            return open(path, "ab")
        if target.exists() and not force:
            raise OutputError(f"{self.name}: exists", hint="--force replaces it")
        codec = _codec(path)
        self._final = Path(os.path.realpath(path))
        handle, self._temporary = atomic.temporary_file(self._final)
        os.close(handle)
        return cast(IO[bytes], codec(self._temporary, "wb"))

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write each of `lines` and a newline, then flush."""
        if self.line_buffered:
            for line in lines:
                self.write(line + "\n")
        else:
            text = "\n".join(lines)
            self.write(text + "\n" if text or lines else "")

    def write(self, text: str | bytes) -> None:
        """Write and flush."""
        try:
            self._stream.write(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
            self._stream.flush()
        except OSError as error:
            self._refuse(error)

    def close(self) -> None:
        """Make the file durable and give it its name."""
        try:
            if self._final is None:
                self._stream.flush()
                if self.name != "<stdout>":
                    self._stream.close()
            else:
                self._stream.close()
                assert self._temporary is not None
                atomic.publish(self._temporary, self._final)
                self._temporary = None
        except OSError as error:
            self._refuse(error)

    def _refuse(self, error: OSError) -> None:
        if error.errno == errno.EPIPE:
            raise BrokenPipeError(*error.args) from None
        raise StreamError(f"{self.name}: write failed: {reason(error)}") from None

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self._discard()

    def _discard(self) -> None:
        """Close a file that is still open, and remove it if it has not got its name."""
        if self.name != "<stdout>":
            with contextlib.suppress(OSError):
                self._stream.close()
        if self._temporary is not None:
            atomic.discard(self._temporary)


def stdout_bytes() -> IO[bytes]:
    """Standard output for bytes. Raises StreamError when it was closed before the process started."""
    if 1 in _closed_streams or sys.stdout is None:
        raise StreamError("<stdout>: standard output is closed")
    return cast(IO[bytes], sys.stdout.buffer)


class ClosedOutput(io.StringIO):
    """Stands for a standard output that was closed before the process started: writing to it is an error."""

    def write(self, text: str) -> int:
        """Raises StreamError."""
        raise StreamError("<stdout>: standard output is closed")


def plug_closed_streams() -> None:
    """Open /dev/null on each of descriptors 0 to 2 that is closed.

    Else the next file opened would get that number, and whatever writes to standard output would write into it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            _closed_streams.add(descriptor)
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
