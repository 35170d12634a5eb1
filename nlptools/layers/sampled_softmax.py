"""Sampled softmax: a loss over few tokens instead of the whole vocabulary.

Jean et al. 2015, "On using very large target vocabulary for neural machine translation" (arXiv:1412.2007), with the
log-uniform distribution over tokens in the order of their frequency that bilm-tf draws from. A loss for training only: it is
not comparable with a cross-entropy.
Shapes: N rows, D hidden, V vocabulary, S drawn tokens.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def summed_sampled_loss(hidden_ND: Tensor, weight_VD: Tensor, bias_V: Tensor, targets_N: Tensor, draws: int) -> Tensor:
    """The sum over rows of the cross-entropy of the target among the drawn tokens (), float32; targets of -1 do not count.

    All rows have the same tokens, which `draws` independent draws give; repeated ones count once. Each logit is corrected by the
    log of the probability that the token is drawn.
    """
    kept = targets_N >= 0
    hidden, targets = hidden_ND[kept], targets_N[kept]
    V = len(bias_V)
    drawn = torch.unique(_draw(draws, V, hidden.device))
    own = (
        (hidden * F.embedding(targets, weight_VD)).sum(1).float()
        + bias_V[targets].float()
        - _log_drawn(targets, draws, V)
    )
    shift = bias_V[drawn].float() - _log_drawn(drawn, draws, V)
    others = F.linear(hidden, weight_VD[drawn]).float() + shift
    others = others.masked_fill(targets[:, None] == drawn, -math.inf)
    return (torch.logaddexp(own, others.logsumexp(1)) - own).sum()


def _draw(draws: int, size: int, device: torch.device) -> Tensor:
    """Tokens (draws,), token k with probability log((k + 2) / (k + 1)) / log(V + 1)."""
    drawn = torch.exp(torch.rand(draws, dtype=torch.float64, device=device) * math.log(size + 1)).long() - 1
    return drawn.clamp(0, size - 1)


def _log_drawn(tokens: Tensor, draws: int, size: int) -> Tensor:
    """The log of the probability that tokens are drawn at least once."""
    each = (1 / (tokens.double() + 1)).log1p() / math.log(size + 1)
    return (-torch.expm1(draws * torch.log1p(-each))).log().float()
