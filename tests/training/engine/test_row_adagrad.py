"""AdaGrad for rows of a table, against dense arithmetic."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from nlptools.compute.backend import Backend
from nlptools.compute.kernels.embedding_bag import PendingGradients, bag_means
from nlptools.training.engine.row_adagrad import RowAdaGrad

BACKEND = Backend(torch.device("cpu"))


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.output = nn.Linear(2, 1, bias=False)


def test_steps_by_hand() -> None:
    module, table = Tiny(), torch.zeros(3, 2)
    with torch.no_grad():
        module.output.weight.copy_(torch.tensor([[1.0, 2.0]]))
    pending = PendingGradients()
    optimizer = RowAdaGrad(dict(module.named_parameters()), table, pending, BACKEND)
    # two examples, the mean of their scores is what falls: row 1 stands in both, twice in the second
    hidden = bag_means(table, torch.tensor([0, 1, 1, 1]), torch.tensor([2, 2]), pending)
    (module.output(hidden).sum() / 2).backward()
    optimizer.step(0.5)
    # an example's own gradient is (1, 2), its mean square 2.5
    for row, uses in ((0, 1), (1, 3)):
        size = 0.5 / ((2.5 * uses) ** 0.5 + 0.1)
        assert table[row].tolist() == pytest.approx([-uses * size, -2 * uses * size])
    assert not table[2].any() and optimizer.steps == 1 and not pending.gradients
    assert module.output.weight.tolist() == [[1.0, 2.0]]  # all hidden states were zeros


def test_a_state_brings_everything_back() -> None:
    def go(optimizer: Any, table: torch.Tensor, module: Tiny, pending: PendingGradients) -> None:
        hidden = bag_means(table, torch.tensor([0, 1, 2]), torch.tensor([1, 2]), pending)
        module.output.weight.grad = None
        module.output(hidden + 1).square().sum().backward()
        optimizer.step(0.1)

    torch.manual_seed(0)
    module, table, pending = Tiny(), torch.ones(3, 2), PendingGradients()
    first = RowAdaGrad(dict(module.named_parameters()), table, pending, BACKEND)
    go(first, table, module, pending)
    state = {name: tensor.clone() for name, tensor in first.state().items()}
    kept, weight = table.clone(), module.output.weight.detach().clone()
    go(first, table, module, pending)
    other, other_pending = Tiny(), PendingGradients()
    with torch.no_grad():
        other.output.weight.copy_(weight)
    second = RowAdaGrad(dict(other.named_parameters()), kept, other_pending, BACKEND)
    second.restore(state, 1)
    go(second, kept, other, other_pending)
    assert torch.equal(kept, table) and torch.equal(other.output.weight, module.output.weight) and second.steps == 2
