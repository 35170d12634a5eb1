"""Attention weights between the words of a text, and their form as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from nlptools.arrays import Floats, Ints

DIGITS = 5  # after the point, in JSON


@dataclass(frozen=True)
class AttentionMap:
    """The attention of a line.

    Attributes:
        text: the line.
        queries: the words that attend, Q.
        keys: the words that are attended to, K.
        layers, heads: the numbers of the chosen ones, from 1.
        weights: (layers, heads, Q, K) float32; each row sums to 1. With `mean`, (1, 1, Q, K).
        mean: whether the weights are averaged over `layers` and `heads`.
        part: of an encoder-decoder, see `configs.attend.PARTS`.
    """

    text: str
    queries: list[str]
    keys: list[str]
    layers: list[int]
    heads: list[int]
    weights: Floats = field(repr=False)
    mean: bool = False
    part: str | None = None

    def averaged(self) -> AttentionMap:
        """The mean over layers and heads."""
        mean = self.weights.mean((0, 1), keepdims=True)
        return AttentionMap(self.text, self.queries, self.keys, self.layers, self.heads, mean, True, self.part)

    def as_json(self) -> str:
        """One object. The weights are [layer][head][query][key]; with `mean`, [query][key]."""
        facts: dict[str, object] = {"text": self.text}
        facts |= {} if self.part is None else {"part": self.part}
        facts |= {"queries": self.queries, "keys": self.keys, "layers": self.layers, "heads": self.heads}
        written = json.dumps(facts, ensure_ascii=False)
        places = np.rint(self.weights * 10**DIGITS).astype(np.int32).clip(0, 10**DIGITS)
        return f'{written[:-1]}, "attention": {_nested(places[0, 0] if self.mean else places)}}}'


def _nested(places: Ints) -> str:
    """Lists of lists of numbers, which are `places` divided by 10 ** DIGITS."""
    if places.ndim > 1:
        return f"[{', '.join(map(_nested, places))}]"
    return f"[{', '.join(map(_shares().__getitem__, places.tolist()))}]"


@cache
def _shares() -> list[str]:
    """The numbers from 0 to 1 as text: a look-up is ten times as fast as formatting each."""
    return [f"{number / 10**DIGITS:.{DIGITS}g}" for number in range(10**DIGITS + 1)]
