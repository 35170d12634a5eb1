"""Text input and output: files, standard input and output, compressed or not, in blocks of lines.

Lines end only at `\\n`, and one `\\r` before it is dropped; U+2028, U+0085, VT and FF are data. The encoding is UTF-8 in every
locale; a byte order mark at the start is dropped. A block is the result of one read, up to the last line end, so that a
filter responds as soon as a pipe delivers data and memory does not grow with the input.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple, cast

from nlptools.errors import DataError, InputError, OutputError, StreamError, UsageError, display, reason
from nlptools.files import atomic, compression, input_parts, layout_names, progress, run_paths, standard
from nlptools.files.input_parts import BOM, TEXT, InputPart

BLOCK_BYTES = 1 << 20
MAX_LINE = 64 << 20  # bytes; a longer line is nearly always a wrong file, and makes some libraries abort
_limits = {"line": MAX_LINE}


class LineBlock(NamedTuple):
    """Consecutive lines of one input."""

    path: str
    start: int  # number of the first line, from 1
    lines: list[str]


# -- reading --------------------------------------------------------------------------------------------------------


def limit_lines(size: int) -> None:
    """From now on, reading a line of more than `size` bytes raises DataError (`--max-line`); the default is `MAX_LINE`."""
    _limits["line"] = size


def hold_text(lines: Sequence[str]) -> str:
    """The name of an input that consists of `lines` (`--text`); there is one such input."""
    return input_parts.hold("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))


def blocks(
    path: str | Path,
    errors: str = "strict",
    size: int = BLOCK_BYTES,
    keep_bom: bool = False,
    counted: bool = True,
    keep_returns: bool = False,
) -> Iterator[LineBlock]:
    """The lines of `path` (`-`: standard input), in blocks of roughly `size` bytes.

    `keep_bom`: keep a byte order mark at the start as the character U+FEFF. `counted`: the lines are records, and progress
    counts them. `keep_returns`: keep the `\\r` before the end of a line.

    Raises:
        InputError: no such file, a directory, unreadable.
        DataError: invalid UTF-8 while `errors` is "strict" (names line and byte), a line longer than the limit of
            `limit_lines`, or a damaged compressed file.
        StreamError: a read failed.
    """
    name = str(path)
    number = 1
    for chunk in line_chunks(name, size):
        if number == 1 and not keep_bom and input_parts.begins(name):
            chunk = chunk.removeprefix(BOM)
        try:
            text = chunk.decode("utf-8", errors)
        except UnicodeDecodeError:
            refuse_invalid(name, number, chunk.split(b"\n"))
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()
        if "\r" in text and not keep_returns:
            lines = [line[:-1] if line.endswith("\r") else line for line in lines]
        if counted:
            progress.read(name, len(chunk), len(lines))
        yield LineBlock(name, number, lines)
        number += len(lines)


def lines(path: str | Path, errors: str = "strict") -> Iterator[str]:
    """The lines of `path`, one by one, without their ends. Raises as `blocks` does."""
    for block in blocks(path, errors, counted=False):
        yield from block.lines


def all_blocks(paths: Sequence[str], errors: str = "strict") -> Iterator[LineBlock]:
    """The blocks of several inputs in turn; no path means standard input."""
    for path in check_inputs(paths):
        yield from blocks(path, errors)


def batches(paths: Sequence[str], size: int, errors: str = "strict") -> Iterator[LineBlock]:
    """The blocks of several inputs in turn, each in parts of at most `size` lines, for commands that are slow."""
    for part in windows(all_blocks(paths, errors), size):
        yield part
        progress.done(len(part.lines))


def windows(blocks: Iterable[LineBlock], size: int) -> Iterator[LineBlock]:
    """The blocks in order, each in parts of nearly equal numbers of lines, at most `size`."""
    for block in blocks:
        parts = -(-len(block.lines) // size)
        for i in range(parts):
            first, end = (len(block.lines) * k // parts for k in (i, i + 1))
            yield LineBlock(block.path, block.start + first, block.lines[first:end])


def check_inputs(paths: Sequence[str], held_out: Sequence[str] = ()) -> list[str]:
    """Check that all inputs, including `held_out`, can be opened; returns `paths`, or standard input if there are none.

    Raises:
        InputError: see `blocks`.
        UsageError: `-` occurs more than once.
    """
    names = [str(path) for path in paths] or ["-"]
    checked = [*names, *map(str, held_out)]
    if checked.count("-") > 1:
        raise UsageError("'-' (standard input) may occur only once")
    for name in checked:
        if name == "-":
            _announce_terminal()
        elif name != TEXT:
            _check_readable(name)
    return names


def zip_blocks(paths: Sequence[str], errors: str = "strict", keep_bom: bool = False) -> Iterator[tuple[list[str], ...]]:
    """Parallel lines of several inputs, as many at a time as are available: one list of lines for each input (`blocks`).

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
        lengths = ", ".join(f"{display(str(path))} has {n}" for path, n in zip(paths, counts, strict=True))
        raise DataError(f"unequal numbers of lines: {lengths}")


