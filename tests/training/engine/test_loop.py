"""The training loop: what is minimised, stopped, continued, refused."""

from __future__ import annotations

import itertools
import math
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from nlptools import errors
from nlptools.batches.windows import ContiguousStreams, ShuffledWindows
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.configs.units import interval
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.training.engine import loop
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.loop import fit
from nlptools.training.engine.schedules import learning_rate
from nlptools.training.engine.steps import Fit
from nlptools.training.objectives import CausalLM

BACKEND = Backend(torch.device("cpu"))
RUN = Training(output="", steps=12, batch_size=4, lr=1e-2, warmup=0, save_every="never", valid_every="4")


@pytest.fixture
def data(tmp_path: Path) -> Corpus:
    ids = np.random.default_rng(0).integers(2, 50, 400).astype("uint16")
    return Corpus(tmp_path / "ids", ids, TextCounts(tokens=399), "")


def source(arch: str, data: Corpus, batch_size: int = 4) -> Any:
    return (ContiguousStreams if arch == "lstm" else ShuffledWindows)(data, 8, batch_size, seed=1)


def start(arch: str, data: Corpus, run: Training = RUN, backend: Backend = BACKEND, **sizes: Any) -> Fit:
    objective = CausalLM(tiny(arch, **sizes))
    torch.manual_seed(9)
    state = Fit(objective, source(arch, data, run.batch_size), backend, run, None)
    state.objective.train()
    return state


def test_bf16_keeps_float32_master_weights(data: Corpus) -> None:
    """Updates too small for bf16 add up in the masters and get through to the module that computes."""
    backend = Backend(torch.device("cpu"), precision="bf16")
    run = replace(RUN, steps=40, lr=1e-5, weight_decay=0.0, schedule="constant")
    exact, mixed = start("transformer", data, run), start("transformer", data, run, backend)
    before = {n: p.detach().clone() for n, p in mixed.objective.named_parameters()}
    for _ in range(40):
        a, b = exact.step()["loss"], mixed.step()["loss"]
        assert b == pytest.approx(a, rel=0.03)
    computing = dict(mixed.objective.named_parameters())
    assert computing.keys() == mixed.weights.parameters.keys()
    for name, master in mixed.weights.parameters.items():
        assert master.dtype == torch.float32 and computing[name].dtype == torch.bfloat16
        assert torch.equal(computing[name], master.bfloat16())
    moved = (mixed.weights.state_dict()["norm.weight"] - before["model.norm.weight"]).abs().max()
    # weights near 1 have a spacing of 2^-7 in bf16: none of these steps would have changed a bf16 weight
    assert 1e-5 < float(moved) < 2**-8


