"""Values of JSON objects, checked to have the type that they should have: files may be foreign or damaged.

`where` names the file in messages. A missing key and null are errors, unless said otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TypeVar

from nlptools.errors import BundleError
from nlptools.json_types import Json, JsonObject

C = TypeVar("C")
T = TypeVar("T")


def whole(data: Mapping[str, Json], key: str, where: str) -> int:
    """The whole number under `key`. Raises BundleError."""
    value = data.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _error(where, key, value, "a whole number")
    return value


def number(data: Mapping[str, Json], key: str, where: str) -> float:
    """The number under `key`. Raises BundleError."""
    value = data.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not _is_finite(value):
        raise _error(where, key, value, "a number")
    return value


def text(data: Mapping[str, Json], key: str, where: str) -> str:
    """The text under `key`. Raises BundleError."""
    value = data.get(key)
    if not isinstance(value, str):
        raise _error(where, key, value, "a text")
    return value


def texts(data: Mapping[str, Json], key: str, where: str) -> list[str]:
    """The list of texts under `key`; a missing one or null is empty. Raises BundleError."""
    return [] if data.get(key) is None else _items(data, key, where, str, "texts")


def wholes(data: Mapping[str, Json], key: str, where: str) -> list[int]:
    """The list of whole numbers under `key`. Raises BundleError."""
    return _items(data, key, where, int, "whole numbers")


def numbers(data: Mapping[str, Json], key: str, where: str) -> list[float]:
    """The list of numbers under `key`. Raises BundleError."""
    values = _items(data, key, where, (int, float), "numbers")
    if not all(map(_is_finite, values)):
        raise _error(where, key, data.get(key), "a list of numbers")
    return [float(value) for value in values]


def _is_finite(value: float) -> bool:
    """Whether it is a number of 64 bits; whole numbers in JSON may be larger."""
    return -sys.float_info.max <= value <= sys.float_info.max


def children(data: Mapping[str, Json], key: str, where: str) -> list[JsonObject]:
    """The objects in the list under `key`. Raises BundleError."""
    return _items(data, key, where, dict, "objects")


def _items(data: Mapping[str, Json], key: str, where: str, types: type[T] | tuple[type[T], ...], what: str) -> list[T]:
    values = data.get(key)
    found = [value for value in values if isinstance(value, types)] if isinstance(values, list) else []
    if not isinstance(values, list) or len(found) < len(values):
        raise _error(where, key, values, f"a list of {what}")
    return found


def child(data: Mapping[str, Json], key: str, where: str) -> JsonObject:
    """The object under `key`; a missing one or null is empty. Raises BundleError."""
    value = data.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _error(where, key, value, "an object")
    return value


def built(kind: Callable[..., C], values: Mapping[str, object], where: str) -> C:
    """The instance of a dataclass with these fields. Raises BundleError for missing and unknown ones."""
    try:
        return kind(**values)
    except TypeError as error:
        raise BundleError(f"{where}: {error}") from None


def _error(where: str, key: str, value: Json, expected: str) -> BundleError:
    return BundleError(f"{where}: {key} is {value!r:.80}, expected {expected}")
