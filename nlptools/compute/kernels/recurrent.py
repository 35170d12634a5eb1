"""Layers of recurrent networks: all steps of a layer in one autograd function.

The products of the inputs are computed for all steps at once by the caller. What remains is a loop over the steps, with one
product and a few passes over (B, G) gates each. Autograd would record some ten nodes at each step; here the activated gates
are kept, the backward pass is a loop of the same shape, and the gradient of the matrix is one product over all steps.
In both loops the matrix is rearranged for oneDNN's kernel once. In an LSTM, tanh x is 2 sigmoid(2 x) - 1, because PyTorch's
tanh takes twice the time. Sums, cells and activations are in float32, also where products are in bfloat16.

Shapes: T steps, B rows, D units, G gates: 4 D (LSTM: input, forget, candidate, output), 3 D (GRU: reset, update, candidate)
or D (a plain network with tanh), in PyTorch's order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nlptools.compute.kernels.context import FunctionContext
from nlptools.compute.kernels.linear import PackedWeight, by_onednn

GATES = {"rnn": 1, "lstm": 4, "gru": 3}
_WORTH_PACKING = 8  # steps from which on a matrix is rearranged
_MANY_STEPS = 32  # of one row, for which PyTorch's LSTM is faster
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input
within_backward = torch.ops.aten.hardtanh_backward.grad_input

Product = Callable[[Tensor, Tensor], Tensor]  # rows (B, K) and a summand (B, M) -> (B, M)


def layer(
    kind: str,
    gates_TBG: Tensor,
    weight_GD: Tensor,
    bias_G: Tensor | None,
    hidden_BD: Tensor,
    cell_BD: Tensor,
    packed: PackedWeight | None = None,
) -> tuple[Tensor, Tensor]:
    """All steps of a layer -> hidden states (T, B, D) and the last cell (B, D), float32. Differentiable.

    Args:
        kind: rnn, lstm or gru.
        gates_TBG: products of the inputs, with biases.
        weight_GD, bias_G: of the product with the hidden state; only a GRU has a bias here, since its reset gate acts on it.
        hidden_BD, cell_BD: the state before the first step; the cell of an LSTM is in float32. Other networks have no cell and
            return it unchanged.
        packed: keeps a rearranged copy of a frozen matrix for calls of few steps.
    """
    tensors = (gates_TBG, weight_GD, bias_G, hidden_BD, cell_BD)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors):
        out: tuple[Tensor, Tensor] = _Layer.apply(kind, *tensors)  # type: ignore[no-untyped-call]
        return out
    hidden, cell, _ = _FORWARD[kind](
        gates_TBG, product_with(weight_GD, gates_TBG, packed), bias_G, hidden_BD, cell_BD, False
    )
    return hidden[1:], cell


def native_is_faster(kind: str, x: Tensor, weight: Tensor) -> bool:
    """Whether `native_layer` is faster than `layer`: on other devices than a CPU; on a CPU for an LSTM that learns in float32,
    or reads many steps of one row.

    For an LSTM, PyTorch calls oneDNN, which computes all steps at once, with the gates inside the product. Forward and backward
    of 35 steps of 20 rows with 650 units, on two cores of an AMD EPYC without AVX-512, take 103 ms, and 150 ms by `layer`. A
    GRU, which is a loop in PyTorch, takes 115 and 109 ms. 256 steps of one row with 400 units, on a core of an Intel Xeon with
    AMX, take 48 ms, and 96 by `layer`; in bfloat16 16 and 56. But 8 rows with 1,150 units take twice as long as by `layer`,
    which rearranges the matrix. In bfloat16 the kernel also rounds cells: the perplexity of 6,000 words is 100.345, by `layer`
    100.339, in float32 100.352.
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return True
    in_16_bits = x.dtype == torch.bfloat16
    if kind != "lstm" or len(x) == 0 or not (in_16_bits or x.dtype == torch.float32):
        return False
    # without products in 16 bits the kernel is slow; where oneDNN multiplies float32 (AMD with AVX-512), it is not measured
    if by_onednn(x.dtype) != in_16_bits:
        return False
    if torch.is_grad_enabled() and weight.requires_grad:
        return not in_16_bits
    return x.shape[1] == 1 and len(x) >= _MANY_STEPS


