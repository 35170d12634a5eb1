"""The scores of additive attention, for many time steps of a recurrent decoder.

Bahdanau, Cho & Bengio 2015 (arXiv:1409.0473). The energies tanh(query + key), (B, N, S, A), of a step never leave the
processor's cache, and are computed again in backward instead of being kept for every step.
Dimensions: N queries of each source, A size of queries and keys.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nlptools.compute.kernels.context import FunctionContext

CHUNK = 1 << 16  # energies at a time: the passes over them stay in the cache


class AdditiveScores:
    """v . tanh(query + key) for `keys` (B, S, A), `energy` v (A), and the queries (B, N, A) of many steps -> (B, N, S)."""

    def __init__(self, keys: Tensor, energy: Tensor) -> None:
        needed = keys.requires_grad or energy.requires_grad
        self.compiling = torch.compiler.is_compiling()
        self.tracked = torch.is_grad_enabled() and needed and not self.compiling
        self._sums: dict[str, Tensor] = {}
        self.keys, self.energy = keys, energy
        if self.tracked:
            self.keys, self.energy = _Root.apply(keys, energy, self._sums)  # type: ignore[no-untyped-call]

    def __call__(self, queries: Tensor) -> Tensor:
        if self.compiling:
            return _tanh(queries, self.keys) @ self.energy
        if not self.tracked and not (torch.is_grad_enabled() and queries.requires_grad):
            return _scores(queries, self.keys, self.energy)
        out: Tensor = _Scores.apply(queries, self.keys, self.energy, self._sums)  # type: ignore[no-untyped-call]
        return out


class _Root(torch.autograd.Function):
    """Stands between keys and steps, as in `shared_matrix`.

    `sums` are over the steps that backward has passed. The gradient of the keys is v * sum(d_score * (1 - tanh^2)):
    its two terms, "scores" (B, S) and "squares" (B, S, A), are summed separately, and v is multiplied last. "energy" (A,) is
    the gradient of v.
    """

    @staticmethod
    def forward(ctx: FunctionContext, keys: Tensor, energy: Tensor, sums: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.sums = sums
        ctx.save_for_backward(energy)
        return keys.view_as(keys), energy.view_as(energy)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionContext, *grad_outputs: Tensor) -> tuple[Tensor, Tensor | None, None]:
        sums = ctx.sums
        d_keys = sums["squares"].neg_().add_(sums["scores"][..., None]).mul_(ctx.saved_tensors[0])
        d_energy = sums["energy"]
        sums.clear()
        return d_keys, d_energy, None


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionContext, queries: Tensor, keys: Tensor, energy: Tensor, sums: dict[str, Tensor]) -> Tensor:
        ctx.save_for_backward(queries, keys, energy)
        ctx.sums = sums
        return _scores(queries, keys, energy)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionContext, *grad_outputs: Tensor) -> tuple[Tensor, None, None, None]:
        queries, keys, energy = ctx.saved_tensors
        sums: dict[str, Tensor] = ctx.sums
        (d_scores,) = grad_outputs
        if not sums:
            sums |= {"squares": torch.zeros_like(keys), "energy": torch.zeros_like(energy)}
            sums["scores"] = torch.zeros_like(keys[..., 0])
        sums["scores"] += d_scores.sum(1)
        weighted = torch.empty_like(queries)
        for b in _chunks(queries, keys):
            tanh = _tanh(queries[b], keys[b])
            d = d_scores[b]
            sums["energy"] += d.reshape(-1) @ tanh.view(-1, tanh.shape[-1])
            squares = tanh.mul_(tanh)
            weighted[b] = (d[:, :, None] @ squares).squeeze(2)
            if queries.shape[1] == 1:
                sums["squares"][b].addcmul_(d.transpose(1, 2), squares[:, 0])
            else:
                sums["squares"][b] += squares.mul_(d[..., None]).sum(1)
        return (d_scores.sum(-1, keepdim=True) - weighted).mul_(energy), None, None, None


def _scores(queries: Tensor, keys: Tensor, energy: Tensor) -> Tensor:
    out = queries.new_empty(*queries.shape[:2], keys.shape[1])
    for b in _chunks(queries, keys):
        out[b] = _tanh(queries[b], keys[b]) @ energy
    return out


def _tanh(queries: Tensor, keys: Tensor) -> Tensor:
    return (queries[:, :, None] + keys[:, None]).tanh_()  # (B, N, S, A)


def _chunks(queries: Tensor, keys: Tensor) -> list[slice]:
    """The sources of each chunk of energies."""
    B = keys.shape[0]
    each = queries.shape[1] * keys.shape[1] * keys.shape[2]
    size = max(1, CHUNK // max(1, each)) if keys.device.type == "cpu" else B
    return [slice(start, start + size) for start in range(0, B, size)]
