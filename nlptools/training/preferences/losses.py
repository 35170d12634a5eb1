"""Losses of preferences, from the log-probabilities of responses, without a reward model and without samples; of values.

    dpo     Rafailov et al. 2023 (arXiv:2305.18290), equation 7
    ipo     Azar et al. 2023 (arXiv:2310.12036), equation 17, with log-probabilities per token, which the authors recommend
    kto     Ethayarajh et al. 2024 (arXiv:2402.01306), equation 8, with equal weights of good and bad responses
    orpo    Hong et al. 2024 (arXiv:2403.07691), equation 6, with log-probabilities per token
A ratio is the log-probability of a response, in nats, less that under the reference. Shapes: N examples.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def dpo(better_N: Tensor, worse_N: Tensor, beta: float) -> Tensor:
    """(N,) from the ratios of the better and the worse responses."""
    return -F.logsigmoid(beta * (better_N - worse_N))


def ipo(better_N: Tensor, worse_N: Tensor, beta: float) -> Tensor:
    """(N,) from the ratios per token of the better and the worse responses."""
    return (better_N - worse_N - 1 / (2 * beta)).square()


def kto(ratio_N: Tensor, good_N: Tensor, divergence: Tensor, beta: float) -> Tensor:
    """(N,) from the ratios of responses, whether each is a good one, and an estimate () of the divergence of the model from
    the reference.
    """
    gain = beta * (ratio_N - divergence)
    return 1 - torch.sigmoid(torch.where(good_N, gain, -gain))


def orpo(better_N: Tensor, worse_N: Tensor, beta: float) -> Tensor:
    """(N,) from the log-probabilities per token of the better and the worse responses."""
    odds = better_N - worse_N - (_log_complement(better_N) - _log_complement(worse_N))
    return -better_N - beta * F.logsigmoid(odds)


def clipped_squares(value_P: Tensor, old_P: Tensor, returned_P: Tensor, clip: float) -> Tensor:
    """(P,) half the squared errors of values, or of the values clipped to `clip` around old ones, whichever is larger; 0: no
    clipping.
    """
    if clip == 0:
        return 0.5 * (value_P - returned_P).square()
    clipped = old_P + (value_P - old_P).clamp(-clip, clip)
    return 0.5 * torch.maximum((value_P - returned_P).square(), (clipped - returned_P).square())


def _log_complement(log_probability: Tensor) -> Tensor:
    """log(1 - p); p is never quite 1."""
    return torch.log(-torch.expm1(log_probability.clamp(max=-1e-6)))
