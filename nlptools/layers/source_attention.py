"""Attention of a recurrent decoder to its source.

Additive: Bahdanau, Cho & Bengio 2015 (arXiv:1409.0473). General: Luong, Pham & Manning 2015 (arXiv:1508.04025).
What depends on the source alone, its projection, is made once and is used by all steps. Hypotheses of one source attend
to the same rows: B sources serve B * W queries.
Departure: the gradients of the additive energies are written by hand; the energies (B, N, S, A) of a step never leave the
processor's cache and are made again in backward, instead of being kept for every step.
Shapes: B sources, W hypotheses of each, N queries of each source, S source length, C its size, A of the projection.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nlptools.layers.linear import Linear
from nlptools.layers.recurrent import Shared, Step

_CHUNK = 1 << 16  # energies at a time: the passes over them stay in the cache


class SourceAttention(nn.Module):
    """Parameters of additive or general attention; queries have size D."""

    def __init__(self, kind: str, query_size: int, source_size: int) -> None:
        super().__init__()
        self.keys = Linear(source_size, query_size, bias=False)
        self.query = Linear(query_size, query_size, bias=False) if kind == "bahdanau" else None
        self.energy = nn.Parameter(torch.empty(query_size)) if kind == "bahdanau" else None


class AttentionSteps:
    """Attention to one batch of sources in a loop: `source` (B, S, C), `keys` (B, S, A), `mask` (B, S) or None."""

    def __init__(self, module: SourceAttention, source: Tensor, keys: Tensor, mask: Tensor | None) -> None:
        self.query = None if module.query is None else Step(module.query)
        self.energy = None if module.energy is None else Energies(keys, module.energy)
        self.keys = Shared(keys.transpose(1, 2)) if self.energy is None else None
        self.source = Shared(source)
        self.shut = None if mask is None else ~mask[:, None]  # (B, 1, S)

    def __call__(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """(R, D) -> contexts (R, C), and weights (R, S) that sum to 1, in float32 at least. R is a multiple of B, with the
        rows of a source together.
        """
        B = self.source.matrix.shape[0]
        if self.query is not None:
            hidden = self.query(hidden)
        queries = hidden.view(B, -1, hidden.shape[-1])  # (B, N, A)
        scores: Tensor = self.energy(queries) if self.energy is not None else self.keys(queries)  # type: ignore[misc]
        if self.shut is not None:
            scores = scores.masked_fill(self.shut, -torch.inf)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        return self.source(weights.to(scores.dtype)).flatten(0, 1), weights.flatten(0, 1)


class Energies:
    """Scores v . tanh(query + key) of `keys` (B, S, A) and v (A), for the queries (B, N, A) of many steps -> (B, N, S)."""

    def __init__(self, keys: Tensor, energy: Tensor) -> None:
        needed = keys.requires_grad or energy.requires_grad
        self.compiling = torch.compiler.is_compiling()  # which has ways of its own
        self.tracked = torch.is_grad_enabled() and needed and not self.compiling
        self._sums = _Sums()
        self.keys, self.energy = keys, energy
        if self.tracked:
            self.keys, self.energy = _EnergiesRoot.apply(keys, energy, self._sums)  # type: ignore[no-untyped-call]

    def __call__(self, queries: Tensor) -> Tensor:
        if self.compiling:
            return _tanh(queries, self.keys) @ self.energy
        if not self.tracked and not (torch.is_grad_enabled() and queries.requires_grad):
            return _energies(queries, self.keys, self.energy)
        out: Tensor = _Energies.apply(queries, self.keys, self.energy, self._sums)  # type: ignore[no-untyped-call]
        return out


class _Sums:
    """Gradients of keys and v, summed over the steps that backward has been through.

    That of the keys is v * sum(d_score * (1 - tanh^2)): the two terms are summed on their own, and v comes last.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.scores: Tensor | None = None  # (B, S)
        self.squares: Tensor | None = None  # (B, S, A)
        self.energy: Tensor | None = None  # (A,)


class _EnergiesRoot(torch.autograd.Function):
    """Stands between keys and steps, as in `recurrent.Shared`."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, energy: Tensor, sums: _Sums) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.sums = sums
        ctx.save_for_backward(energy)
        return keys.view_as(keys), energy.view_as(energy)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, Tensor | None, None]:
        sums = ctx.sums
        d_keys = sums.squares.neg_().add_(sums.scores[..., None]).mul_(ctx.saved_tensors[0])
        d_energy = sums.energy
        sums.clear()
        return d_keys, d_energy, None


class _Energies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, energy: Tensor, sums: _Sums) -> Tensor:
        ctx.save_for_backward(queries, keys, energy)
        ctx.sums = sums
        return _energies(queries, keys, energy)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None, None]:
        queries, keys, energy = ctx.saved_tensors
        sums: _Sums = ctx.sums
        (d_scores,) = grad_outputs
        if sums.squares is None or sums.scores is None or sums.energy is None:
            sums.squares, sums.energy = torch.zeros_like(keys), torch.zeros_like(energy)
            sums.scores = torch.zeros_like(keys[..., 0])
        sums.scores += d_scores.sum(1)
        weighted = torch.empty_like(queries)
        for b in _chunks(queries, keys):
            tanh = _tanh(queries[b], keys[b])
            d = d_scores[b]
            sums.energy += d.reshape(-1) @ tanh.view(-1, tanh.shape[-1])
            squares = tanh.mul_(tanh)
            weighted[b] = (d[:, :, None] @ squares).squeeze(2)
            if queries.shape[1] == 1:
                sums.squares[b].addcmul_(d.transpose(1, 2), squares[:, 0])
            else:
                sums.squares[b] += squares.mul_(d[..., None]).sum(1)
        return (d_scores.sum(-1, keepdim=True) - weighted).mul_(energy), None, None, None


def _energies(queries: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
    out = queries.new_empty(*queries.shape[:2], keys.shape[1])
    for b in _chunks(queries, keys):
        out[b] = _tanh(queries[b], keys[b]) @ energy
    return out


def _tanh(queries: Tensor, keys: Tensor) -> Tensor:
    return (queries[:, :, None] + keys[:, None]).tanh_()  # (B, N, S, A)


def _chunks(queries: Tensor, keys: Tensor) -> list[slice]:
    """Sources at a time."""
    B = keys.shape[0]
    each = queries.shape[1] * keys.shape[1] * keys.shape[2]
    size = max(1, _CHUNK // max(1, each)) if keys.device.type == "cpu" else B
    return [slice(start, start + size) for start in range(0, B, size)]
