"""Scalings of rotary positions, for longer texts than a model was first trained on.

A new scaling is a function and a row in `SCALINGS`, under its "rope_type" in a config.json. Shapes: K numbers of a head that
turn, as K/2 pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nlptools.errors import BundleError
from nlptools.json_types import Json

_MOST = 1e9  # of any number of a scaling
_TRAINED = "original_max_position_embeddings"


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
class RotarySettings:
    """The settings of a scaling.

    Attributes:
        numbers: those that are set, each above 0.
        lists: a number for each pair.
        truncates: whether the passage of "yarn" begins and ends at whole pairs.
    """

    numbers: Mapping[str, float]
    lists: Mapping[str, Sequence[float]]
    truncates: bool


@dataclass(frozen=True)
class RotaryScaling:
    """A scaling.

    Attributes:
        scaled: the rates, given those without scaling, the settings, the base, and the model's number of positions.
        needed, optional: names of numbers.
        lists: names of lists of a number for each pair.
    """

    scaled: Callable[[Tensor, RotarySettings, float, int], RotaryRates]
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()


def rotary_rates(size: int, theta: float, scaling: Mapping[str, Json] | None = None, length: int = 0) -> RotaryRates:
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
    row = SCALINGS.get(name) if isinstance(name, str) else None
    if row is None:
        raise BundleError(f"scaling of rotary positions {name!r:.80} is not supported, expected {', '.join(SCALINGS)}")
    keys = (*row.needed, *(key for key in row.optional if scaling.get(key) is not None))
    numbers, lists = {key: _checked(key, scaling.get(key)) for key in keys}, {}
    for key in row.lists:
        values = scaling.get(key)
        if not isinstance(values, list | tuple) or len(values) != size // 2:
            raise BundleError(f"scaling of rotary positions: {key} is not a list of {size // 2} numbers")
        lists[key] = [_checked(key, number) for number in values]
    settings = RotarySettings(numbers, lists, bool(scaling.get("truncate", True)))
    exponents: Tensor = torch.arange(0, size, 2, dtype=torch.int64, device="cpu").float() / size
    return row.scaled(1.0 / theta**exponents, settings, theta, length)


def _checked(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= _MOST:
        raise BundleError(
            f"scaling of rotary positions: {name} is {value!r:.80}, expected a number above 0, up to {_MOST:g}"
        )
    return value


def _plain(rates: Tensor, settings: RotarySettings, theta: float, length: int) -> RotaryRates:
    """Without a scaling, or with "dynamic" (NTK-aware): that changes texts with more tokens than the model has positions, which
    are refused.
    """
    return RotaryRates(rates)


def _linear(rates: Tensor, settings: RotarySettings, theta: float, length: int) -> RotaryRates:
    """Chen et al. 2023, arXiv:2306.15595: all angles divided by "factor"."""
    return RotaryRates(rates / settings.numbers["factor"])


def _llama3(rates: Tensor, settings: RotarySettings, theta: float, length: int) -> RotaryRates:
    """Grattafiori et al. 2024, arXiv:2407.21783: slow angles divided by "factor", with a smooth passage."""
    numbers = settings.numbers
    low, high = numbers["low_freq_factor"], numbers["high_freq_factor"]
    turns = numbers.get(_TRAINED, length) * rates / (2 * math.pi)  # in the trained length
    smooth = ((turns - low) / (high - low)).clamp(0, 1) if high > low else (turns > low).float()
    return RotaryRates((1 - smooth) * rates / numbers["factor"] + smooth * rates)


def _yarn(rates: Tensor, settings: RotarySettings, theta: float, length: int) -> RotaryRates:
    """Peng et al. 2023, arXiv:2309.00071: as "llama3", and queries and keys grow."""
    numbers, size = settings.numbers, 2 * len(rates)
    trained = numbers.get(_TRAINED, length)
    factor = numbers.get("factor") or length / trained

    def pair(turns: float) -> float:
        """The pair that turns this many times within the trained length."""
        return size * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair(numbers.get("beta_fast", 32)), pair(numbers.get("beta_slow", 1))
    if settings.truncates:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, size - 1)
    high = high + 0.001 if low == high else high
    slow = ((torch.arange(size // 2, dtype=torch.float32, device="cpu") - low) / (high - low)).clamp(0, 1)
    grown = numbers.get("attention_factor")
    if grown is None:
        one, other = numbers.get("mscale"), numbers.get("mscale_all_dim")
        grown = _growth(factor, one) / _growth(factor, other) if one and other else _growth(factor)
    return RotaryRates(rates / factor * slow + rates * (1 - slow), float(grown))


def _growth(factor: float, scale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0


def _longrope(rates: Tensor, settings: RotarySettings, theta: float, length: int) -> RotaryRates:
    """Ding et al. 2024, arXiv:2402.13753: each angle divided by its own number, by others in longer texts than the trained
    ones; and queries and keys grow.
    """
    trained = int(settings.numbers.get(_TRAINED, length))
    factor, grown = settings.numbers.get("factor") or length / trained, settings.numbers.get("attention_factor")
    if grown is None:
        grown = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(trained))
    near, far = (
        rates / torch.tensor(settings.lists[name], dtype=torch.float32, device="cpu")
        for name in ("short_factor", "long_factor")
    )
    return RotaryRates(near, float(grown), far, trained)


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
