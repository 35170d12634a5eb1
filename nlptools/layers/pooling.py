"""From the hidden states of all layers and positions to one vector: over the layers, then over time.

Weighted sum of layers: Peters et al. 2018 (ELMo, arXiv:1802.05365, equation 1). Sums and concatenations of some layers:
Devlin et al. 2019, section 5.3. Pooling over time: Reimers & Gurevych 2019 (arXiv:1908.10084).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nlptools.configs.layers import Layers
from nlptools.errors import UsageError


def choose(states: Sequence[Tensor], which: Layers, weights: Sequence[float] | None = None) -> Tensor:
    """Combine the layers that `which` names: (B, T, D), or (B, T, k*D) for k layers side by side, or (B, T, k, D) for all.

    Args:
        states: (B, T, D) each; the first is the output of the embeddings.
        weights: for a mix, one for each of `states`.

    Raises:
        UsageError: there are no such layers, or the numbers of weights and layers differ.
    """
    if which.kind == "mix":
        if weights is None or len(weights) != len(states):
            raise UsageError(
                f"the mix has {0 if weights is None else len(weights)} weights, but the model has {len(states)} layers"
            )
        return torch.stack([w * state for w, state in zip(weights, states, strict=True)]).sum(0)
    chosen = states[which.begin : which.end]
    if not chosen:
        raise UsageError(f"no such layers: the model has {len(states)}, numbered 0 to {len(states) - 1}")
    if which.kind == "all":
        return torch.stack(list(chosen), -2)
    if which.kind == "concat":
        return torch.cat(list(chosen), -1)
    total = chosen[0] if len(chosen) == 1 else torch.stack(list(chosen)).sum(0)
    return total / len(chosen) if which.kind == "mean" and len(chosen) > 1 else total


def pool(hidden: Tensor, mask: Tensor | None, kinds: Sequence[str]) -> Tensor:
    """(B, T, D), padded on the right -> (B, k*D), float32: the k kinds of pooling side by side.

    Args:
        mask: (B, T), True = real; None: no padding.
        kinds: names in `POOLINGS`.
    """
    if mask is None:
        mask = torch.ones(hidden.shape[:2], dtype=torch.bool, device=hidden.device)
    pooled = [POOLINGS[kind](hidden.float(), mask) for kind in kinds]
    return pooled[0] if len(pooled) == 1 else torch.cat(pooled, 1)


def _first(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden[:, 0]


def _last(hidden: Tensor, mask: Tensor) -> Tensor:
    last = mask.sum(1) - 1
    return hidden[torch.arange(len(hidden), device=hidden.device), last.clamp(min=0)]


def _mean(hidden: Tensor, mask: Tensor) -> Tensor:
    return _sum(hidden, mask) / _count(mask)


def _mean_sqrt(hidden: Tensor, mask: Tensor) -> Tensor:
    return _sum(hidden, mask) / _count(mask).sqrt()


def _max(hidden: Tensor, mask: Tensor) -> Tensor:
    return hidden.masked_fill(~mask[..., None], -torch.inf).amax(1)


def _weighted_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    # later tokens weigh more, because in a decoder they have seen more (Muennighoff 2022, arXiv:2202.08904)
    weights = torch.arange(1, hidden.shape[1] + 1, device=hidden.device) * mask  # (B, T)
    return (hidden * weights[..., None]).sum(1) / weights.sum(1, keepdim=True).clamp(min=1)


def _sum(hidden: Tensor, mask: Tensor) -> Tensor:
    if not torch.compiler.is_compiling() and bool(mask.all()):  # a traced graph must not depend on values
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
