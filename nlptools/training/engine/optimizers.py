"""The protocol of optimizers, and AdamW."""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor, nn

from nlptools.configs import Training
from nlptools.configs.optimizers import OPTIMIZERS

if TYPE_CHECKING:
    from nlptools.training.engine.weights import Weights


class Optimizer(ABC):
    """Updates parameters from their gradients."""

    steps: int  # updates so far

    @abstractmethod
    def step(self, rate: float, scale: float = 1.0, factors: Mapping[str, float] | None = None) -> None:
        """Update all parameters with the learning rate `rate`, from gradients multiplied by `scale`.

        `factors`: a factor on the learning rate by name of the parameter; 1 for names that are not in it.
        """

    def adjust_gradients(self) -> None:  # noqa: B027  most optimizers take them as computed
        """Change the gradients before they are measured and clipped."""

    def skip(self) -> None:  # noqa: B027  `grad` is cleared elsewhere
        """Forget gradients that are not in `grad` of parameters, when a step is skipped."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """The optimizer's state for a checkpoint; names begin with `optimizer.`."""

    @abstractmethod
    def restore(self, tensors: dict[str, Tensor], steps: int) -> None:
        """Load the `state()` after `steps` updates."""

    def validated(self, loss: float) -> None:  # noqa: B027  most optimizers need none
        """Takes the result of a validation; lower is better."""

    def swap(self) -> bool:
        """Exchange the model's weights with their averages, or back again; False: there are no averages.

        Validations measure the averages, and they are saved as the model. Checkpoints are written and read while the model
        has the averages.
        """
        return False


class FromOptions(Protocol):
    """The class of an optimizer that `--optimizer` names: it chooses its options itself."""

    def from_options(self, weights: Weights[object], run: Training) -> Optimizer:
        """The optimizer of `weights.parameters`."""


def of_options(weights: Weights[object], run: Training) -> Optimizer:
    """The optimizer `run.optimizer` of `weights.parameters`."""
    optimizer: FromOptions = pkgutil.resolve_name(OPTIMIZERS[run.optimizer].optimizer)
    return optimizer.from_options(weights, run)


@dataclass
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101), in one fused kernel per group.

    The kernel is PyTorch's. PyTorch's optimizer class is not used because it imports the compiler (seconds at every start)
    and cannot clip during the update: `scale` saves a pass over all gradients. Only matrices are decayed, not biases and
    norms.
    """

    parameters: Mapping[str, nn.Parameter]
    beta2: float = 0.95
    weight_decay: float = 0.1
    beta1: float = 0.9
    eps: float = 1e-8
    steps: int = 0
    means: dict[str, Tensor] = field(default_factory=dict)  # first moments of the gradients, by parameter
    squares: dict[str, Tensor] = field(default_factory=dict)  # second moments
    without: frozenset[str] = frozenset()  # names of parameters that something else updates

    @classmethod
    def from_options(cls, weights: Weights[object], run: Training) -> AdamW:
        """See `FromOptions`."""
        return cls(weights.parameters, run.beta2, run.weight_decay)

    def __post_init__(self) -> None:
        for name, parameter in self.parameters.items():
            if not parameter.requires_grad or name in self.without:
                continue
            self.means[name] = torch.zeros_like(parameter, dtype=torch.float32)
            self.squares[name] = torch.zeros_like(parameter, dtype=torch.float32)

    @torch.no_grad()
    def step(self, rate: float, scale: float = 1.0, factors: Mapping[str, float] | None = None) -> None:
        """See `Optimizer`. With a factor of 0 a parameter is unchanged, and only its moments are updated."""
        self.steps += 1
        groups: dict[tuple[float, float], list[tuple[str, nn.Parameter]]] = {}
        for name, parameter in self.parameters.items():
            if parameter.grad is not None and name not in self.without:
                decay = self.weight_decay if parameter.dim() >= 2 else 0.0
                factor = 1.0 if factors is None else factors.get(name, 1.0)
                groups.setdefault((decay, factor), []).append((name, parameter))
        for (decay, factor), chosen in groups.items():
            self._update(chosen, rate * factor, decay, scale)

    def _update(self, chosen: list[tuple[str, nn.Parameter]], rate: float, decay: float, scale: float) -> None:
        device = chosen[0][1].device
        # the kernel divides gradients by grad_scale; it takes scalars as tensors, and a step count for each parameter
        count = torch.full((), float(self.steps), device=device)
        divisor = None if scale == 1.0 else torch.full((), 1.0 / scale, device=device)
        torch._fused_adamw_(
            [p for _, p in chosen],
            [p.grad for _, p in chosen if p.grad is not None],
            [self.means[n] for n, _ in chosen],
            [self.squares[n] for n, _ in chosen],
            [],
            [count] * len(chosen),
            lr=rate,
            beta1=self.beta1,
            beta2=self.beta2,
            weight_decay=decay,
            eps=self.eps,
            amsgrad=False,
            maximize=False,
            grad_scale=divisor,
        )

    def state(self) -> dict[str, Tensor]:
        """All moments, for a checkpoint."""
        means = {f"optimizer.mean.{name}": tensor for name, tensor in self.means.items()}
        return {**means, **{f"optimizer.square.{name}": tensor for name, tensor in self.squares.items()}}

    def restore(self, tensors: dict[str, Tensor], steps: int) -> None:
        """Load the `state()` after `steps` updates."""
        self.steps = steps
        for name in self.means:
            self.means[name].copy_(tensors[f"optimizer.mean.{name}"])
            self.squares[name].copy_(tensors[f"optimizer.square.{name}"])
