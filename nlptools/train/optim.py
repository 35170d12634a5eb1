"""Optimizer and learning-rate schedules."""

from __future__ import annotations

import math
from typing import Any

import torch

from nlptools.configs import Training


def adamw(module: torch.nn.Module, run: Training) -> torch.optim.Optimizer:
    """AdamW (Loshchilov & Hutter 2019) in one fused kernel; only matrices are decayed, not biases and norms."""
    matrices = [p for p in module.parameters() if p.dim() >= 2]
    others = [p for p in module.parameters() if p.dim() < 2]
    groups: list[dict[str, Any]] = [
        {"params": matrices, "weight_decay": run.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=run.lr, betas=(0.9, run.beta2), eps=1e-8, fused=True)


def learning_rate(step: int, total: int, run: Training) -> float:
    """The rate of optimizer step `step` (from 0) of `total`: linear warm-up, then what `run.schedule` says.

    `run.warmup` below 1 is a share of all steps. cosine and linear end at `run.min_lr` times the peak; trapezoid holds
    the peak and falls there over the last fifth (Hägele et al. 2024, arXiv:2405.18392).
    """
    warmup = math.ceil(run.warmup * total) if run.warmup < 1 else int(run.warmup)
    if step < warmup:
        return run.lr * (step + 1) / warmup
    done = min(1.0, (step - warmup) / max(1, total - warmup))
    if run.schedule == "constant":
        share = 1.0
    elif run.schedule == "linear":
        share = 1 - done
    elif run.schedule == "cosine":
        share = 0.5 * (1 + math.cos(math.pi * done))
    else:
        share = min(1.0, (1 - done) / 0.2)
    return run.lr * (run.min_lr + (1 - run.min_lr) * share)
