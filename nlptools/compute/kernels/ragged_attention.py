"""Attention in a batch of rows of different lengths, padded on the left, in which each row is computed as if it were alone.

With a mask, the sums over the positions of a row have more terms: zeros, which change their order and with it the last digits.
Here neighbouring rows of one length are attended to together, without their padding. 64 rows of 64 different lengths take about
a third longer so than with a mask, and rows of one length no longer.
Shapes: B rows, H heads, T new positions, S positions that are known with them, K head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
from torch import Tensor

from nlptools.compute.kernels.attention import attention


@dataclass(frozen=True)
class EqualRows:
    """Neighbouring rows of one length.

    Attributes:
        rows: their places in the batch.
        new: the last of the T positions, which are their own.
        own: the last of the S positions, which are their own.
        mask: (1, 1, new, own) True = attend; None: plain causal attention.
    """

    rows: slice
    new: int
    own: int
    mask: Tensor | None


class Ragged:
    """Attention of the new positions of each row to the positions of the row up to themselves.

    Attributes:
        own: (B,) positions of each row, including the new ones.
        T: new positions.
        window: each position sees the last `window` positions of its row at most, itself included; 0: all.
    """

    def __init__(self, own: Tensor, T: int, window: int = 0) -> None:
        self.own, self.T, self.window = own, T, window

    @property
    def singly(self) -> bool:
        """Whether each position is computed as if it came alone."""
        return self.T == 1

    @cached_property
    def runs(self) -> Sequence[EqualRows]:
        """The rows in groups."""
        runs, begin = [], 0
        for length, group in groupby(self.own.tolist()):
            count, new = len(list(group)), min(self.T, length)
            mask = None if new in (1, length) else _causal(new, length)
            if 0 < self.window < length:
                mask = _causal(new, length, self.window)
            runs.append(EqualRows(slice(begin, begin + count), new, length, mask))
            begin += count
        return runs

    def within(self, window: int) -> Ragged:
        """The same with this window."""
        return type(self)(self.own, self.T, window)

    def attend(self, query_BHTK: Tensor, key_BGSK: Tensor, value_BGSK: Tensor, cap: float = 0.0) -> Tensor:
        """-> (B, H, T, K), as `attention`; zeros at the positions of padding. For inference."""
        T, S = query_BHTK.shape[2], key_BGSK.shape[2]
        parts = []
        for run in self.runs:
            query = query_BHTK[run.rows, :, T - run.new :]
            key, value = (each[run.rows, :, S - run.own :] for each in (key_BGSK, value_BGSK))
            parts.append(attention(query, key, value, run.mask, causal=run.mask is None and run.new > 1, cap=cap))
        if all(run.new == T for run in self.runs):
            return parts[0] if len(parts) == 1 else torch.cat(parts)
        out = query_BHTK.new_zeros(query_BHTK.shape)
        for run, part in zip(self.runs, parts, strict=True):
            out[run.rows, :, T - run.new :] = part
        return out


class Stepwise(Ragged):
    """Attention of a few new positions of rows without padding, each computed as if it came alone.

    Products with several queries add up their terms in another order, and the last digits differ from those of single steps.
    """

    @property
    def singly(self) -> bool:
        """See `Ragged`."""
        return True

    def attend(self, query_BHTK: Tensor, key_BGSK: Tensor, value_BGSK: Tensor, cap: float = 0.0) -> Tensor:
        """See `Ragged`."""
        parts = []
        for t in range(self.T):
            own = key_BGSK.shape[2] - self.T + t + 1
            mask = _causal(1, own, self.window) if 0 < self.window < own else None
            key, value = (each[:, :, :own] for each in (key_BGSK, value_BGSK))
            parts.append(attention(query_BHTK[:, :, t : t + 1], key, value, mask, cap=cap))
        return torch.cat(parts, 2)


def _causal(new: int, own: int, window: int | None = None) -> Tensor:
    """(1, 1, new, own): each of the last `new` positions sees itself and those before it, `window` of them at most."""
    mask = torch.ones(new, own, dtype=torch.bool).tril_(own - new)
    return (mask if window is None else mask.triu_(own - new - window + 1))[None, None]
