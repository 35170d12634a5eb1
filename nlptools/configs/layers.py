"""The value of `--layers`: which layers of an encoder to use and how to combine them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import NamedTuple

from nlptools.errors import DataError, InputError, UsageError, display, reason

KINDS = ("sum", "mean", "concat")
# the mixes of a model that is fine-tuned, by the names of their weights, and the files of its directory with each
MIX_FILES = {"layer_mix": "layer_mix.json", "output_mix": "output_mix.json"}
_EXPECTED = "last, a number, all, sum:A:B, mean:A:B or concat:A:B (or `all` for A:B), mix or mix:FILE"


class Layers(NamedTuple):
    """A choice of layers. Layer 0 is the output of the embeddings; negative numbers count from the last, as in a slice."""

    kind: str  # one of KINDS; mix; all, each layer by itself
    begin: int | None = None
    end: int | None = None
    file: str | None = None  # mix: see `read_mix`; None: learned weights

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
    if text in ("mix", "all"):
        return Layers(text)
    if kind == "mix" and which:
        return Layers("mix", file=which)
    if kind in KINDS and which == "all":
        return Layers(kind)
    match = re.fullmatch(r"(-?\d{1,4})?:(-?\d{1,4})?", which)
    if kind not in KINDS or not match:
        raise UsageError(f"not a choice of layers: {text!r}, expected {_EXPECTED}")
    begin, end = (None if number is None else int(number) for number in match.groups())
    return Layers(kind, begin, end)


class Mix(NamedTuple):
    """A weighted sum of layers, layer 0 first, in either published form."""

    numbers: tuple[float, ...]  # the weights; or s_j and gamma: the weights are gamma times softmax(s)
    gamma: float | None = None  # Peters et al. 2018 (arXiv:1802.05365, equation 1); None: `numbers` are the weights

    @property
    def weights(self) -> list[float]:
        """The weight of each layer."""
        if self.gamma is None:
            return list(self.numbers)
        powers = [math.exp(s - max(self.numbers)) for s in self.numbers]
        return [self.gamma * power / sum(powers) for power in powers]

    def described(self) -> str:
        """For a message: `s 0.12 -0.05 0.31, gamma 1.08`."""
        numbers = " ".join(f"{number:.4g}" for number in self.numbers)
        return f"weights {numbers}" if self.gamma is None else f"s {numbers}, gamma {self.gamma:.4g}"

    def as_json(self) -> list[float] | dict[str, object]:
        """The content of a file for `read_mix`."""
        numbers = [round(number, 6) for number in self.numbers]
        return numbers if self.gamma is None else {"s": numbers, "gamma": round(self.gamma, 6)}


def read_mix(path: str, layers: int | None = None) -> Mix:
    """Read a mix of `layers` layers, or of any number: a JSON list of weights, or an object with the list `s` and the number
    `gamma`.

    Raises InputError, DataError, UsageError.
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InputError(f"{display(path)}: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}", path=path) from None
    numbers, gamma = content, None
    if isinstance(content, dict):
        numbers, gamma = content.get("s"), content.get("gamma")
        if not _is_number(gamma):
            raise DataError("expected the list s and the number gamma", path=path)
    if not isinstance(numbers, list) or not numbers or not all(map(_is_number, numbers)):
        raise DataError("expected a list of numbers, one for each layer", path=path)
    if layers is not None and len(numbers) != layers:
        raise UsageError(f"--layers: {display(path)} holds {len(numbers)} weights, the model has {layers} layers")
    return Mix(tuple(map(float, numbers)), None if gamma is None else float(gamma))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
