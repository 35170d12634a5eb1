"""Stochastic gradient descent, plain and averaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nlptools.configs import Training
from nlptools.training.engine.optimizers import Optimizer

if TYPE_CHECKING:
    from nlptools.training.engine.weights import Weights


class SGD(Optimizer):
    """Gradient descent without momentum. Matrices decay by the learning rate times `weight_decay`, biases and norms do not."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], weight_decay: float = 0.0) -> None:
        self.parameters, self.weight_decay, self.steps = parameters, weight_decay, 0

    @classmethod
    def from_options(cls, weights: Weights[object], run: Training) -> SGD:
        """See `FromOptions`."""
        return cls(weights.parameters, run.weight_decay)

    @torch.no_grad()
    def step(self, rate: float, scale: float = 1.0, factors: Mapping[str, float] | None = None) -> None:
        """See `Optimizer`."""
        self.steps += 1
        groups: dict[float, list[Tensor]] = {}
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                groups.setdefault(1.0 if factors is None else factors.get(name, 1.0), []).append(parameter)
        for factor, parameters in groups.items():
            matrices = [p for p in parameters if p.dim() >= 2]
            if self.weight_decay and matrices:
                torch._foreach_mul_(matrices, 1 - rate * factor * self.weight_decay)
            gradients = [p.grad for p in parameters if p.grad is not None]
            torch._foreach_add_(parameters, gradients, alpha=-rate * factor * scale)

    def state(self) -> dict[str, Tensor]:
        """Nothing: the steps are counted elsewhere."""
        return {}

    def restore(self, tensors: dict[str, Tensor], steps: int) -> None:
        """See `Optimizer`."""
        self.steps = steps


class AveragedSGD(SGD):
    """NT-ASGD: gradient descent, with averages of the weights from the step on at which the loss stops falling.

    Merity, Keskar & Socher 2018, "Regularizing and optimizing LSTM language models" (arXiv:1708.02182, algorithm 1):
    averaging begins once a validation is worse than the best one more than `patience` validations before it. The mean is
    over the weights after each update since then; it is validated and saved instead of the last weights.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], weight_decay: float = 0.0, patience: int = 5) -> None:
        super().__init__(parameters, weight_decay)
        self.patience = patience
        self.losses: list[float] = []  # of all validations before averaging
        self.count = 0  # weights in the averages
        self.other: dict[str, Tensor] = {}  # the averages; or the last weights, while the model has the averages

    @classmethod
    def from_options(cls, weights: Weights[object], run: Training) -> AveragedSGD:
        """See `FromOptions`."""
        return cls(weights.parameters, run.weight_decay, run.asgd_patience)

    @torch.no_grad()
    def step(self, rate: float, scale: float = 1.0, factors: Mapping[str, float] | None = None) -> None:
        """See `Optimizer`."""
        super().step(rate, scale, factors)
        if self.other:
            self.count += 1
            current: list[Tensor] = [self.parameters[name] for name in self.other]
            torch._foreach_lerp_(list(self.other.values()), current, 1 / self.count)

    @torch.no_grad()
    def validated(self, loss: float) -> None:
        """See `Optimizer`; averaging may begin here."""
        if self.other:
            return
        before = self.losses[: len(self.losses) - self.patience]
        if len(self.losses) > self.patience and loss > min(before):
            # the first update replaces this copy: its share is 1 / 1
            self.other = {n: p.detach().clone() for n, p in self.parameters.items() if p.requires_grad}
        self.losses.append(loss)

    @torch.no_grad()
    def swap(self) -> bool:
        """See `Optimizer`."""
        for name, tensor in self.other.items():
            kept = self.parameters[name].detach().clone()
            self.parameters[name].copy_(tensor)
            tensor.copy_(kept)
        return bool(self.other)

    def state(self) -> dict[str, Tensor]:
        """The last weights, which training continues from, and the losses of validations."""
        out = {f"optimizer.weight.{name}": tensor for name, tensor in self.other.items()}
        out["optimizer.count"] = torch.tensor(self.count)
        if self.losses:
            out["optimizer.losses"] = torch.tensor(self.losses, dtype=torch.float64)
        return out

    def restore(self, tensors: dict[str, Tensor], steps: int) -> None:
        """See `Optimizer`."""
        super().restore(tensors, steps)
        prefix = "optimizer.weight."
        stored = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        self.other = {name: tensor.to(self.parameters[name], copy=True) for name, tensor in stored.items()}
        self.count = int(tensors["optimizer.count"])
        self.losses = tensors["optimizer.losses"].tolist() if "optimizer.losses" in tensors else []
