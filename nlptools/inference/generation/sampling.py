"""The choice of the next token from its distribution. Shapes: B rows, V vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

from nlptools.configs.generation import Generate


def likeliest(logits: Tensor) -> Tensor:
    """The token with the highest logit in each row (B,), the first one of equals. On a CPU numpy is five times as fast."""
    if logits.device.type == "cpu" and logits.dtype == torch.float32:
        return torch.from_numpy(logits.numpy().argmax(-1))
    return logits.argmax(-1)


def sample(logits: Tensor, settings: Generate, uniform: Tensor) -> Tensor:
    """A token per row (B,) by inversion of the cumulative distribution at `uniform` (B,), float64 in [0, 1).

    Filters in this order: temperature, top-n-sigma, typical, top-k, top-p (the token that crosses the threshold is kept),
    min-p. Tokens are ordered by probability, ties by id.
    """
    logits = logits / settings.temperature
    if settings.top_n_sigma:
        logits = _near_the_highest(logits, settings.top_n_sigma)
    if settings.typical < 1:
        logits = _typical(logits, settings.typical)
    probabilities = torch.softmax(logits, -1)
    if settings.top_k == 0 and settings.top_p == 1.0 and settings.min_p == 0.0:
        return _invert(probabilities.double().cumsum(-1), uniform)
    top, ids = _likeliest(probabilities, settings)
    if settings.top_k:
        top = top / top.sum(-1, keepdim=True)
    before = top.cumsum(-1) - top
    top = torch.where((before < settings.top_p) | (before == 0), top, 0.0)  # the likeliest is always kept
    top = torch.where(top >= settings.min_p * top[:, :1], top, 0.0)
    place = _invert(top.cumsum(-1), uniform)
    return ids.gather(1, place[:, None]).squeeze(1)


def _near_the_highest(logits: Tensor, sigmas: float) -> Tensor:
    """The logits (B, V), those more than `sigmas` standard deviations below the highest set to -inf; -inf counts as none.

    Tang et al. 2024, "Top-nσ: not all logits are you need" (arXiv:2411.07641).
    """
    real = logits > -torch.inf
    count = real.sum(-1, keepdim=True)
    mean = torch.where(real, logits, 0.0).sum(-1, keepdim=True) / count
    deviation = (torch.where(real, logits - mean, 0.0).square().sum(-1, keepdim=True) / count).sqrt()
    return logits.masked_fill(logits < logits.amax(-1, keepdim=True) - sigmas * deviation, -torch.inf)


def _typical(logits: Tensor, mass: float) -> Tensor:
    """The logits (B, V), -inf for tokens outside the locally typical set.

    The set holds the tokens with the surprisal nearest to the entropy, until they sum to `mass`, and at least one. Meister et
    al. 2023, "Locally typical sampling" (arXiv:2202.00666).
    """
    logprobs = torch.log_softmax(logits, -1)
    probabilities = logprobs.exp()
    entropy = -(probabilities * logprobs).nansum(-1, keepdim=True)  # 0 log 0 is 0
    distance, order = (-logprobs - entropy).abs().sort(stable=True)
    before = (probabilities.gather(1, order).cumsum(-1) < mass).sum(-1, keepdim=True).clamp_(max=logits.shape[1] - 1)
    farthest = distance.gather(1, before)
    return logits.masked_fill((-logprobs - entropy).abs() > farthest, -torch.inf)


def _likeliest(probabilities: Tensor, settings: Generate) -> tuple[Tensor, Tensor]:
    """(probabilities in descending order, float64; ids) of all tokens that can pass the filters, and perhaps more.

    Sorting a whole vocabulary takes longer than the model, and the first thousand tokens are nearly always enough.
    """
    k = min(settings.top_k or probabilities.shape[-1], probabilities.shape[-1])
    top, ids = probabilities.topk(min(k, 1024))
    enough_mass = settings.top_p < 1 and bool((top.double().sum(-1) >= settings.top_p).all())
    enough_share = settings.min_p > 0 and bool((top[:, -1] < settings.min_p * top[:, 0]).all())
    if k > 1024 and not enough_mass and not enough_share:
        top, ids = probabilities.topk(k)
    return top.double(), ids


def _invert(cumulative: Tensor, uniform: Tensor) -> Tensor:
    point = uniform.to(cumulative.device)[:, None] * cumulative[:, -1:]
    place = torch.searchsorted(cumulative, point, right=True).squeeze(1)
    return place.clamp_(max=cumulative.shape[-1] - 1)
