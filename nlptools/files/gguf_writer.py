"""Writes GGUF files (version 3, little-endian), see `gguf_file`."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from nlptools.files.gguf_file import ALIGNMENT, MAGIC, TYPES, Metadata, Value

_UINT8, _UINT32, _INT32, _FLOAT32, _BOOL, _TEXT, _ARRAY = 0, 4, 5, 6, 7, 8, 9


def type_number(name: str) -> int:
    """The number of a type of tensors, such as Q8_0."""
    return next(number for number, block in TYPES.items() if block.name == name)


def begin(metadata: Metadata, tensors: Mapping[str, tuple[int, tuple[int, ...]]]) -> bytes:
    """The file up to its first tensor. The data of the tensors follow in this order, each as `padded` makes it.

    Args:
        tensors: by name: the number of the type, and the shape, rows first.
    """
    parts = [MAGIC, struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, value in metadata.items():
        parts += [_text(key), *_value(value)]
    start = 0
    for name, (kind, shape) in tensors.items():
        sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape[::-1])
        parts += [_text(name), sizes, struct.pack("<IQ", kind, start)]
        start += _aligned(prod(shape) // TYPES[kind].numbers * TYPES[kind].bytes)
    return padded(b"".join(parts))


def padded(data: bytes) -> bytes:
    """`data`, filled up to the next multiple of the alignment."""
    return data + bytes(_aligned(len(data)) - len(data))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "replace")
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> Iterator[bytes]:
    """The type of a value, and the value."""
    match value:
        case bool():
            yield struct.pack("<I?", _BOOL, value)
        case int():
            yield struct.pack("<II", _UINT32, value)
        case float():
            yield struct.pack("<If", _FLOAT32, value)
        case str():
            yield struct.pack("<I", _TEXT) + _text(value)
        case bytes():
            yield struct.pack("<IIQ", _ARRAY, _UINT8, len(value)) + value
        case _:
            yield from _list(value)


def _list(values: Sequence[str] | Sequence[int] | Sequence[float]) -> Iterator[bytes]:
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if not isinstance(value, str)]
    kind = _TEXT if texts else _INT32 if all(isinstance(value, int) for value in numbers) else _FLOAT32
    yield struct.pack("<IIQ", _ARRAY, kind, len(values))
    yield from map(_text, texts)
    yield struct.pack(f"<{len(numbers)}{'i' if kind == _INT32 else 'f'}", *numbers)
