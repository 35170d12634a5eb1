"""Checkpoint averaging: the mean of the last checkpoints of a run is often better than any single one.

Vaswani et al. 2017 (arXiv:1706.03762, section 6.1) average the last 5 checkpoints of a Transformer. Here the mean is
validated like any other weights, and saved only if it is no worse than the best single checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from nlptools import messages
from nlptools.errors import BundleError
from nlptools.training.engine.checkpoint import Checkpoints


@dataclass(frozen=True)
class Average:
    """The mean of the last checkpoints of a run."""

    steps: tuple[int, ...]
    weights: dict[str, Tensor]
    numbers: dict[str, float]  # results of its validation; empty without held-out data
    taken: bool  # whether the run saves the mean instead of its best single checkpoint


def mean_weights(checkpoints: Checkpoints, steps: Iterable[int]) -> tuple[dict[str, Tensor], tuple[int, ...]]:
    """The mean of the weights at `steps`, and the steps that it includes. Damaged checkpoints are skipped with a warning.

    Sums are float64, and the mean has the type of the weights. Tensors that are not floating point come from the last step.
    """
    sums: dict[str, Tensor] = {}
    last: dict[str, Tensor] = {}
    used = []
    for step in steps:
        try:
            last = checkpoints.weights(step)
        except BundleError as error:
            messages.warn(f"checkpoint of step {step} is not averaged ({error})")
            continue
        used.append(step)
        for name, tensor in last.items():
            if tensor.is_floating_point():
                sums[name] = sums[name].add_(tensor) if name in sums else tensor.to(torch.float64, copy=True)
    means = {name: (total / len(used)).to(last[name].dtype) for name, total in sums.items()}
    return {**last, **means}, tuple(used)
