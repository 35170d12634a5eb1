"""Cross-entropy over a vocabulary, as sums in nats; computed chunk by chunk by `compute.kernels.cross_entropy`."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from nlptools.compute.kernels.cross_entropy import ChosenLogProbabilities, CrossEntropy, RDrop, chunk_rows, log_sum_exp
from nlptools.compute.kernels.linear import linear

Multiply = Callable[[Tensor, Tensor, Tensor | None], Tensor]  # x (N, E), weight (V, E) and bias (V,) or None -> (N, V)


def summed_cross_entropy(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    targets_N: Tensor,
    vocab_size: int,
    *,
    smoothing: float = 0.0,
    bias_V: Tensor | None = None,
) -> Tensor:
    """Sum over the rows of -log softmax(hidden weight^T + bias)[target], in nats.

    Args:
        targets_N: rows with target -1 do not count.
        vocab_size: rows of `weight_VD` and entries of `bias_V` from here on are padding and get no probability.
        smoothing: share of the target distribution that is spread evenly over the vocabulary, the target included; the rest
            is on the target (Szegedy et al. 2016, arXiv:1512.00567).
    """
    valid = targets_N >= 0
    if not bool(valid.all()):
        hidden_ND, targets_N = hidden_ND[valid], targets_N[valid]
    loss: Tensor = CrossEntropy.apply(hidden_ND, weight_VD, bias_V, targets_N, vocab_size, smoothing)  # type: ignore[no-untyped-call]
    return loss


def summed_r_drop(
    hidden_2ND: Tensor,
    weight_VD: Tensor,
    targets_N: Tensor,
    vocab_size: int,
    rate: float,
    *,
    smoothing: float = 0.0,
    bias_V: Tensor | None = None,
) -> Tensor:
    """Cross-entropy of two passes over the same targets, plus `rate` times the divergence of their distributions p and q.

    Liang et al. 2021, "R-Drop: regularized dropout for neural networks" (arXiv:2106.14448), halved, so that it equals the
    cross-entropy where dropout does nothing: summed over the N targets, in nats, the mean of both cross-entropies
    plus rate/4 (KL(p|q) + KL(q|p)). `hidden_2ND` holds both passes; the rest as in `summed_cross_entropy`.
    """
    valid = targets_N >= 0
    if not bool(valid.all()):
        hidden_2ND, targets_N = hidden_2ND[:, valid], targets_N[valid]
    loss: Tensor = RDrop.apply(hidden_2ND, weight_VD, bias_V, targets_N, vocab_size, smoothing, rate)  # type: ignore[no-untyped-call]
    return loss


def log_probabilities(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    targets_N: Tensor,
    vocab_size: int,
    bias_V: Tensor | None = None,
    multiply: Multiply = linear,
) -> Tensor:
    """log softmax(hidden weight^T + bias)[target] of each row (N), in float32 nats, over the first `vocab_size` entries.

    `multiply` computes the products of rows and the matrix.
    """
    out = torch.empty(len(hidden_ND), dtype=torch.float32, device=hidden_ND.device)
    size = chunk_rows(weight_VD)
    for start in range(0, len(hidden_ND), size):
        rows = slice(start, start + size)
        logits = multiply(hidden_ND[rows], weight_VD, None)[:, :vocab_size]
        if bias_V is not None:
            logits = logits.float().add_(bias_V[:vocab_size])
        target_logits = logits.gather(1, targets_N[rows, None]).float()
        out[rows] = (target_logits - log_sum_exp(logits)).squeeze(1)
    return out


def chosen_log_probabilities(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    targets_N: Tensor,
    vocab_size: int,
    bias_V: Tensor | None = None,
    forbidden: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See `output.OutputHead.chosen_log_probabilities`."""
    arguments = hidden_ND, weight_VD, bias_V, targets_N, vocab_size, forbidden
    out: tuple[Tensor, Tensor] = ChosenLogProbabilities.apply(*arguments)  # type: ignore[no-untyped-call]
    return out
