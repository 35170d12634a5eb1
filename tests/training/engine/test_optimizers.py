"""Learning rates by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from nlptools.configs import Training
from nlptools.training.engine.optimizers import AdamW
from nlptools.training.engine.schedules import learning_rate
from nlptools.training.objective import Objective


def test_inverse_square_root_by_hand() -> None:
    """Linear up to the peak, then a half after four times as many steps; neither the end nor --min-lr matters."""
    run = Training(output="", lr=2.0, warmup=4, schedule="inverse-sqrt")
    rates = [learning_rate(step, 100, run) for step in range(400)]
    assert rates[:4] == [0.5, 1.0, 1.5, 2.0] and rates[15] == 1.0 and rates[399] == pytest.approx(0.2)
    assert rates[4] == pytest.approx(2 * (4 / 5) ** 0.5)
    assert rates == [learning_rate(step, 1000, replace(run, min_lr=0.9)) for step in range(400)]
    bare = [learning_rate(step, 100, replace(run, warmup=0)) for step in range(4)]
    assert bare == pytest.approx([2.0, 2**0.5, 2 / 3**0.5, 1.0])


def test_factors_make_parameters_learn_at_their_own_rates() -> None:
    """Adam's first step is the rate, whatever the gradient; with the factor 0 nothing moves, decay neither."""
    module = torch.nn.ParameterDict({name: torch.nn.Parameter(torch.ones(2, 2)) for name in "abcd"})
    module["d"].requires_grad_(False)
    optimizer = AdamW(module, beta2=0.999, weight_decay=0.0)
    assert set(optimizer.means) == {"a", "b", "c"}
    for name in "abc":
        module[name].grad = torch.full((2, 2), 3.0)
    optimizer.step(0.1, factors={"b": 0.5, "c": 0.0})
    moved = {name: 1 - float(module[name][0, 0].detach()) for name in "abcd"}
    assert moved == pytest.approx({"a": 0.1, "b": 0.05, "c": 0.0, "d": 0.0}, abs=1e-6)
    assert float(optimizer.means["c"][0, 0]) == pytest.approx(0.3)
    decayed = AdamW(module, beta2=0.999, weight_decay=0.5)
    before = module["c"].detach().clone()
    decayed.step(0.1, factors={"c": 0.0})
    assert torch.equal(module["c"], before)


def test_an_objective_is_trained_by_adamw_at_one_rate_unless_it_says_otherwise() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Objective(torch.nn.Linear(2, 1))  # type: ignore[abstract]

    class Smallest(Objective):
        def counts(self, batch: object) -> dict[str, float]:
            return {}

        def arrays(self, batch: object) -> tuple[np.ndarray, ...]:
            return ()

    objective = Smallest(torch.nn.Linear(2, 1))
    optimizer = objective.optimizer(Training(output="", beta2=0.9, weight_decay=0.3))
    assert isinstance(optimizer, AdamW) and (optimizer.beta2, optimizer.weight_decay) == (0.9, 0.3)
    assert objective.rates(1.5) is None and objective.carry() == {}