class Poisoned(CausalLM):
    """Its loss is multiplied by the next of `factors`."""

    factors: Iterator[float] = itertools.repeat(math.nan)

    def forward(self, *tensors: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": super().forward(*tensors)["loss"] * next(self.factors)}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_updates_that_are_not_finite_are_refused_and_the_run_ends(data: Corpus, bad: float, tmp_path: Path) -> None:
    objective = CausalLM(tiny("transformer"))
    before = {n: p.clone() for n, p in objective.named_parameters()}
    poisoned = Poisoned(objective.model)
    poisoned.factors = itertools.repeat(bad)
    with pytest.raises(errors.Diverged, match="step 8"):
        fit(poisoned, source("transformer", data), BACKEND, RUN)
    for name, parameter in objective.named_parameters():
        assert torch.equal(parameter, before[name])
    assert loop.MOST_BAD_STEPS == 8


def test_a_run_whose_every_update_was_skipped_has_diverged(data: Corpus, tmp_path: Path) -> None:
    short = replace(RUN, steps=3, valid_every="1")
    poisoned, checkpoints = Poisoned(tiny("transformer")), Checkpoints(tmp_path, keep=2)
    how: Any = {"checkpoints": checkpoints, "evaluate": lambda model, stop: {"loss": 1.0}}
    for _ in range(2):  # and again, from the checkpoint of the validation
        with pytest.raises(errors.Diverged, match="in each step, up to step 3"):
            fit(poisoned, source("transformer", data), BACKEND, short, **how)
    with pytest.raises(errors.Diverged, match="in each step, up to step 2"):
        fit(poisoned, source("transformer", data), BACKEND, replace(short, patience=1), evaluate=how["evaluate"])
    poisoned.factors = iter([math.nan, 1.0, math.nan])
    assert fit(poisoned, source("transformer", data), BACKEND, short).finished


@pytest.mark.parametrize(
    ("criterion", "sign"), [(LOSS, 1.0), (Criterion("loss", True), -1.0), (Criterion("accuracy", True), -1.0)]
)
def test_patience_keeps_the_best(data: Corpus, tmp_path: Path, criterion: Criterion, sign: float) -> None:
    values = iter([3.0, 2.0, 2.5, 2.6, 9.0])
    checkpoints = Checkpoints(tmp_path, keep=2)
    result = fit(CausalLM(tiny("transformer")), source("transformer", data), BACKEND,
                 replace(RUN, steps=100, patience=2), checkpoints=checkpoints,
                 evaluate=lambda model, stop: {"loss": 1.0, criterion.name: sign * next(values)},
                 criterion=criterion)  # fmt: skip
    assert result.finished and result.progress.step == 16 and result.progress.best == sign * 2.0
    assert result.progress.best_valid[criterion.name] == sign * 2.0
    assert result.progress.best_step == 8 and result.progress.held == [8] and checkpoints.path(8).is_dir()
    assert not checkpoints.path(4).is_dir(), "the best until step 8"


def test_a_best_checkpoint_that_is_missing_is_replaced(
    data: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    losses = iter([3.0, 2.0, 2.5, 3.5])

    def part(steps: int) -> Any:
        return fit(CausalLM(tiny("transformer")), source("transformer", data), BACKEND,
                   replace(RUN, schedule="constant", steps=steps), checkpoints=Checkpoints(tmp_path, 3),
                   evaluate=lambda model, stop: {"loss": next(losses)})  # fmt: skip

    part(12)
    shutil.rmtree(tmp_path / "checkpoints/step-000008")
    progress = part(16).progress
    assert (progress.best_step, progress.best, progress.best_valid) == (16, 3.5, {"loss": 3.5})
    assert "checkpoint of step 8, the best so far, is missing" in capsys.readouterr().err


def test_schedules() -> None:
    run = replace(RUN, lr=1.0, warmup=0.1, min_lr=0.1)
    for name in ("cosine", "linear", "trapezoid"):
        rates = [learning_rate(s, 100, replace(run, schedule=name)) for s in range(100)]
        assert rates[0] == pytest.approx(0.1) and rates[9] == pytest.approx(1.0) and max(rates) <= 1.0
        assert rates[10:] == sorted(rates[10:], reverse=True)
        assert rates[99] == pytest.approx(0.1, abs=0.06)
    held = [learning_rate(s, 100, replace(run, schedule="trapezoid")) for s in range(10, 80)]
    assert set(held) == {1.0}
    assert learning_rate(50, 100, replace(run, schedule="constant")) == 1.0
    assert learning_rate(0, 100, replace(run, warmup=4)) == 0.25


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "muon": {"optimizer": "muon", "schedule": "constant"},
    "sgd": {"optimizer": "sgd", "weight_decay": 0.01, "schedule": "plateau", "decay": 2.0},
    "asgd": {"optimizer": "asgd", "weight_decay": 0.0, "asgd_patience": 1, "schedule": "epoch-decay", "decay": 1.5},
}


class Stopping(ShuffledWindows):
    """Windows whose batch number `stop_at` comes with a signal to stop."""

    stop_at, taken = 0, 0

    def _batch(self, plan: np.ndarray, position: int, mine: slice) -> Any:
        self.taken += 1
        if self.taken == self.stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return super()._batch(plan, position, mine)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("stop_at", [3, 9])
@pytest.mark.parametrize(("name", "precision"), [("muon", "bf16"), ("sgd", "fp32"), ("asgd", "fp32"), ("asgd", "bf16")])
def test_every_optimizer_continues_bit_for_bit(
    data: Corpus, tmp_path: Path, name: str, precision: str, stop_at: int
) -> None:
    """Validations get worse from the second on: rates are cut, and averaging begins, before or after the stop."""
    backend = Backend(torch.device("cpu"), precision=precision)
    run = replace(RUN, valid="v", valid_every="2", **OPTIMIZERS[name])

    def part(directory: Path, losses: list[float], stop_at: int = 0) -> tuple[Any, dict[str, torch.Tensor]]:
        objective = CausalLM(tiny("transformer", hidden_dropout=0.2))
        torch.manual_seed(4)
        batches = Stopping(data, 8, 4, seed=1)
        batches.stop_at = stop_at

        def evaluate(model: Any, stop: Any) -> dict[str, float]:
            losses.append(float(sum(p.detach().double().abs().sum() for p in model.parameters())))
            return {"loss": 2.0 + len(losses)}

        result = fit(objective, batches, backend, run, checkpoints=Checkpoints(directory, 2), evaluate=evaluate)
        found = Checkpoints(directory, 2).load_last()
        assert found is not None
        return result, {**dict(objective.model.state_dict()), **{f"saved.{n}": t for n, t in found[0].items()}}

    whole_losses: list[float] = []
    parts_losses: list[float] = []
    _, whole = part(tmp_path / "whole", whole_losses)
    stopped, _ = part(tmp_path / "parts", parts_losses, stop_at)
    assert stopped.stopped == "SIGTERM" and stopped.progress.step == stop_at
    finished, parts = part(tmp_path / "parts", parts_losses)
    assert finished.finished and whole_losses == parts_losses and len(whole_losses) == 6
    assert finished.progress.cuts == (5 if name == "sgd" else 0)
    for key, tensor in whole.items():
        assert torch.equal(tensor, parts[key]), key
    averaged = not torch.equal(whole["norm.weight"], whole["saved.norm.weight"])
    assert averaged == (name == "asgd"), "checkpoints hold the average, the run goes on from the last weights"


def test_rates_that_are_divided() -> None:
    run = replace(RUN, lr=8.0, decay=2.0, decay_after=2, schedule="epoch-decay")
    rates = [learning_rate(9, 100, run, epoch=epoch) for epoch in (0.0, 0.9, 1.0, 1.9, 2.0, 2.9, 3.0)]
    assert rates == [8, 8, 8, 8, 4, 4, 2]
    run = replace(run, schedule="plateau", warmup=4)
    assert [learning_rate(9, 100, run, cuts=cuts) for cuts in (0, 1, 3)] == [8, 4, 1]
    assert learning_rate(0, 100, run, cuts=3) == 2.0, "the warm-up is never cut"


def test_intervals() -> None:
    assert interval("500").steps == 500 and interval("10m").seconds == 600 and interval("1e").epochs == 1
    assert interval("1h30m").seconds == 5400 and interval("never") == (None, None, None)
    for bad in ("0", "-1", "x", "5x", "", "0s", "1e5"):
        with pytest.raises(errors.UsageError):
            interval(bad)
