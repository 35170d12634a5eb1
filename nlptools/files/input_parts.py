"""Parts of the inputs: the shard of one process of many, and the lines that an earlier run has not processed.

Shards are consecutive ranges of bytes that begin and end at line ends, so that the concatenated outputs of all shards are the
output of the whole input, and a process reads its own range only. Commands that number their lines (the seeds of
`generate` are line numbers) count the lines before the range (`lines_before`).
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from nlptools.errors import DataError, InputError, NamedPart, OutputError, UsageError, display, reason
from nlptools.files import compression
from nlptools.files.compression import is_compressed

BOM = b"\xef\xbb\xbf"
PIECE = 1 << 20  # bytes read at a time
TEXT = "<text>"  # name of the input that `hold` sets
_held = {TEXT: b""}


class InputPart(NamedPart):
    """The name of a part of an input: the bytes `start` to `end` (None: all), without their first `skip` lines.

    `place`: its number among the inputs, from 0.
    """

    place: int
    start: int
    end: int | None
    skip: int

    def __new__(cls, name: str, place: int, start: int = 0, end: int | None = None, skip: int = 0) -> InputPart:
        """See `InputPart`."""
        part = super().__new__(cls, name)
        part.place, part.start, part.end, part.skip = place, start, end, skip
        return part

    def __getnewargs__(self) -> tuple[str, int]:  # type: ignore[override]
        return self.name, self.place

    @property
    def name(self) -> str:
        """The name of the whole input."""
        return str.__str__(self)

    def __str__(self) -> str:
        return self  # str() keeps the part

    def lines_before(self) -> int:
        """The number of lines of the input before the part; 0 for standard input, which is read once."""
        if not self.start:
            return self.skip
        with opened(self.name) as stream:
            return self.skip + sum(piece.count(b"\n") for piece in _pieces(stream, self.start))

    def reader(self, stream: io.BufferedReader) -> io.BufferedReader:
        """The bytes of the part; `stream` is at the beginning of the input."""
        if isinstance(stream, io.BufferedReader) and isinstance(stream.raw, io.FileIO) and self.start:
            stream.seek(self.start)
        else:
            for _ in _pieces(stream, self.start):
                pass
        result: io.BufferedReader = io.BufferedReader(
            _Range(stream, None if self.end is None else self.end - self.start)
        )
        for _ in range(self.skip):
            result.readline()
        return result


class _Range(io.RawIOBase):
    """The next `size` bytes of a stream (None: all), which it closes."""

    def __init__(self, stream: io.BufferedReader, size: int | None) -> None:
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self._stream.read1(len(buffer) if self._left is None else min(len(buffer), self._left))
        buffer[: len(data)] = data
        if self._left is not None:
            self._left -= len(data)
        return len(data)

    def close(self) -> None:
        self._stream.close()
        super().close()


def hold(data: bytes) -> str:
    """The name of an input that consists of `data`; there is one such input."""
    _held[TEXT] = data
    return TEXT


def held() -> io.BufferedReader:
    """The data that `hold` was given."""
    return io.BufferedReader(io.BytesIO(_held[TEXT]))


def opened(name: str) -> io.BufferedReader:
    """A file, decompressed, or the text that is held. Raises InputError."""
    if name == TEXT:
        return held()
    try:
        return compression.decompressed(open(name, "rb"), name)
    except OSError as error:
        raise InputError(f"{display(name)}: {reason(error)}") from None


def begins(name: str) -> bool:
    """Whether reading `name` begins with the first byte of the input, where a byte order mark can be."""
    return not isinstance(name, InputPart) or not (name.start or name.skip)


def lines_before(names: Sequence[str], part: Sequence[str]) -> int:
    """The number of lines of the inputs `names` before their part `part`, see `shard` and `after`."""
    first = part[0]
    if not isinstance(first, InputPart):
        return 0
    return sum(map(_lines, names[: first.place])) + first.lines_before()


def shard(names: Sequence[str], part: int, parts: int) -> list[str]:
    """Part `part` (from 1) of `parts` of the lines of all inputs together: nearly equal numbers of bytes.

    Raises:
        UsageError: standard input, which cannot be divided in advance.
        InputError, DataError: an input cannot be read.
    """
    refuse_standard_input(names)
    sizes = [_size(name) for name in names]
    bounds = [sum(sizes) * k // parts for k in (part - 1, part)]
    taken: list[str] = []
    place = 0
    for i, (name, size) in enumerate(zip(names, sizes, strict=True)):
        start, end = (_line_start(name, min(max(bound - place, 0), size), size) for bound in bounds)
        if start < end:
            taken.append(InputPart(name, i, start, end))
        place += size
    return taken or [InputPart(names[0], 0, end=0)]


def parallel_shard(names: Sequence[str], part: int, parts: int) -> list[str]:
    """Part `part` (from 1) of `parts` of the lines of parallel inputs: the same lines of each.

    Raises:
        UsageError: standard input.
        DataError: the inputs differ in their number of lines; or as `shard`.
    """
    refuse_standard_input(names)
    counts = [_lines(name) for name in names]
    if len(set(counts)) > 1:
        listed = ", ".join(f"{display(name)} has {count}" for name, count in zip(names, counts, strict=True))
        raise DataError(f"unequal numbers of lines: {listed}")
    bounds = [counts[0] * k // parts for k in (part - 1, part)]
    ranges = ([_offset(name, bound) for bound in bounds] for name in names)
    return [InputPart(name, i, *ends) for i, (name, ends) in enumerate(zip(names, ranges, strict=True))]


def after(names: Sequence[str], done: int) -> list[str]:
    """The inputs without their first `done` lines.

    Raises:
        UsageError: lines of standard input should be skipped, and other inputs follow it.
    """
    for i, name in enumerate(names):
        if not done:
            return list(names[i:])
        if name == "-" and i < len(names) - 1:
            raise UsageError("--skip-done: standard input must be the last input")
        count = 0 if name == "-" else _lines(name)
        if name == "-" or count > done:
            first = name if isinstance(name, InputPart) else InputPart(name, i)
            return [InputPart(first.name, first.place, first.start, first.end, first.skip + done), *names[i + 1 :]]
        done -= count
    return [InputPart(names[-1], len(names) - 1, end=0)]


def done_lines(path: str) -> int:
    """Number of complete lines in the output file `path`, 0 if it does not exist; an incomplete last line is removed.

    Raises:
        UsageError: standard output, or a compressed file, which cannot be continued.
        OutputError: the file cannot be read or truncated.
    """
    if path == "-" or Path(path).suffix in compression.SUFFIXES:
        raise UsageError("--skip-done needs an output file, not compressed: -o FILE")
    try:
        with open(path, "r+b") as stream:
            count, end, place = 0, 0, 0
            for data in _pieces(stream):
                count += data.count(b"\n")
                last = data.rfind(b"\n")
                end = place + last + 1 if last >= 0 else end
                place += len(data)
            stream.truncate(end)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise OutputError(f"{display(path)}: {os.strerror(error.errno or 0)}") from None
    return count


def refuse_standard_input(names: Sequence[str]) -> None:
    """Raise UsageError if standard input is among the inputs of a shard."""
    if "-" in names:
        raise UsageError(
            "--shard needs files: standard input cannot be divided in advance",
            hint="parallel --pipe -k deals the lines of standard input to processes, in order",
        )


def _pieces(stream: IO[bytes], size: int | None = None) -> Iterator[bytes]:
    """The next `size` bytes of a stream (None: all), in pieces."""
    while size is None or size > 0:
        data = stream.read(PIECE if size is None else min(size, PIECE))
        if not data:
            return
        yield data
        size = None if size is None else size - len(data)


def reader(name: str) -> io.BufferedReader:
    """The bytes of an input or a part. Raises InputError."""
    return name.reader(opened(name.name)) if isinstance(name, InputPart) else opened(name)


def _lines(name: str) -> int:
    """Number of lines of an input or a part; the last one may lack its newline. A byte order mark alone is no line."""
    count, last, head = 0, b"\n", b""
    with reader(name) as stream:
        for data in _pieces(stream):
            count += data.count(b"\n")
            last = data[-1:]
            head += data[: len(BOM) + 1 - len(head)]
    return count + (last != b"\n" and not (begins(name) and head == BOM))


def _size(name: str) -> int:
    """Number of bytes of an input, decompressed."""
    if name != TEXT and stat.S_ISREG(os.stat(name).st_mode) and not is_compressed(name):
        return os.path.getsize(name)
    with opened(name) as stream:
        return sum(map(len, _pieces(stream)))


def _line_start(name: str, offset: int, size: int) -> int:
    """The first line start of an input of `size` bytes at `offset` or later; `size` if there is none."""
    if offset in (0, size):
        return offset
    with InputPart(name, 0, offset - 1).reader(opened(name)) as stream:
        place = offset - 1
        for data in _pieces(stream):
            if (found := data.find(b"\n")) >= 0:
                return place + found + 1
            place += len(data)
    return size


def _offset(name: str, line: int) -> int:
    """The place of the first byte of a line, counted from 0."""
    place = 0
    with opened(name) as stream:
        for data in _pieces(stream):
            count = data.count(b"\n")
            if count < line:
                line -= count
                place += len(data)
                continue
            found = -1
            for _ in range(line):
                found = data.index(b"\n", found + 1)
            return place + found + 1
    return place
