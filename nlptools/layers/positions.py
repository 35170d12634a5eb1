"""Schemes of positions: the vectors that a model adds to its embeddings, and how attention changes queries and keys.

A new scheme is a class and a row in `POSITIONS`. Shapes: B batch, T length, D hidden size, H heads, K head size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from nlptools.json_types import Json
from nlptools.layers.rotary_scaling import rotary_rates

Turn = Callable[[Tensor], Tensor]  # queries and keys (B, T, N, H, K) -> the same, turned by their positions


class Positions:
    """No positions: causal attention alone tells them apart (Haviv et al. 2022, arXiv:2203.16634)."""

    def __init__(self, length: int, hidden_size: int, head_size: int = 0) -> None:
        """`length`: number of positions."""

    def add_to(self, x: Tensor, positions: Tensor) -> Tensor:
        """Embeddings (..., T, D) with what stands for `positions` (..., T), int64, added."""
        return x

    def turn(self, positions: Tensor, lengths: Tensor | int = 0) -> Turn | None:
        """How attention changes queries and keys at `positions` (..., T), in texts that have, or may grow to, these `lengths`,
        one number or (..., T) or (..., 1); None: not at all.
        """
        return None

    def first(self, length: int) -> Tensor | None:
        """(T, D), the vectors that `add_to` adds at the first `length` positions, or at all; None: it adds none."""
        return None

    def rows(self, begin: int, end: int, like: Tensor) -> Tensor | None:
        """(end - begin, D): the vectors of the positions from `begin` to `end`, in the type and on the device of `like`; None:
        nothing is added to embeddings.
        """
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

    def rows(self, begin: int, end: int, like: Tensor) -> Tensor | None:
        """See `Positions`."""
        return self.weight[begin:end]


class Sinusoids(Positions):
    """Sines and cosines (Vaswani et al. 2017, arXiv:1706.03762, section 3.5), in a table that grows on demand.

    It has no weights, so nothing is saved. Departure: the sines fill the first half and the cosines the second, as in Marian,
    instead of alternating. This only changes the order of the dimensions.
    """

    def __init__(self, length: int, hidden_size: int, head_size: int = 0) -> None:
        """`length`: for `add_to`; `rows` has no limit."""
        self.length, self.size = length, hidden_size
        self._table = torch.empty(0, hidden_size)

    def table(self, length: int) -> Tensor:
        """(length, D) float32: the first positions."""
        return sinusoids(length, self.size)

    def rows(self, begin: int, end: int, like: Tensor) -> Tensor:
        """See `Positions`."""
        if end > len(self._table) or self._table.dtype != like.dtype or self._table.device != like.device:
            length = max(256, 1 << (end - 1).bit_length())
            self._table = self.table(length).to(like)
        return self._table[begin:end]

    def add_to(self, x: Tensor, positions: Tensor) -> Tensor:
        """See `Positions`."""
        return x + self.rows(0, self.length, x)[positions]

    def first(self, length: int) -> Tensor | None:
        """See `Positions`; `length` has no limit here either."""
        return self.table(length)


class FairseqSinusoids(Sinusoids):
    """Sines and cosines as in tensor2tensor and fairseq: the slowest turns 10000 times as slowly as the fastest, where in the
    paper the one after it would.
    """

    def table(self, length: int) -> Tensor:
        """See `Sinusoids`; computed in float32, as models were trained with it."""
        half = self.size // 2
        rates = torch.exp(torch.arange(half).float() * -(math.log(10000.0) / max(1, half - 1)))
        angles = torch.arange(length).float()[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], 1)


class Rotary(Positions):
    """Queries and keys turned by angles that grow with the position (Su et al. 2021, arXiv:2104.09864).

    As in LLaMA, numbers k and k + K/2 of a head are a pair, instead of 2k and 2k + 1. It has no weights. With `share`, only the
    first numbers of a head turn (Black et al. 2022, GPT-NeoX, arXiv:2204.06745).
    """

    def __init__(
        self,
        length: int,
        hidden_size: int,
        head_size: int = 0,
        theta: float = 10000.0,
        scaling: Mapping[str, Json] | None = None,
        share: float = 1.0,
    ) -> None:
        """`theta`, `scaling`: see `rotary_rates`. `share`: of each head that turns. Raises BundleError for an unknown scaling."""
        self.size = int(head_size * share)
        self.partial = self.size < head_size
        self.rates = rotary_rates(self.size, theta, scaling, length)

    def turn(self, positions: Tensor, lengths: Tensor | int = 0) -> Turn | None:
        """See `Positions`."""
        rates = self.rates.near.to(positions.device)
        if self.rates.far is not None:
            longer = torch.as_tensor(lengths, device=positions.device) > self.rates.trained
            rates = torch.where(longer[..., None], self.rates.far.to(positions.device), rates)
        angles = positions[..., None].float() * rates
        cos, sin = (each[..., None, None, :] * self.rates.factor for each in (angles.cos(), angles.sin()))
        by_type: dict[torch.dtype, tuple[Tensor, Tensor]] = {}

        def turned(query_key: Tensor) -> Tensor:
            if query_key.dtype not in by_type:  # once for all layers
                by_type[query_key.dtype] = cos.to(query_key.dtype), sin.to(query_key.dtype)
            cos_K, sin_K = by_type[query_key.dtype]
            turning = query_key[..., : self.size] if self.partial else query_key
            a, b = turning.chunk(2, -1)  # numbers k and k + K/2 are a pair
            parts = [a * cos_K - b * sin_K, b * cos_K + a * sin_K]
            return torch.cat([*parts, query_key[..., self.size :]] if self.partial else parts, -1)

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
