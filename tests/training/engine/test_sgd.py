"""Gradient descent by hand, and when its weights are averaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from nlptools import errors
from nlptools.configs import Training
from nlptools.training.engine.sgd import SGD, AveragedSGD


def moved(optimizer: SGD, module: nn.Module, rate: float, gradient: float) -> None:
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, gradient)
    optimizer.step(rate)


def test_a_step_by_hand() -> None:
    module = nn.ParameterDict({"w": nn.Parameter(torch.ones(2, 2)), "b": nn.Parameter(torch.ones(2))})
    optimizer = SGD(dict(module.named_parameters()), weight_decay=0.5)
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, 4.0)
    optimizer.step(0.1, scale=0.5, factors={"b": 2.0})
    assert module["w"][0, 0].item() == pytest.approx(0.95 - 0.2)  # only the matrix decays
    assert module["b"][0].item() == pytest.approx(1 - 0.4)
    assert optimizer.steps == 1 and optimizer.state() == {} and not optimizer.swap()


def test_averaging_begins_once_a_loss_is_worse_than_the_best_of_long_ago() -> None:
    module = nn.ParameterDict({"w": nn.Parameter(torch.zeros(1))})
    optimizer = AveragedSGD(dict(module.named_parameters()), patience=2)
    for loss in (5.0, 4.0, 4.5, 4.2):  # 4.2 is better than 5.0, the only one more than 2 before it
        optimizer.validated(loss)
        assert not optimizer.swap()
    optimizer.validated(4.1)  # worse than 4.0
    assert optimizer.swap() and optimizer.swap()
    for expected in (1.0, 1.5, 2.0):  # means of 1; 1, 2; 1, 2, 3
        moved(optimizer, module, 1.0, -1.0)
        last = module["w"].item()
        assert optimizer.swap() and module["w"].item() == expected
        assert optimizer.swap() and module["w"].item() == last
    optimizer.validated(0.1)  # averaging never ends
    assert optimizer.swap() and optimizer.swap()


def test_averages_are_those_of_torch() -> None:
    torch.manual_seed(0)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    mine = AveragedSGD(dict(ours.named_parameters()), patience=0)
    reference = torch.optim.ASGD(theirs.parameters(), lr=0.3, lambd=0.0, t0=0)
    for step in range(5):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        mine.step(0.3)
        reference.step()
        if step == 0:  # PyTorch's mean leaves out the weights after its first step
            mine.validated(1.0)
            mine.validated(2.0)
    assert mine.swap()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, reference.state[b]["ax"], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "asgd"}, "--optimizer asgd requires --valid"),
        ({"schedule": "plateau"}, "--schedule plateau requires --valid"),
        ({"optimizer": "sgd", "lr": 20.0}, "--lr 20 times --weight-decay 0.1 is 2, expected less than 1"),
        ({"optimizer": "asgd", "valid": "v", "average": 3}, "--average cannot be combined with --optimizer asgd"),
    ],
)
def test_options_that_cannot_be_combined(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match=message):
        Training(output=str(tmp_path), **options).check()  # type: ignore[arg-type]
