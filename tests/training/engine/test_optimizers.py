"""Learning rates by hand, and what an optimizer takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from toy_optimizer import TOY

from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.configs.architectures.recurrent import RNNOptions
from nlptools.configs.optimizers import OPTIMIZERS
from nlptools.files.artifacts import load_tensors
from nlptools.training.engine.optimizers import AdamW
from nlptools.training.engine.schedules import learning_rate
from nlptools.training.engine.weights import Weights
from nlptools.training.language_model import train_lm
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
    optimizer = AdamW(dict(module.named_parameters()), beta2=0.999, weight_decay=0.0)
    assert set(optimizer.means) == {"a", "b", "c"}
    for name in "abc":
        module[name].grad = torch.full((2, 2), 3.0)
    optimizer.step(0.1, factors={"b": 0.5, "c": 0.0})
    moved = {name: 1 - float(module[name][0, 0].detach()) for name in "abcd"}
    assert moved == pytest.approx({"a": 0.1, "b": 0.05, "c": 0.0, "d": 0.0}, abs=1e-6)
    assert float(optimizer.means["c"][0, 0]) == pytest.approx(0.3)
    decayed = AdamW(dict(module.named_parameters()), beta2=0.999, weight_decay=0.5)
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
    weights = Weights(objective, Backend(torch.device("cpu")))
    optimizer = objective.optimizer(Training(output="", beta2=0.9, weight_decay=0.3), weights)
    assert isinstance(optimizer, AdamW) and (optimizer.beta2, optimizer.weight_decay) == (0.9, 0.3)
    assert objective.rates(1.5) is None and not objective.continues(None) and objective.facts(None) == {}


def test_a_new_optimizer_is_one_file_and_one_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It trains, and a run that was stopped ends with the same weights, bit for bit."""
    monkeypatch.setitem(OPTIMIZERS, TOY.name, TOY)
    text, vocab = tmp_path / "text.txt", tmp_path / "vocab.tsv"
    text.write_text("the cat sees the dog\nthe dog sees the cat\n" * 8)
    vocab.write_text("".join(f"{token}\n" for token in ["<unk>", "<eos>", *sorted({*text.read_text()} - {"\n"})]))
    settings = RNNOptions(hidden=8, layers=1, context=8, tokenizer="char", vocab=str(vocab), dropout=0.1)
    run = Training(output="", optimizer="toy", batch_size=2, lr=0.02, schedule="constant")
    for name, steps in (("once", 6), ("twice", 3), ("twice", 6)):
        part = replace(run, output=str(tmp_path / name), steps=steps)
        train_lm([str(text)], settings, part, Compute(device="cpu", precision="fp32", threads=1))
    first, second = (load_tensors(tmp_path / name / "model.safetensors") for name in ("once", "twice"))
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    state = load_tensors(tmp_path / "twice/checkpoints/step-000006/state.safetensors")
    assert any(name.startswith("optimizer.momentum.") for name in state)
