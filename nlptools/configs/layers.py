"""The value of `--layers`: which layers of an encoder to use and how to combine them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import NamedTuple

from nlptools.errors import DataError, InputError, UsageError, display, reason

KINDS = ("sum", "mean", "concat")
_EXPECTED = "last, a number, sum:A:B, mean:A:B or concat:A:B (or `all` for A:B), mix or mix:FILE"


class Layers(NamedTuple):
    """A choice of layers. Layer 0 is the output of the embeddings; negative numbers count from the last, as in a slice."""

    kind: str  # one of KINDS, or mix
    begin: int | None = None
    end: int | None = None
    file: str | None = None  # mix: a JSON list with a weight per layer, layer 0 included; None: learned weights

    def count(self, layers: int) -> int:
        """How many of `layers` layers, including layer 0, are used."""
        return len(range(layers)[self.begin : self.end])


def layers(text: str) -> Layers:
    """Parse a choice of layers such as `last`, `-2`, `sum:-4:`, `concat:1:4`, `mean:all`. Raises UsageError."""
    if text == "last":
        return Layers("sum", -1)
    if re.fullmatch(r"-?\d{1,4}", text):
        number = int(text)
        return Layers("sum", number, number + 1 if number != -1 else None)
    kind, _, which = text.partition(":")
    if text == "mix":
        return Layers("mix")
    if kind == "mix" and which:
        return Layers("mix", file=which)
    if kind in KINDS and which == "all":
        return Layers(kind)
    match = re.fullmatch(r"(-?\d{1,4})?:(-?\d{1,4})?", which)
    if kind not in KINDS or not match:
        raise UsageError(f"not a choice of layers: {text!r}, expected {_EXPECTED}")
    begin, end = (None if number is None else int(number) for number in match.groups())
    return Layers(kind, begin, end)


def mix_weights(path: str, layers: int) -> list[float]:
    """Read the weights of a mix of `layers` layers, a JSON list. Raises InputError, DataError, UsageError."""
    try:
        weights = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{display(path)}: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}", path=path) from None
    if not isinstance(weights, list) or not all(type(x) in (int, float) and math.isfinite(x) for x in weights):
        raise DataError("expected a list of numbers, one for each layer", path=path)
    if len(weights) != layers:
        raise UsageError(f"--layers: {display(path)} holds {len(weights)} weights, the model has {layers} layers")
    return [float(x) for x in weights]
