"""Initial weights."""

from __future__ import annotations

import torch
from torch import nn


@torch.no_grad()
def draw_as_bert(module: nn.Module, std: float) -> None:
    """Initialize a module as BERT does (Devlin et al. 2019): weights normal with standard deviation `std`, biases 0, norms 1."""
    for name, parameter in module.named_parameters():
        if parameter.dim() >= 2:
            parameter.normal_(std=std)
        else:
            parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
