"""GGUF files, the format of llama.cpp: metadata, and tensors of numbers or of blocks of quantized numbers.

Versions 2 and 3, little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). Files are untrusted: every size is
checked against the size of the file before anything is allocated.
"""

from __future__ import annotations

import array
import mmap
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import NamedTuple

from nlptools.errors import BundleError, display, reading, shorten

SUFFIX = ".gguf"
MAGIC = b"GGUF"
Value = str | int | float | bool | bytes | list[str] | list[int] | list[float]  # bytes: an array of 8-bit numbers
Metadata = Mapping[str, Value]

_VERSIONS = (2, 3)
ALIGNMENT = 32  # of tensors, where the file does not say another
_MOST_DIMENSIONS = 4
_MOST_NUMBERS = 1 << 40  # in a tensor
_SMALLEST_FILE = 24  # bytes: without metadata and tensors
_SMALLEST = 13  # bytes of an entry of the metadata, and fewer than of a tensor's description
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9
_EIGHT_BITS = (0, 1)


class BlockType(NamedTuple):
    """A type of tensors: its name, and the numbers and bytes of a block."""

    name: str
    numbers: int
    bytes: int


TYPES = {
    0: BlockType("F32", 1, 4),
    1: BlockType("F16", 1, 2),
    2: BlockType("Q4_0", 32, 18),
    3: BlockType("Q4_1", 32, 20),
    6: BlockType("Q5_0", 32, 22),
    7: BlockType("Q5_1", 32, 24),
    8: BlockType("Q8_0", 32, 34),
    10: BlockType("Q2_K", 256, 84),
    11: BlockType("Q3_K", 256, 110),
    12: BlockType("Q4_K", 256, 144),
    13: BlockType("Q5_K", 256, 176),
    14: BlockType("Q6_K", 256, 210),
    20: BlockType("IQ4_NL", 32, 18),
    23: BlockType("IQ4_XS", 256, 136),
    30: BlockType("BF16", 1, 2),
}


class TensorPlace(NamedTuple):
    """Where a tensor is in a file: type, shape (rows first, as in PyTorch), and the first and the number of its bytes."""

    type: int
    shape: tuple[int, ...]
    start: int
    size: int


@dataclass(frozen=True)
class GGUFFile:
    """The description of a GGUF file; the numbers of its tensors are not read."""

    path: Path
    metadata: Metadata
    tensors: Mapping[str, TensorPlace]

    def text(self, key: str, default: str = "") -> str:
        """The text under a key. Raises BundleError for another value."""
        value = self.metadata.get(key, default)
        if not isinstance(value, str):
            raise self.bad(f"{key} is no text")
        return value

    def texts(self, key: str) -> list[str]:
        """The list of texts under a key; empty if it is missing. Raises BundleError for another value."""
        values = self.metadata.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise self.bad(f"{key} is no list of texts")
        return [str(value) for value in values]

    def numbers(self, key: str) -> list[float]:
        """The list of numbers under a key; empty if it is missing. Raises BundleError for another value."""
        values = self.metadata.get(key, [])
        if not isinstance(values, list) or any(isinstance(value, str) for value in values):
            raise self.bad(f"{key} is no list of numbers")
        return [float(value) for value in values]

    def flag(self, key: str, default: bool) -> bool:
        """The truth value under a key. Raises BundleError for another value."""
        value = self.metadata.get(key, default)
        if not isinstance(value, bool):
            raise self.bad(f"{key} is no truth value")
        return value

    def id(self, key: str) -> int | None:
        """The id of a token under a key; None if it is missing, or not the id of a token."""
        value = self.metadata.get(key)
        return value if type(value) is int and 0 <= value < 1 << 31 else None

    def bad(self, why: str) -> BundleError:
        """The error for a file with content that is not expected."""
        return BundleError(f"{display(str(self.path))}: {shorten(why, 300)}")


def is_gguf(path: str | Path) -> bool:
    """Whether a path has the name of a GGUF file, and is no directory."""
    return str(path).endswith(SUFFIX) and not Path(path).is_dir()


def read(path: Path) -> GGUFFile:
    """The description of a GGUF file.

    Raises:
        InputError: no such file, or unreadable.
        BundleError: not a GGUF file, or one that is damaged, cut short or of a kind that is not supported.
    """
    state = path.stat()
    if not path.is_file():
        raise BundleError(f"{display(str(path))}: not a regular file")
    return _cached(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=1)  # weights, tokenizer and chat template are read one after the other
def _cached(path: Path, time: int, size: int) -> GGUFFile:
    with reading(path), open(path, "rb") as stream:
        if size < _SMALLEST_FILE:
            raise BundleError(f"{display(str(path))}: not a GGUF file: {size} bytes")
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _read(path, data, size)
            except _Bad as error:
                raise BundleError(f"{display(str(path))}: {error}") from None