def native_layer(
    kind: str, x_TBE: Tensor, weights: list[Tensor], hidden_BD: Tensor, cell_BD: Tensor, training: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The same by PyTorch's kernel (cuDNN on a GPU), from the inputs -> hidden states, last hidden state, last cell.

    Args:
        weights: the matrices for the input and for the hidden state, and their biases.
    """
    if x_TBE.device.type == "cuda":  # cuDNN copies weights that are not contiguous, and warns at each start
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
    h = hidden_BD.to(x_TBE.dtype)[None].contiguous()
    options = (weights, True, 1, 0.0, training, False, False)
    if kind == "lstm":
        c = cell_BD.to(x_TBE.dtype)[None].contiguous()
        out, h, c = torch._VF.lstm(x_TBE, (h, c), *options)
        return out, h[0], c[0].float()
    function: Callable[..., tuple[Tensor, Tensor]] = torch._VF.gru if kind == "gru" else torch._VF.rnn_tanh
    out, h = function(x_TBE, h, *options)
    return out, h[0], cell_BD


def product_with(weight_MK: Tensor, steps: Tensor, packed: PackedWeight | None = None) -> Product:
    """Products with weight^T for `steps` (T, B, ...)."""
    T, B = steps.shape[:2]
    frozen = packed is not None and not weight_MK.requires_grad
    on_cpu = steps.device.type == "cpu"
    if on_cpu and T >= _WORTH_PACKING and not frozen and by_onednn(weight_MK.dtype):
        rearranged = torch.ops.mkldnn._reorder_linear_weight(weight_MK.detach(), B)
        add = torch.ops.mkldnn._linear_pointwise.binary
        return lambda x, base: add(x, base, rearranged, None, "add")
    if packed is not None and frozen:
        keeper = packed

        def kept(x: Tensor, base: Tensor) -> Tensor:
            out = keeper.product(x, weight_MK, None, other=base, how="add")
            return torch.addmm(base, x, weight_MK.t()) if out is None else out

        return kept
    transposed = weight_MK.t()
    return lambda x, base: torch.addmm(base, x, transposed)


class _Layer(torch.autograd.Function):
    """See `layer`."""

    @staticmethod
    def forward(
        ctx: FunctionContext,
        kind: str,
        gates: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        hidden: Tensor,
        cell: Tensor,
    ) -> tuple[Tensor, Tensor]:
        out, last, kept = _FORWARD[kind](gates, product_with(weight, gates), bias, hidden, cell, True)
        ctx.save_for_backward(weight, out, *kept)
        ctx.kind = kind
        ctx.set_materialize_grads(False)
        return out[1:], last

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionContext, *grad_outputs: Tensor | None) -> tuple[Tensor | None, ...]:
        weight, hidden, *kept = ctx.saved_tensors
        d_out, d_cell = grad_outputs
        G = len(weight)
        if d_out is None:
            d_out = torch.zeros_like(hidden[1:])
        product = product_with(weight.t(), d_out)
        d_gates, d_own, d_hidden, d_cell = _BACKWARD[ctx.kind](d_out, d_cell, product, hidden, kept)
        d_weight = d_own.view(-1, G).t() @ hidden[:-1].reshape(-1, hidden.shape[-1])
        d_bias = d_own.sum((0, 1)) if ctx.needs_input_grad[3] else None
        return None, d_gates, d_weight, d_bias, d_hidden, d_cell


# -- one loop forward and one backward for each kind ------------------------------------------------------------------
# forward: -> (T + 1, B, D) hidden states from the one before the first step on, the last cell, what backward needs
# backward: -> gradients of the gates, of the products with the hidden state, of the first hidden state, of the first cell


def buffers(gates: Tensor, hidden: Tensor) -> tuple[Tensor, torch.dtype]:
    """A place for all hidden states, the first of them set; and the type of sums."""
    out = gates.new_empty(len(gates) + 1, *hidden.shape)
    out[0] = hidden
    return out, torch.promote_types(gates.dtype, torch.float32)


def _lstm_forward(
    gates: Tensor, product: Product, bias: Tensor | None, hidden: Tensor, cell: Tensor, keep: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    (T, B, G), D = gates.shape, hidden.shape[-1]
    out, wide = buffers(gates, hidden)
    activated = gates.new_empty(T if keep else 1, B, G, dtype=wide)
    cells = gates.new_empty(T + 1 if keep else 1, B, D, dtype=wide)
    tanhs = gates.new_empty(T if keep else 1, B, D, dtype=wide)
    cells[0] = cell
    for t in range(T):
        at = t if keep else 0
        a, tanh = activated[at], tanhs[at]
        a.copy_(product(out[t], gates[t]))
        o = lstm_step(a, cells[at], cells[at + 1 if keep else 0], tanh)
        torch.mul(o, tanh, out=out[t + 1]) if out.dtype == wide else out[t + 1].copy_(o.mul(tanh))
    return out, cells[-1].clone(), (activated, cells, tanhs)


def lstm_step(gates: Tensor, before: Tensor, cell: Tensor, tanh: Tensor, clip: float = 0.0) -> Tensor:
    """Activate the gates (B, 4 D), and fill in the cell after a step, within `clip` (0: no limit), and its tanh -> the output
    gate (B, D).
    """
    i, f, g, o = gates.chunk(4, 1)
    g *= 2
    gates.sigmoid_()
    g.mul_(2).sub_(1)
    torch.mul(before, f, out=cell)
    cell.addcmul_(i, g)
    if clip:
        cell.clamp_(-clip, clip)
    torch.mul(cell, 2, out=tanh)
    tanh.sigmoid_().mul_(2).sub_(1)
    return o


def _lstm_backward(
    d_out: Tensor, d_last: Tensor | None, product: Product, hidden: Tensor, kept: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    activated, cells, tanhs = kept
    T, B, D = d_out.shape
    d_gates, wide = d_out.new_empty(T, B, 4 * D), activated.dtype
    d_cell = d_out.new_zeros(B, D, dtype=wide) if d_last is None else d_last.to(wide, copy=True)
    d_raw, passed = d_out.new_empty(B, 4 * D, dtype=wide), d_out.new_empty(B, D, dtype=wide)
    d_hidden = d_out[-1]
    for t in range(T - 1, -1, -1):
        lstm_step_backward(d_hidden.to(wide), d_cell, d_raw, passed, activated[t], cells[t : t + 2], tanhs[t])
        d_gates[t] = d_raw
        d_hidden = product(d_gates[t], d_out[t - 1] if t else torch.zeros_like(d_out[0]))
    return d_gates, d_gates, d_hidden, d_cell


def lstm_step_backward(
    d_hidden: Tensor,
    d_cell: Tensor,
    d_gates: Tensor,
    passed: Tensor,
    gates: Tensor,
    cells: Tensor,
    tanh: Tensor,
    clip: float = 0.0,
) -> None:
    """Fill in the gradient of the gates (B, 4 D), and turn the gradient of the cell after a step into the one before it.

    Args:
        passed: (B, D) room for a product.
        cells: (2, B, D) the cells before and after the step.
    """
    D = d_cell.shape[1]
    i, f, g, o = gates.chunk(4, 1)
    d_i, d_f, d_g, d_o = d_gates.chunk(4, 1)
    torch.mul(d_hidden, o, out=passed)
    d_cell += _tanh_backward(passed, tanh, grad_input=passed)
    if clip:
        within_backward(d_cell, cells[1], -clip, clip, grad_input=d_cell)
    torch.mul(d_hidden, tanh, out=d_o)
    torch.mul(d_cell, cells[0], out=d_f)
    torch.mul(d_cell, g, out=d_i)
    torch.mul(d_cell, i, out=d_g)
    _sigmoid_backward(d_gates[:, : 2 * D], gates[:, : 2 * D], grad_input=d_gates[:, : 2 * D])
    _tanh_backward(d_g, g, grad_input=d_g)
    _sigmoid_backward(d_o, o, grad_input=d_o)
    d_cell *= f


def _gru_forward(
    gates: Tensor, product: Product, bias: Tensor | None, hidden: Tensor, cell: Tensor, keep: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    (T, B, G), D = gates.shape, hidden.shape[-1]
    out, wide = buffers(gates, hidden)
    activated = gates.new_empty(T if keep else 1, B, G, dtype=wide)
    candidates = gates.new_empty(
        T if keep else 1, B, D, dtype=wide
    )  # products with the hidden state, before the reset gate
    base = gates.new_zeros(B, G) if bias is None else bias.expand(B, G).contiguous()
    before = hidden.to(wide)
    for t in range(T):
        a, candidate = activated[t if keep else 0], candidates[t if keep else 0]
        own = product(out[t], base)
        a.copy_(gates[t])
        candidate.copy_(own[:, 2 * D :])
        r, z, n = a.chunk(3, 1)
        a[:, : 2 * D].add_(own[:, : 2 * D]).sigmoid_()
        n.addcmul_(r, candidate).tanh_()
        before = torch.lerp(n, before, z)
        out[t + 1] = before
    return out, cell, (activated, candidates)


def _gru_backward(
    d_out: Tensor, d_last: Tensor | None, product: Product, hidden: Tensor, kept: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    activated, candidates = kept
    T, B, D = d_out.shape
    d_gates, d_own, wide = d_out.new_empty(T, B, 3 * D), d_out.new_empty(T, B, 3 * D), activated.dtype
    d_raw = d_out.new_empty(B, 3 * D, dtype=wide)
    d_r, d_z, d_n = d_raw.chunk(3, 1)
    zeros = torch.zeros_like(d_out[0])
    d_hidden = d_out[-1].to(wide)
    for t in range(T - 1, -1, -1):
        r, z, n = activated[t].chunk(3, 1)
        torch.mul(d_hidden, hidden[t] - n, out=d_z)
        torch.addcmul(d_hidden, d_hidden, z, value=-1, out=d_n)
        _tanh_backward(d_n, n, grad_input=d_n)
        torch.mul(d_n, candidates[t], out=d_r)
        _sigmoid_backward(d_raw[:, : 2 * D], activated[t][:, : 2 * D], grad_input=d_raw[:, : 2 * D])
        d_gates[t] = d_raw
        d_n *= r
        d_own[t] = d_raw
        d_hidden = (d_hidden * z).add_(product(d_own[t], d_out[t - 1] if t else zeros))
    return d_gates, d_own, d_hidden.to(d_out.dtype), d_last


def _rnn_forward(
    gates: Tensor, product: Product, bias: Tensor | None, hidden: Tensor, cell: Tensor, keep: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    out, _ = buffers(gates, hidden)
    for t in range(len(gates)):
        torch.tanh(product(out[t], gates[t]), out=out[t + 1])
    return out, cell, ()


def _rnn_backward(
    d_out: Tensor, d_last: Tensor | None, product: Product, hidden: Tensor, kept: list[Tensor]
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    d_gates, d_hidden = torch.empty_like(d_out, memory_format=torch.contiguous_format), d_out[-1]
    for t in range(len(d_out) - 1, -1, -1):
        _tanh_backward(d_hidden, hidden[t + 1], grad_input=d_gates[t])
        d_hidden = product(d_gates[t], d_out[t - 1] if t else torch.zeros_like(d_out[0]))
    return d_gates, d_gates, d_hidden, d_last


_FORWARD = {"rnn": _rnn_forward, "lstm": _lstm_forward, "gru": _gru_forward}
_BACKWARD = {"rnn": _rnn_backward, "lstm": _lstm_backward, "gru": _gru_backward}
