"""Scalings of rotary positions, for longer texts than a model was first trained on.

A new scaling is a function and a row in `SCALINGS`, under its "rope_type" in a config.json. Shapes: K numbers of a head that
turn, as K/2 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nlptools.errors import BundleError

_MOST = 1e9  # of any number of a scaling


@dataclass(frozen=True)
class RotaryRates:
    """How fast pairs of numbers turn.

    Attributes:
        near: (K/2,) float32, the angles between neighbouring positions.
        factor: of queries and keys.
        far: as `near`, of texts with more than `trained` tokens; None: the same.
        trained: 0 without `far`.
    """

    near: Tensor
    factor: float = 1.0
    far: Tensor | None = None
    trained: int = 0


@dataclass(frozen=True)
class RotaryScaling:
    """A scaling.

    Attributes:
        scaled: the rates, given those without scaling, the settings, the base, and the model's number of positions.
        needed, optional: names of numbers.
        lists: names of lists of a number for each pair.
    """

    scaled: Callable[[Tensor, Mapping[str, Any], float, int], RotaryRates]
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()


def rotary_rates(size: int, theta: float, scaling: Mapping[str, Any] | None = None, length: int = 0) -> RotaryRates:
    """The rates of a model.

    Args:
        size: K.
        theta: pair k turns by theta^(-2k/K).
        scaling: the "rope_scaling" of a config.json; None: none.
        length: the model's number of positions.

    Raises:
        BundleError: an unknown scaling, or one without its numbers, or with absurd ones.
    """
    scaling = dict(scaling or {})
    name = scaling.get("rope_type", scaling.get("type", "default"))
    if name not in SCALINGS:
        raise BundleError(f"scaling of rotary positions {name!r:.80} is not supported, expected {', '.join(SCALINGS)}")
    row = SCALINGS[name]
    for key in (*row.needed, *(key for key in row.optional if scaling.get(key) is not None)):
        _check(key, scaling.get(key))
    for key in row.lists:
        numbers = scaling.get(key)
        if not isinstance(numbers, list | tuple) or len(numbers) != size // 2:
            raise BundleError(f"scaling of rotary positions: {key} is not a list of {size // 2} numbers")
        for number in numbers:
            _check(key, number)
    exponents: Tensor = torch.arange(0, size, 2, dtype=torch.int64, device="cpu").float() / size
    return row.scaled(1.0 / theta**exponents, scaling, theta, length)


def _check(name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _MOST:
        raise BundleError(
            f"scaling of rotary positions: {name} is {value!r:.80}, expected a number above 0, up to {_MOST:g}"
        )


def _plain(rates: Tensor, scaling: Mapping[str, Any], theta: float, length: int) -> RotaryRates:
    """Without a scaling, or with "dynamic" (NTK-aware): that changes texts with more tokens than the model has positions, which
    are refused.
    """
    return RotaryRates(rates)


def _linear(rates: Tensor, scaling: Mapping[str, Any], theta: float, length: int) -> RotaryRates:
    """Chen et al. 2023, arXiv:2306.15595: all angles divided by "factor"."""
    return RotaryRates(rates / scaling["factor"])


def _llama3(rates: Tensor, scaling: Mapping[str, Any], theta: float, length: int) -> RotaryRates:
    """Grattafiori et al. 2024, arXiv:2407.21783: slow angles divided by "factor", with a smooth passage."""
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = (scaling.get("original_max_position_embeddings") or length) * rates / (2 * math.pi)  # in the trained length
    smooth = ((turns - low) / (high - low)).clamp(0, 1) if high > low else (turns > low).float()
    return RotaryRates((1 - smooth) * rates / scaling["factor"] + smooth * rates)


def _yarn(rates: Tensor, scaling: Mapping[str, Any], theta: float, length: int) -> RotaryRates:
    """Peng et al. 2023, arXiv:2309.00071: as "llama3", and queries and keys grow."""
    size, trained = 2 * len(rates), scaling.get("original_max_position_embeddings") or length
    factor = scaling.get("factor") or length / trained

    def pair(turns: float) -> float:
        """The pair that turns this many times within the trained length."""
        return size * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair(scaling.get("beta_fast") or 32), pair(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    high = high + 0.001 if low == high else high
    slow = ((torch.arange(size // 2, dtype=torch.float32, device="cpu") - low) / (high - low)).clamp(0, 1)
    grown = scaling.get("attention_factor")
    if grown is None:
        one, other = scaling.get("mscale"), scaling.get("mscale_all_dim")
        grown = _growth(factor, one) / _growth(factor, other) if one and other else _growth(factor)
    return RotaryRates(rates / factor * slow + rates * (1 - slow), float(grown))


def _growth(factor: float, scale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _longrope(rates: Tensor, scaling: Mapping[str, Any], theta: float, length: int) -> RotaryRates:
    """Ding et al. 2024, arXiv:2402.13753: each angle divided by its own number, by others in longer texts than the trained
    ones; and queries and keys grow.
    """
    trained = int(scaling.get("original_max_position_embeddings") or length)
    factor, grown = scaling.get("factor") or length / trained, scaling.get("attention_factor")
    if grown is None:
        grown = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
    near, far = (
        rates / torch.tensor(scaling[name], dtype=torch.float32, device="cpu")
        for name in ("short_factor", "long_factor")
    )
    return RotaryRates(near, float(grown), far, trained)


_TRAINED = "original_max_position_embeddings"
SCALINGS = {
    "default": RotaryScaling(_plain),
    "linear": RotaryScaling(_linear, ("factor",)),
    "dynamic": RotaryScaling(_plain, ("factor",)),
    "yarn": RotaryScaling(
        _yarn,
        optional=("factor", _TRAINED, "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim"),
    ),
    "llama3": RotaryScaling(_llama3, ("factor", "low_freq_factor", "high_freq_factor"), (_TRAINED,)),
    "longrope": RotaryScaling(
        _longrope, optional=("factor", _TRAINED, "attention_factor"), lists=("short_factor", "long_factor")
    ),
}
