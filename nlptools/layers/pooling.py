"""From the hidden states of all layers and positions to one vector: over the layers, then over time.

Peters et al. 2018 (ELMo, arXiv:1802.05365, equation 1) for the weighted sum of layers; Devlin et al. 2019, section 5.3, for
sums and concatenations of some; Reimers & Gurevych 2019 (arXiv:1908.10084) for what is pooled over time.
Shapes: B batch, T length, D hidden, L layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nlptools.configs.layers import Layers
from nlptools.errors import UsageError


def choose(states: Sequence[Tensor], which: Layers, weights: Sequence[float] | None = None) -> Tensor:
    """The layers that `which` names, put together: (B, T, D), or (B, T, k D) where k of them stand side by side.

    Args:
        states: (B, T, D) each, what the embeddings give first.
        weights: of a mix, one for each of `states`.

    Raises:
        UsageError: there are no such layers, or not as many weights as layers.
    """
    if which.kind == "mix":
        if weights is None or len(weights) != len(states):
            raise UsageError(f"a mix of {0 if weights is None else len(weights)} layers, the model has {len(states)}")
        return torch.stack([w * state for w, state in zip(weights, states, strict=True)]).sum(0)
    chosen = states[which.begin : which.end]
    if not chosen:
        raise UsageError(f"no such layers: the model has {len(states)}, numbered 0 to {len(states) - 1}")
    if which.kind == "concat":
        return torch.cat(list(chosen), -1)
    total = chosen[0] if len(chosen) == 1 else torch.stack(list(chosen)).sum(0)
    return total / len(chosen) if which.kind == "mean" and len(chosen) > 1 else total


def pool(hidden: Tensor, mask: Tensor | None, kinds: Sequence[str]) -> Tensor:
    """(B, T, D), and which of it is real, padded on the right -> (B, k D): each of k kinds of pooling, side by side."""
    if mask is None:
        mask = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    pooled = [POOLINGS[kind](hidden.float(), mask) for kind in kinds]
    return pooled[0] if len(pooled) == 1 else torch.cat(pooled, 1)


def _first(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden[:, 0]


def _last(hidden: Tensor, mask: Tensor) -> Tensor:
    places = mask.sum(1) - 1
    return hidden[torch.arange(len(hidden), device=hidden.device), places.clamp(min=0)]


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    return _sum(hidden, mask) / _count(mask)


def _mean_sqrt(hidden: Tensor, mask: Tensor) -> Tensor:
    return _sum(hidden, mask) / _count(mask).sqrt()


def _max(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden.masked_fill(~mask[..., None], -torch.inf).amax(1)


def _weighted_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    # later tokens weigh more: what a decoder says last has seen most (Muennighoff 2022, arXiv:2202.08904)
    weights = torch.arange(1, hidden.shape[1] + 1, device=hidden.device) * mask  # (B, T)
    return (hidden * weights[..., None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1)


def _sum(hidden: Tensor, mask: Tensor) -> Tensor:
    if not torch.compiler.is_compiling() and bool(mask.all()):  # a graph that is traced must not depend on numbers
        return hidden.sum(1)
    return (hidden * mask[..., None]).sum(1)


def _count(mask: Tensor) -> Tensor:
    return mask.sum(1, keepdim=True).clamp(min=1)


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "mean": _mean,
    "cls": _first,
    "first": _first,
    "max": _max,
    "last": _last,
    "mean-sqrt": _mean_sqrt,
    "weighted-mean": _weighted_mean,
}
