"""Muon: gradient descent with orthogonal steps for matrices.

Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks" (kellerjordan.github.io/posts/muon).
Shapes: K matrices of one shape, R rows, C columns.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nlptools.configs import Training
from nlptools.training.engine.optimizers import AdamW, Optimizer

if TYPE_CHECKING:
    from nlptools.training.engine.weights import Weights

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the polynomial that draws singular values towards 1
_ITERATIONS = 5
_EPS = 1e-7


class Muon(Optimizer):
    """Momentum (Nesterov), made orthogonal by a Newton-Schulz iteration, for the matrices of hidden layers; AdamW for the rest.

    Steps are scaled by 0.2 sqrt(max(R, C)), as in Liu et al. 2025 (arXiv:2502.16982, section 2.2): their entries then have
    the usual root mean square of AdamW's steps, so that one learning rate and one weight decay serve both. Jordan's factor
    sqrt(max(1, R / C)) needs a separate learning rate. All weight decay is decoupled.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        matrices: frozenset[str],
        beta2: float = 0.95,
        weight_decay: float = 0.1,
        dtype: torch.dtype = torch.float32,
        momentum: float = 0.95,
    ) -> None:
        """`matrices`: names of the matrices with orthogonal steps; `dtype`: of the iteration; `beta2`: of AdamW."""
        self.parameters, self.weight_decay, self.dtype, self.momentum = parameters, weight_decay, dtype, momentum
        self.steps = 0
        self.rest = AdamW(parameters, beta2, weight_decay, without=matrices)
        self.means = {name: torch.zeros_like(p) for name, p in parameters.items() if name in matrices}

    @classmethod
    def from_options(cls, weights: Weights[object], run: Training) -> Muon:
        """See `FromOptions`."""
        matrices = hidden_matrices(weights.objective)
        return cls(weights.parameters, matrices, run.beta2, run.weight_decay, weights.dtype)

    @torch.no_grad()
    def step(self, rate: float, scale: float = 1.0, factors: Mapping[str, float] | None = None) -> None:
        """See `Optimizer`."""
        self.steps += 1
        self.rest.step(rate, scale, factors)
        groups: dict[torch.Size, list[tuple[str, nn.Parameter]]] = {}
        for name, parameter in self.parameters.items():
            if name in self.means and parameter.grad is not None:
                groups.setdefault(parameter.flatten(1).shape, []).append((name, parameter))
        for (rows, columns), chosen in groups.items():
            directions = []
            for name, parameter in chosen:
                assert parameter.grad is not None
                gradient = parameter.grad * scale
                mean = self.means[name].lerp_(gradient, 1 - self.momentum)
                directions.append(gradient.lerp_(mean, self.momentum).flatten(1))
            steps = orthogonal(torch.stack(directions).to(self.dtype))
            for (name, parameter), step in zip(chosen, steps, strict=True):
                its_rate = rate * (1.0 if factors is None else factors.get(name, 1.0))
                parameter.mul_(1 - its_rate * self.weight_decay)
                parameter.sub_(step.view_as(parameter), alpha=its_rate * 0.2 * max(rows, columns) ** 0.5)

    def state(self) -> dict[str, Tensor]:
        """The momentum of hidden matrices, and the moments of all other parameters."""
        return {f"optimizer.momentum.{name}": tensor for name, tensor in self.means.items()} | self.rest.state()

    def restore(self, tensors: dict[str, Tensor], steps: int) -> None:
        """See `Optimizer`."""
        self.steps = steps
        self.rest.restore(tensors, steps)
        for name, tensor in self.means.items():
            tensor.copy_(tensors[f"optimizer.momentum.{name}"])


def orthogonal(matrices_KRC: Tensor) -> Tensor:
    """Matrices with nearly the same singular vectors as `matrices_KRC`, and singular values of about 0.7 to 1.2, (K, R, C)."""
    x = matrices_KRC
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / x.float().norm(dim=(1, 2), keepdim=True).clamp(min=_EPS).to(x.dtype)  # no singular value is above 1
    x = _by_gram(x) if _prefers_gram(x) else _by_products(x)
    return x.mT if tall else x


def _by_products(x_KRC: Tensor) -> Tensor:
    """The Newton-Schulz iteration on the matrices themselves: 5 (2 R R C + R R R) multiplications and additions a matrix."""
    a, b, c = _COEFFICIENTS
    for _ in range(_ITERATIONS):
        gram = x_KRC @ x_KRC.mT
        x_KRC = torch.baddbmm(x_KRC, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x_KRC, beta=a)
    return x_KRC


def _by_gram(x_KRC: Tensor) -> Tensor:
    """The same iteration on `x x^T`; its polynomials multiply `x` once at the end: 2 R R C + 17 R R R a matrix."""
    a, b, c = _COEFFICIENTS
    gram = x_KRC @ x_KRC.mT
    factors: list[Tensor] = []  # symmetric polynomials of the first Gram matrix: their order does not matter
    for _ in range(_ITERATIONS):
        if factors:
            gram = factors[-1] @ gram @ factors[-1]
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        factor.diagonal(dim1=1, dim2=2).add_(a)
        factors.append(factor)
    return functools.reduce(torch.matmul, factors) @ x_KRC


def _prefers_gram(x_KRC: Tensor) -> bool:
    """Whether `_by_gram` is faster and as exact: matrices at least twice as wide as high, in float32.

    Errors of the Gram matrix grow some 10 times in each iteration: harmless from 1e-7 on, but not from the 4e-3 of bfloat16.
    """
    return x_KRC.dtype == torch.float32 and x_KRC.shape[2] >= 2 * x_KRC.shape[1]


def hidden_matrices(module: nn.Module) -> frozenset[str]:
    """The parameters that Muon updates: weights with two dimensions or more inside numbered layers (`nn.ModuleList`).

    Embeddings and output heads are excluded, wherever they are.
    """
    names = {name for name, p in module.named_parameters() if p.requires_grad and p.dim() >= 2}
    names = {name for name in names if any(part.isdigit() for part in name.split("."))}
    for name, part in module.named_modules():
        if isinstance(part, nn.Embedding):
            names -= {f"{name}.{weight}" for weight, _ in part.named_parameters()}
    return frozenset(n for n in names if not n.startswith("model.output.") and not n.endswith("bias"))