def line_chunks(
    name: str, size: int, ends: Sequence[bytes] = (b"\n",), opened: io.BufferedReader | None = None
) -> Iterator[bytes]:
    """Byte strings that each end with one of `ends`, except possibly the last one.

    `opened` is the input if it is already open; it is closed at the end. At most `size` bytes beyond the limit of
    `limit_lines` are kept in memory.

    Raises:
        DataError: more bytes than the limit without one of `ends`, or damaged compressed data.
    """
    with opened or open_bytes(name) as stream:
        rest: list[bytes] = []
        held, number = 0, 1  # bytes in `rest`, and the number of the line that begins there
        while True:
            try:
                data = stream.read1(size)
            except (EOFError, OSError, ValueError) as error:
                _refuse_read(name, error)
            except Exception as error:  # zlib.error, lzma.LZMAError, ZstdError
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
    """Raise DataError if a piece between `ends` is too long; `data` follows the `held` bytes of line `number`."""
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
    """`name` opened for reading bytes, decompressed if it is compressed; of a part of an input, its bytes."""
    if isinstance(name, InputPart):
        return name.reader(open_bytes(name.name))
    if name == "-":
        if 0 in standard.closed:
            raise InputError("<stdin>: standard input is closed")
        # closefd=False: closing the reader must not free descriptor 0, which the next opened file would get
        return compression.decompressed(open(0, "rb", closefd=False), "<stdin>")
    if name != TEXT:
        _check_readable(name)
    return input_parts.opened(name)


def regular_file(paths: Iterable[str | None]) -> str | None:
    """The first of `paths` that is a file which can be read again."""
    return next((path for path in paths if path is not None and path != "-" and os.path.isfile(path)), None)


def is_pipe_or_device(path: str) -> bool:
    """Whether `path` exists and is neither a file nor a directory."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _check_readable(name: str) -> None:
    run_paths.restore(name)
    try:
        mode = os.stat(name).st_mode
    except OSError as error:
        raise InputError(f"{display(name)}: {reason(error)}") from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{display(name)}: is a directory, expected a file")
    if not os.access(name, os.R_OK):
        raise InputError(f"{display(name)}: permission denied")


@functools.cache  # inputs are checked before torch is imported, and again by the library function
def _announce_terminal() -> None:
    if 0 not in standard.closed and os.isatty(0):
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


class LineWriter:
    """Lines to a file or standard output.

    A file is written under a temporary name and renamed when complete; devices, pipes and standard output are written to
    directly. Use as a context manager. `force`: replace an existing file; None: the command has no such option.
    `line_buffered` flushes after every line, otherwise after every `write`; `append` writes directly to the end of an existing
    file. `layout`: the layout of the output, which must suit the suffix of `path`; None: the caller has checked the name.

    Raises:
        UsageError: the suffix of `path` names another layout.
        OutputError: the file exists and `force` is not set, or cannot be created.
        StreamError: a write failed (disk full), or standard output is closed.
    """

    def __init__(
        self,
        path: str = "-",
        *,
        force: bool | None = False,
        line_buffered: bool = False,
        append: bool = False,
        layout: str | None = "text",
    ) -> None:
        if layout is not None:
            layout_names.check_output(path, layout)
        self.name = "<stdout>" if path == "-" else display(path)
        self.line_buffered = line_buffered
        self._final: Path | None = None
        self._temporary: str | None = None
        try:
            self._stream = self._open(path, force, append)
        except OSError as error:
            raise OutputError(f"{self.name}: {reason(error)}") from None

    def _open(self, path: str, force: bool | None, append: bool) -> IO[bytes]:
        if path == "-":
            return standard.output_bytes()
        target = Path(path)
        if target.is_dir():
            raise OutputError(f"{self.name}: is a directory, expected a file")
        if target.exists() and not target.is_file():  # a device or a named pipe
            return open(path, "wb")
        if append:
            return open(path, "ab")
        if target.exists() and not force:
            cure = "choose another name" if force is None else "--force replaces it"
            raise OutputError(f"{self.name}: exists", hint=cure)
        open_file = compression.opener(path)
        self._final = Path(os.path.realpath(path))
        if self._final.is_symlink():  # a loop of links has no end
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        handle, self._temporary = atomic.temporary_file(self._final)
        os.close(handle)
        return cast(IO[bytes], open_file(self._temporary, "wb"))

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write each of `lines` and a newline, then flush."""
        if self.line_buffered:
            for line in lines:
                self.write(line + "\n")
        else:
            text = "\n".join(lines)
            self.write(text + "\n" if text or lines else "")

    def write(self, text: str | bytes | memoryview) -> None:
        """Write and flush."""
        try:
            self._stream.write(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
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

    def __enter__(self) -> LineWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.close()
        finally:
            self._discard()

    def _discard(self) -> None:
        """Close the file, and remove it if it is still under its temporary name."""
        if self.name != "<stdout>":
            with contextlib.suppress(OSError):
                self._stream.close()
        if self._temporary is not None:
            atomic.discard(self._temporary)
