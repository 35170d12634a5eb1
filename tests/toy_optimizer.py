"""The one file that a new optimizer takes: momentum that keeps the sign alone (Lion, Chen et al. 2023)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from nlptools.configs import Training
from nlptools.configs.optimizers import OptimizerRow
from nlptools.training.engine.optimizers import Optimizer
from nlptools.training.engine.weights import Weights

TOY = OptimizerRow("toy", "toy_optimizer:Lion", "the sign of the momentum")


class Lion(Optimizer):
    def __init__(self, parameters: Mapping[str, nn.Parameter], weight_decay: float) -> None:
        self.parameters = parameters
        self.momentum = {name: torch.zeros_like(p) for name, p in parameters.items()}
        self.weight_decay, self.steps = weight_decay, 0

    @classmethod
    def from_options(cls, weights: Weights, run: Training) -> Lion:
        return cls(weights.parameters, run.weight_decay)

    @torch.no_grad()
    def step(self, rate: float, scale: float = 1.0, factors: Mapping[str, float] | None = None) -> None:
        self.steps += 1
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                parameter.mul_(1 - rate * self.weight_decay)
                direction = self.momentum[name].lerp(parameter.grad * scale, 0.1).sign()
                parameter.sub_(direction, alpha=rate)
                self.momentum[name].lerp_(parameter.grad * scale, 0.01)

    def state(self) -> dict[str, Tensor]:
        return {f"optimizer.momentum.{name}": tensor for name, tensor in self.momentum.items()}

    def restore(self, tensors: dict[str, Tensor], steps: int) -> None:
        self.steps = steps
        for name, tensor in self.momentum.items():
            tensor.copy_(tensors[f"optimizer.momentum.{name}"])
