"""Compressed files: gzip, bzip2, xz and Zstandard, known by the suffix of their name or by their first bytes."""

from __future__ import annotations

import importlib
import io
import os
import re
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

from nlptools.errors import Unavailable, display

_HEAD = 10  # bytes that the patterns below look at
_PIECE = 2048  # compressed bytes at a time: at most 64 MiB of content, as 4 bytes can stand for 128 KiB


class _Format(NamedTuple):
    module: str  # has the function `open`
    head: re.Pattern[bytes]  # the first bytes of a file


_FORMATS = {
    ".gz": _Format("gzip", re.compile(rb"\x1f\x8b")),
    ".bz2": _Format("bz2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)")),
    ".xz": _Format("lzma", re.compile(rb"\xfd7zXZ\x00")),
    ".zst": _Format("zstandard", re.compile(rb"\x28\xb5\x2f\xfd")),
}
SUFFIXES = tuple(_FORMATS)


def without_suffix(path: str) -> str:
    """`path` without a suffix for compression."""
    for suffix in SUFFIXES:
        path = path.removesuffix(suffix)
    return path


def is_compressed(path: str) -> bool:
    """Whether `path` is a compressed file. The content of pipes is not looked at."""
    if path.endswith(SUFFIXES) or not os.path.isfile(path):
        return path.endswith(SUFFIXES)
    with open(path, "rb") as stream:
        return _suffix(stream.read(_HEAD)) is not None


def opener(name: str) -> Callable[..., Any]:
    """The function `open` for the suffix of `name`. Raises Unavailable without the package for it."""
    format = _FORMATS.get(Path(name).suffix)
    if format is None:
        return open
    try:
        return cast(Callable[..., Any], importlib.import_module(format.module).open)
    except ImportError:
        raise Unavailable(f"{display(name)}: reading .zst needs the zstandard package", extra="zstd") from None


def decompressed(stream: io.BufferedReader, name: str) -> io.BufferedReader:
    """The content of `stream`, the open input `name`, decompressed if it is compressed. Raises Unavailable, OSError."""
    suffix = Path(name).suffix
    if suffix not in SUFFIXES:
        suffix = _suffix(stream.peek(_HEAD)) or ""
    if not suffix:
        return stream
    open_file = opener(name if name.endswith(suffix) else name + suffix)
    result = io.BufferedReader(_Frames(stream)) if suffix == ".zst" else open_file(stream, "rb")
    weakref.finalize(result, stream.close)  # the modules close only files that they have opened themselves
    return cast(io.BufferedReader, result)


class _Frames(io.RawIOBase):
    """The content of the frames of Zstandard in a stream. The package's own reader takes a cut frame for the end of the file."""

    def __init__(self, stream: io.BufferedReader) -> None:
        self._stream = stream
        self._package = importlib.import_module("zstandard")
        self._frame: Any = None
        self._ahead, self._content = b"", memoryview(b"")  # compressed, and decompressed

    def readable(self) -> bool:
        """See io."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """See io. Raises EOFError if the stream ends inside a frame, and the package's error for damaged data."""
        while not self._content:
            data = self._ahead or self._stream.read1(_PIECE)
            if not data:
                if self._frame is not None:
                    raise EOFError("the file ends inside a frame")
                return 0
            self._frame = self._frame or self._package.ZstdDecompressor().decompressobj()
            self._content, self._ahead = memoryview(self._frame.decompress(data)), b""
            if self._frame.eof:
                self._ahead, self._frame = self._frame.unused_data, None
        size = min(len(buffer), len(self._content))
        buffer[:size], self._content = self._content[:size], self._content[size:]
        return size


def _suffix(head: bytes) -> str | None:
    """The suffix of the format that begins with `head`."""
    return next((suffix for suffix, format in _FORMATS.items() if format.head.match(head)), None)