class _Bad(Exception):
    """The file is invalid; the message says why."""


class _Cursor:
    """A position in the file. All methods move it, and raise _Bad at the end of the file."""

    def __init__(self, data: mmap.mmap, size: int) -> None:
        self.data, self.size, self.at = data, size, 0

    def take(self, count: int) -> int:
        """The position of the next `count` bytes."""
        if count > self.size - self.at:
            raise _Bad("damaged: the file is cut short, or says a size that it does not have")
        self.at += count
        return self.at - count

    def number(self, code: str) -> int:
        """A whole number, as in `struct`."""
        value: int = struct.unpack_from("<" + code, self.data, self.take(struct.calcsize(code)))[0]
        return value

    def text(self) -> str:
        """A text, after its length."""
        length = self.number("Q")
        start = self.take(length)
        return self.data[start : start + length].decode("utf-8", "replace")

    def value(self) -> Value:
        """A value of the metadata, after its type."""
        kind = self.number("I")
        if kind == _TEXT:
            return self.text()
        if kind != _ARRAY:
            value: int | float | bool = self.number(_code(kind))
            return value
        kind, count = self.number("I"), self.number("Q")
        if kind == _TEXT:
            if count > (self.size - self.at) // 8:
                self.take(self.size)
            return [self.text() for _ in range(count)]
        code = _code(kind)
        length = count * struct.calcsize("<" + code)
        start = self.take(length)
        raw = self.data[start : start + length]
        if kind in _EIGHT_BITS:
            return raw
        if code == "?":
            return [int(byte != 0) for byte in raw]
        values = array.array(code, raw)
        if sys.byteorder == "big":
            values.byteswap()
        return values.tolist()


def _code(kind: int) -> str:
    if kind not in _SCALARS:
        raise _Bad(f"damaged: a value of type {kind}")
    return _SCALARS[kind]


def _read(path: Path, data: mmap.mmap, size: int) -> GGUFFile:
    cursor = _Cursor(data, size)
    if data[:4] != MAGIC:
        raise _Bad("not a GGUF file: it does not begin with GGUF")
    cursor.take(4)
    version = cursor.number("I")
    if version not in _VERSIONS:
        raise _Bad(f"GGUF of version {version} is not supported, expected {' or '.join(map(str, _VERSIONS))}")
    tensors, entries = cursor.number("Q"), cursor.number("Q")
    if tensors + entries > size // _SMALLEST:
        raise _Bad(f"damaged: {tensors:,} tensors and {entries:,} values in {size:,} bytes")
    metadata: dict[str, Value] = {}
    for _ in range(entries):
        key = cursor.text()
        if key in metadata:
            raise _Bad(f"damaged: {shorten(key, 80)} occurs twice")
        metadata[key] = cursor.value()
    if metadata.get("split.count", 1) not in (0, 1):
        raise _Bad("one of several files of a model, which is not supported; llama-gguf-split --merge joins them")
    places: dict[str, TensorPlace] = {}
    for _ in range(tensors):
        name = cursor.text()
        if name in places:
            raise _Bad(f"damaged: the tensor {shorten(name, 80)} occurs twice")
        places[name] = _place(cursor, name)
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if type(alignment) is not int or not 0 < alignment <= 1 << 16 or alignment & (alignment - 1):
        raise _Bad(f"damaged: an alignment of {alignment!r:.20}")
    begin = -(-cursor.at // alignment) * alignment
    for name, place in places.items():
        if begin + place.start + place.size > size:
            raise _Bad(
                f"damaged: the tensor {shorten(name, 80)} ends after the end of the file, which may be cut short"
            )
        places[name] = place._replace(start=begin + place.start)
    return GGUFFile(path, metadata, places)


def _place(cursor: _Cursor, name: str) -> TensorPlace:
    """The description of a tensor; its `start` is relative to the first byte of all tensors."""
    dimensions = cursor.number("I")
    if not 1 <= dimensions <= _MOST_DIMENSIONS:
        raise _Bad(f"damaged: the tensor {shorten(name, 80)} has {dimensions} dimensions")
    shape = tuple(cursor.number("Q") for _ in range(dimensions))
    kind, start = cursor.number("I"), cursor.number("Q")
    if not all(shape) or prod(shape) > _MOST_NUMBERS:
        raise _Bad(f"damaged: the tensor {shorten(name, 80)} has the sizes {' x '.join(map(str, shape))}")
    if kind not in TYPES:
        known = ", ".join(each.name for each in TYPES.values())
        raise _Bad(f"the tensor {shorten(name, 80)} has type {kind}, which is not supported, expected {known}")
    block = TYPES[kind]
    if shape[0] % block.numbers:
        raise _Bad(f"damaged: rows of {shape[0]} numbers in blocks of {block.numbers}: {shorten(name, 80)}")
    return TensorPlace(kind, shape[::-1], start, prod(shape) // block.numbers * block.bytes)
