"""A matrix shared by many steps: its gradients against finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from nlptools.compute.kernels.shared_matrix import SharedMatrix


def tensor(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def recurrence(x: Tensor, matrix: Tensor, base: Tensor) -> Tensor:
    """Three steps that feed on each other, each with the same matrix."""
    shared = SharedMatrix(matrix)
    for _ in range(3):
        x = shared(x, base).tanh()
    return x


@pytest.mark.parametrize("base", [(4,), (3, 4)])
def test_a_shared_matrix_has_the_gradients_of_differences(base: tuple[int, ...]) -> None:
    assert torch.autograd.gradcheck(recurrence, (tensor(3, 4), tensor(4, 4, seed=1), tensor(*base, seed=2)))


def test_a_shared_matrix_of_each_row_too() -> None:
    assert torch.autograd.gradcheck(recurrence, (tensor(2, 3, 4), tensor(2, 4, 4, seed=1), tensor(2, 1, 4, seed=2)))


def test_a_shared_matrix_counts_the_steps_that_the_loss_reaches_and_no_step_twice() -> None:
    x, matrix = tensor(3, 4), tensor(4, 4, seed=1)
    shared = SharedMatrix(matrix)
    first = shared(x)
    shared(first)  # nobody asks for it
    (expected,) = torch.autograd.grad((x @ matrix).square().sum(), matrix)
    for _ in range(2):
        (found,) = torch.autograd.grad(first.square().sum(), matrix, retain_graph=True)
        assert torch.allclose(found, expected)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        (again,) = torch.autograd.grad(first.square().sum(), x, create_graph=True)
        again.sum().backward()


def test_the_compiler_sees_plain_products(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for compiling in (False, True):
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda compiling=compiling: compiling)
        x, matrix, base = tensor(4, 5), tensor(5, 5, seed=1), tensor(5, seed=3)
        assert SharedMatrix(matrix).tracked != compiling
        out = recurrence(x, matrix, base)
        results.append([out, *torch.autograd.grad(out.square().sum(), (x, matrix, base))])
    for ours, theirs in zip(*results, strict=True):
        assert torch.allclose(ours, theirs)
