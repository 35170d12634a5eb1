"""JSON as files may hold it here: an object has each key once, and numbers are finite."""

from __future__ import annotations

import json
import math

from nlptools.json_types import Json, JsonObject


class KeyTwice(ValueError):
    """An object has the key `key` twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"two values have the key {key[:80]!r}")
        self.key = key


def once(pairs: list[tuple[str, Json]]) -> JsonObject:
    """An object of JSON, for `object_pairs_hook`. Raises KeyTwice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        seen = set[str]()
        for key, _ in pairs:
            if key in seen:
                raise KeyTwice(key)
            seen.add(key)
    return value


def parsed(text: str | bytes) -> Json:
    """The value of a JSON text. Raises ValueError, RecursionError."""
    value: Json = json.loads(text, object_pairs_hook=once, parse_constant=_refuse, parse_float=_finite)
    return value


def _refuse(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:20]} is too large")
    return value
