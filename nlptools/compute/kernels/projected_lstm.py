"""LSTMs with projected hidden states, several of one size at a time, such as the two directions of an ELMo.

Each pass over the gates serves all of them: for 2 x 32 rows of 1,024 cells on 2 cores, a training step of an ELMo takes 0.73 s
instead of 0.87.
Shapes: T steps, B rows of all K LSTMs, D cells, G = 4 D gates, P size of the projection.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nlptools.compute.kernels.context import FunctionContext
from nlptools.compute.kernels.recurrent import buffers, lstm_step, lstm_step_backward, product_with, within_backward


class Limits(NamedTuple):
    """The largest absolute values in an LSTM with projection; 0: no limit. The gradient of what is cut is 0."""

    cell: float = 0.0
    hidden: float = 0.0


def projected_layers(
    gates: Sequence[Tensor],
    weights: Sequence[Tensor],
    projections: Sequence[Tensor],
    hidden: Sequence[Tensor],
    cell_BD: Tensor,
    limits: Limits,
) -> tuple[list[Tensor], Tensor]:
    """All steps of K LSTMs of one size, with hidden states that are projections of the gated cells (Sak et al. 2014,
    arXiv:1402.1128) -> hidden states (T, B / K, P) of each, and the last cells (B, D), float32. Differentiable.

    Each of the K has its rows of the cells.

    Args:
        gates: K times (T, B / K, G).
        weights: K times (G, P).
        projections: K times (P, D).
        hidden: K times (B / K, P).
    """
    tensors = (*gates, *weights, *projections, *hidden, cell_BD)
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        *outputs, cell = _ProjectedLayers.apply(limits, *tensors)  # type: ignore[no-untyped-call]
        return outputs, cell
    lstms = [_Projected(*each, 1) for each in zip(gates, weights, projections, hidden, strict=True)]
    cell, _ = _projected_forward(lstms, cell_BD, limits, False)
    return [each.out[1:] for each in lstms], cell


class _ProjectedLayers(torch.autograd.Function):
    """See `projected_layers`."""

    @staticmethod
    def forward(ctx: FunctionContext, limits: Limits, *tensors: Tensor) -> tuple[Tensor, ...]:
        *each, cell = tensors
        K = len(each) // 4
        gates, weights, projections, hidden = (each[i * K : (i + 1) * K] for i in range(4))
        T = len(gates[0])
        lstms = [_Projected(*one, T) for one in zip(gates, weights, projections, hidden, strict=True)]
        last, kept = _projected_forward(lstms, cell, limits, True)
        states, outputs = [one.out for one in lstms], [one.outputs for one in lstms]
        ctx.save_for_backward(*weights, *projections, *states, *outputs, *kept)
        ctx.limits, ctx.count = limits, K
        ctx.set_materialize_grads(False)
        return (*(one.out[1:] for one in lstms), last)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionContext, *grad_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        K, saved = ctx.count, ctx.saved_tensors
        weights, projections, states, outputs = (saved[i * K : (i + 1) * K] for i in range(4))
        d_out = [torch.zeros_like(x[1:]) if d is None else d for d, x in zip(grad_outputs[:K], states, strict=True)]
        slopes = [_ProjectedSlopes(*one) for one in zip(d_out, weights, projections, states, strict=True)]
        d_cell = _projected_backward(slopes, grad_outputs[K], saved[4 * K :], ctx.limits)
        d_weights = [s.d_gates.flatten(0, 1).t() @ x[:-1].flatten(0, 1) for s, x in zip(slopes, states, strict=True)]
        d_projections = [
            s.d_projected.flatten(0, 1).t() @ x.flatten(0, 1) for s, x in zip(slopes, outputs, strict=True)
        ]
        d_gates, d_hidden = [s.d_gates for s in slopes], [s.d_hidden for s in slopes]
        return None, *d_gates, *d_weights, *d_projections, *d_hidden, d_cell


class _Projected:
    """One of K LSTMs in a loop, with its products, and the places of its results: all hidden states, and the gated cells of
    the `held` last steps.
    """

    def __init__(self, gates: Tensor, weight: Tensor, projection: Tensor, hidden: Tensor, held: int) -> None:
        self.gates, self.product, self.project = gates, product_with(weight, gates), product_with(projection, gates)
        self.out, _ = buffers(gates, hidden)
        self.outputs = gates.new_empty(held, len(hidden), projection.shape[1])
        self.nothing = torch.zeros_like(hidden)


def _projected_forward(
    lstms: Sequence[_Projected], cell: Tensor, limits: Limits, keep: bool
) -> tuple[Tensor, tuple[Tensor, ...]]:
    gates, (B, D), K = lstms[0].gates, cell.shape, len(lstms)
    T, _, G = gates.shape
    held, wide = T if keep else 1, torch.promote_types(gates.dtype, torch.float32)
    activated, cells = gates.new_empty(held, B, G, dtype=wide), gates.new_empty(held + keep, B, D, dtype=wide)
    tanhs, let_through = gates.new_empty(held, B, D, dtype=wide), gates.new_empty(B, D, dtype=wide)
    cells[0] = cell
    for t in range(T):
        at = t if keep else 0
        for each, place in zip(lstms, activated[at].chunk(K), strict=True):
            place.copy_(each.product(each.out[t], each.gates[t]))
        o = lstm_step(activated[at], cells[at], cells[at + keep], tanhs[at], limits.cell)
        torch.mul(o, tanhs[at], out=let_through)
        for each, rows in zip(lstms, let_through.chunk(K), strict=True):
            output = each.outputs[at].copy_(rows)
            torch.clamp(each.project(output, each.nothing), *_range(limits.hidden), out=each.out[t + 1])
    return cells[-1].clone(), (activated, cells, tanhs)


def _range(limit: float) -> tuple[float, float]:
    return (-limit, limit) if limit else (-float("inf"), float("inf"))


class _ProjectedSlopes:
    """The gradients of one of K LSTMs: of its gates, its projections before their limit, and its first hidden state."""

    def __init__(self, d_out: Tensor, weight: Tensor, projection: Tensor, states: Tensor) -> None:
        (T, B, P), (G, D) = d_out.shape, (len(weight), projection.shape[1])
        self.d_out, self.states, self.d_hidden = d_out, states, d_out[-1]
        self.product, self.project = product_with(weight.t(), d_out), product_with(projection.t(), d_out)
        self.d_gates, self.d_projected = d_out.new_empty(T, B, G), d_out.new_empty(T, B, P)
        self.nothing, self.before = d_out.new_zeros(B, D), d_out.new_zeros(B, P)

    def output(self, t: int, limit: float) -> Tensor:
        """The gradient of what the output gate lets through at a step."""
        d_projected = self.d_projected[t]
        if limit:
            within_backward(self.d_hidden, self.states[t + 1], -limit, limit, grad_input=d_projected)
        else:
            d_projected.copy_(self.d_hidden)
        return self.project(d_projected, self.nothing)

    def step(self, t: int, d_gates: Tensor) -> None:
        """Take the gradient of the gates at a step back to the hidden state before it."""
        before = self.d_out[t - 1] if t else self.before
        self.d_hidden = self.product(self.d_gates[t].copy_(d_gates), before)


def _projected_backward(
    slopes: Sequence[_ProjectedSlopes], d_last: Tensor | None, kept: Sequence[Tensor], limits: Limits
) -> Tensor:
    """Fill in the gradients; returns the gradient of the first cells."""
    activated, cells, tanhs = kept
    (T, B, D), K = tanhs.shape, len(slopes)
    d_cell = cells.new_zeros(B, D) if d_last is None else d_last.to(cells.dtype, copy=True)
    d_raw, passed, d_output = cells.new_empty(B, 4 * D), cells.new_empty(B, D), cells.new_empty(B, D)
    for t in range(T - 1, -1, -1):
        for each, rows in zip(slopes, d_output.chunk(K), strict=True):
            rows.copy_(each.output(t, limits.hidden))
        lstm_step_backward(d_output, d_cell, d_raw, passed, activated[t], cells[t : t + 2], tanhs[t], limits.cell)
        for each, rows in zip(slopes, d_raw.chunk(K), strict=True):
            each.step(t, rows)
    return d_cell
