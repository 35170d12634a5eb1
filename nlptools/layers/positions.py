"""Schemes of positions: the vectors that a model adds to its embeddings, and how attention changes queries and keys.

A new scheme is a class and a row in `POSITIONS`. Shapes: B batch, T length, D hidden size, H heads, K head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nlptools.errors import BundleError

Turn = Callable[[Tensor], Tensor]  # queries and keys (B, T, N, H, K) -> the same, turned by their positions


class Positions:
    """No positions: causal attention alone tells them apart (Haviv et al. 2022, arXiv:2203.16634)."""

    def __init__(self, length: int, hidden_size: int, head_size: int = 0) -> None:
        """`length`: number of positions."""

    def add_to(self, x: Tensor, positions: Tensor) -> Tensor:
        """Embeddings (..., T, D) with what stands for `positions` (..., T), int64, added."""
        return x

    def turn(self, positions: Tensor) -> Turn | None:
        """How attention changes queries and keys at `positions` (..., T); None: not at all."""
        return None

    def first(self, length: int) -> Tensor | None:
        """(T, D), the vectors that `add_to` adds at the first `length` positions, or at all; None: it adds none."""
        return None


class LearnedPositions(nn.Embedding, Positions):
    """A learned vector for each position (Gehring et al. 2017, arXiv:1705.03122)."""

    def __init__(self, length: int, hidden_size: int, head_size: int = 0) -> None:
        """See `Positions`."""
        super().__init__(length, hidden_size)

    def add_to(self, x: Tensor, positions: Tensor) -> Tensor:
        """See `Positions`."""
        added: Tensor = x + self(positions)
        return added

    def first(self, length: int) -> Tensor | None:
        """See `Positions`."""
        return self.weight[:length]


class Sinusoids(Positions):
    """Sines and cosines (Vaswani et al. 2017, arXiv:1706.03762, section 3.5), in a table that grows on demand.

    It has no weights, so nothing is saved. Departure: the sines fill the first half and the cosines the second, as in Marian,
    instead of alternating. This only changes the order of the dimensions.
    """

    def __init__(self, length: int, hidden_size: int, head_size: int = 0) -> None:
        """`length`: for `add_to`; `rows` has no limit."""
        self.length, self.size = length, hidden_size
        self._table = torch.empty(0, hidden_size)

    def rows(self, begin: int, end: int, like: Tensor) -> Tensor:
        """(end - begin, D): the positions from `begin` to `end`, in the type and on the device of `like`."""
        if end > len(self._table) or self._table.dtype != like.dtype or self._table.device != like.device:
            length = max(256, 1 << (end - 1).bit_length())
            self._table = sinusoids(length, self.size).to(like)
        return self._table[begin:end]

    def add_to(self, x: Tensor, positions: Tensor) -> Tensor:
        """See `Positions`."""
        return x + self.rows(0, self.length, x)[positions]

    def first(self, length: int) -> Tensor | None:
        """See `Positions`; `length` has no limit here either."""
        return sinusoids(length, self.size)


class Rotary(Positions):
    """Queries and keys turned by angles that grow with the position (Su et al. 2021, arXiv:2104.09864).

    As in LLaMA, numbers k and k + K/2 of a head are a pair, instead of 2k and 2k + 1. It has no weights.
    """

    def __init__(
        self,
        length: int,
        hidden_size: int,
        head_size: int = 0,
        theta: float = 10000.0,
        scaling: Mapping[str, Any] | None = None,
    ) -> None:
        """`theta`, `scaling`: see `rotary_rates`. Raises BundleError for an unknown scaling."""
        self.rates, self.factor = rotary_rates(head_size, theta, scaling, length)

    def turn(self, positions: Tensor) -> Turn | None:
        """See `Positions`."""
        angles = positions[..., None].float() * self.rates.to(positions.device)
        cos, sin = (each[..., None, None, :] * self.factor for each in (angles.cos(), angles.sin()))
        by_type: dict[torch.dtype, tuple[Tensor, Tensor]] = {}

        def turned(query_key: Tensor) -> Tensor:
            if query_key.dtype not in by_type:  # once for all layers
                by_type[query_key.dtype] = cos.to(query_key.dtype), sin.to(query_key.dtype)
            cos_K, sin_K = by_type[query_key.dtype]
            a, b = query_key.chunk(2, -1)  # numbers k and k + K/2 are a pair
            return torch.cat([a * cos_K - b * sin_K, b * cos_K + a * sin_K], -1)

        return turned


POSITIONS: dict[str, type[Positions]] = {
    "learned": LearnedPositions,
    "sinusoidal": Sinusoids,
    "none": Positions,
    "rotary": Rotary,
}


def sinusoids(length: int, size: int) -> Tensor:
    """(length, D) float32; row p holds sin(p / 10000^(2i/D)) for each i, then the cosines of the same angles."""
    rates = 10000.0 ** (-2 * torch.arange(size // 2, dtype=torch.float64) / size)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1).float()


# -- rotary positions of longer texts than a model was trained on ---------------------------------------------------------

_NEEDED = {  # the numbers that each scaling takes, see `rotary_rates`
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor",),
}
_OPTIONAL = {
    "yarn": (
        *("original_max_position_embeddings", "beta_fast", "beta_slow"),
        *("attention_factor", "mscale", "mscale_all_dim"),
    )
}
_MOST = 1e9  # of any of these numbers


def rotary_rates(
    head_size: int, theta: float, scaling: Mapping[str, Any] | None = None, length: int = 0
) -> tuple[Tensor, float]:
    """(K/2,) float32, the angles between neighbouring positions; and a factor of queries and keys.

    Args:
        theta: pair k turns by theta^(-2k/K).
        scaling: the "rope_scaling" of a config.json; None: none. "linear" divides all angles by "factor" (Chen et al. 2023,
            arXiv:2306.15595); "llama3" the slow ones, with a smooth passage (Grattafiori et al. 2024, arXiv:2407.21783);
            "yarn" likewise, and queries and keys grow (Peng et al. 2023, arXiv:2309.00071).
        length: the model's number of positions, for "yarn" without "original_max_position_embeddings".

    Raises:
        BundleError: an unknown scaling, or one without its numbers, or with absurd ones.
    """
    scaling = dict(scaling or {})
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind not in _NEEDED:
        raise BundleError(f"scaling of rotary positions {kind!r:.80} is not supported, expected {', '.join(_NEEDED)}")
    for name in (*_NEEDED[kind], *(name for name in _OPTIONAL.get(kind, ()) if scaling.get(name) is not None)):
        if type(scaling.get(name)) not in (int, float) or not 0 < scaling[name] <= _MOST:
            raise BundleError(
                f"scaling of rotary positions: {name} is {scaling.get(name)!r:.80}, expected a number above 0, up to {_MOST:g}"
            )
    exponents: Tensor = torch.arange(0, head_size, 2, dtype=torch.int64, device="cpu").float() / head_size
    rates: Tensor = 1.0 / theta**exponents
    if kind == "linear":
        return rates / scaling["factor"], 1.0
    if kind == "llama3":
        return _llama3(rates, scaling), 1.0
    if kind == "yarn":
        return _yarn(rates, head_size, theta, scaling, length)
    return rates, 1.0


def _llama3(rates: Tensor, scaling: Mapping[str, Any]) -> Tensor:
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * rates / (2 * math.pi)  # within the trained length
    smooth = ((turns - low) / (high - low)).clamp(0, 1) if high > low else (turns > low).float()
    mixed: Tensor = (1 - smooth) * rates / scaling["factor"] + smooth * rates
    return mixed


def _yarn(rates: Tensor, head_size: int, theta: float, scaling: Mapping[str, Any], length: int) -> tuple[Tensor, float]:
    factor, trained = scaling["factor"], scaling.get("original_max_position_embeddings") or length

    def pair(turns: float) -> float:
        """The pair that turns this many times within the trained length."""
        return head_size * math.log(trained / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair(scaling.get("beta_fast") or 32), pair(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_size - 1)
    high = high + 0.001 if low == high else high
    slow = ((torch.arange(head_size // 2, dtype=torch.float32, device="cpu") - low) / (high - low)).clamp(0, 1)
    grown = scaling.get("attention_factor")
    if grown is None:
        one, other = scaling.get("mscale"), scaling.get("mscale_all_dim")
        grown = _growth(factor, one) / _growth(factor, other) if one and other else _growth(factor)
    return rates / factor * slow + rates * (1 - slow), float(grown)


def _growth(factor: float, scale: float = 1.0) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0
