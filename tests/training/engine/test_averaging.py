"""The mean of the last checkpoints: what it is made of, when it is taken, and that stopping does not change it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from nlptools.batches.windows import ShuffledWindows
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.metrics.criterion import Criterion
from nlptools.training.engine.averaging import mean_weights
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.log import Log
from nlptools.training.engine.loop import RunResult, fit
from nlptools.training.objectives import CausalLM

BACKEND = Backend(torch.device("cpu"))
AVERAGED = Training(
    output="",
    average=3,
    steps=18,
    batch_size=4,
    lr=1e-2,
    warmup=0,
    schedule="constant",
    save_every="never",
    valid_every="4",
    log_every="1",
)


@pytest.fixture
def data(tmp_path: Path) -> Corpus:
    ids = np.random.default_rng(0).integers(2, 50, 400).astype("uint16")
    return Corpus(tmp_path / "ids", ids, TextCounts(tokens=399), "")


def source(data: Corpus) -> ShuffledWindows:
    return ShuffledWindows(data, 8, 4, seed=1)


def save(checkpoints: Checkpoints, step: int, values: list[float]) -> None:
    weights = {"w": torch.tensor(values), "count": torch.tensor(step)}
    checkpoints.save(step, weights, {"s": torch.zeros(1)}, {}, held=range(100))


def test_the_mean_is_summed_in_double_precision(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step, values in ((1, [1e8, 1.0]), (2, [1.0, 2.0]), (3, [-1e8, 6.0])):
        save(checkpoints, step, values)
    mean, steps = mean_weights(checkpoints, [1, 2, 3])
    assert steps == (1, 2, 3) and mean["w"].dtype == torch.float32 and mean["count"] == 3
    assert mean["w"].tolist() == pytest.approx([1 / 3, 3.0])  # in float32, 1e8 + 1 - 1e8 is 0


def test_a_damaged_checkpoint_is_left_out_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3):
        save(checkpoints, step, [float(step)])
    file = tmp_path / "checkpoints/step-000002/weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    mean, steps = mean_weights(checkpoints, [1, 2, 3])
    assert steps == (1, 3) and mean["w"].item() == 2.0
    assert "step 2 is not averaged" in capsys.readouterr().err


class Measured:
    """A validation that gives the next of some losses, and remembers the weights it has seen."""

    def __init__(self, losses: list[float]) -> None:
        self.losses, self.seen = iter(losses), list[dict[str, torch.Tensor]]()

    def __call__(self, model: Any, stop: Callable[[], bool]) -> dict[str, float] | None:
        self.seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return {"loss": next(self.losses), "perplexity": 1.0}


# validations at 4, 8, 12, 16 and 18, then that of the mean of the last three
@pytest.mark.parametrize(("last", "taken"), [(2.9, True), (3.0, True), (3.1, False), (float("nan"), False)])
def test_the_mean_is_taken_where_it_is_no_worse(data: Corpus, tmp_path: Path, last: float, taken: bool) -> None:
    objective, measured = CausalLM(tiny("transformer")), Measured([5.0, 3.0, 4.0, 3.5, 3.2, last])
    checkpoints = Checkpoints(tmp_path, keep=2)
    result = fit(objective, source(data), BACKEND, AVERAGED, evaluate=measured, checkpoints=checkpoints)
    average = result.average
    assert result.finished and average is not None
    assert average.steps == (12, 16, 18) and average.taken == taken
    for name, tensor in average.weights.items():
        expected = torch.stack([weights[name].double() for weights in measured.seen[2:5]]).mean(0).float()
        assert torch.equal(tensor, expected) and torch.equal(tensor, measured.seen[5][name]), name
        assert torch.equal(objective.model.state_dict()[name], measured.seen[4][name]), "the last weights are put back"
    kept = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*"))
    assert kept == ["step-000008", "step-000012", "step-000016", "step-000018"]  # the best is kept, too
    assert result.progress.best == 3.0 and result.progress.best_step == 8


def test_higher_may_be_better_of_the_mean_as_well(data: Corpus, tmp_path: Path) -> None:
    scores = iter([1.0, 9.0, 2.0, 3.0, 4.0, 9.5])
    result = fit(CausalLM(tiny("transformer")), source(data), BACKEND, AVERAGED,
                 evaluate=lambda model, stop: {"loss": 1.0, "bleu": next(scores)}, checkpoints=Checkpoints(tmp_path, 2),
                 criterion=Criterion("bleu", higher_is_better=True))  # fmt: skip
    assert result.average is not None and result.average.taken and result.average.numbers["bleu"] == 9.5
    assert (result.progress.best, result.progress.best_step) == (9.0, 8)


class Interrupting(Log):
    """Sends the process a signal once it has reported a step."""

    def __init__(self, step: int) -> None:
        super().__init__(None, 18)
        self.step = step

    def train(self, step: int, row: Mapping[str, float]) -> None:
        if step == self.step:
            os.kill(os.getpid(), signal.SIGUSR1)


def part(data: Corpus, directory: Path, valid: bool, step: int, run: Any = AVERAGED) -> RunResult:
    """One part of a run: what the loss is depends on the weights; stopped after `step`, in a validation if there is one."""
    torch.manual_seed(4)
    objective = CausalLM(tiny("transformer", hidden_dropout=0.2))

    def evaluate(model: Any, stop: Callable[[], bool]) -> dict[str, float] | None:
        return None if stop() else {"loss": float(model.norm.weight.double().sum())}

    return fit(objective, source(data), BACKEND, run, evaluate=evaluate if valid else None,
               checkpoints=Checkpoints(directory, keep=2), log=Interrupting(step))  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("valid", [True, False])
@pytest.mark.parametrize("stops", [(6,), (8,), (12, 13), (3, 16, 18)])
def test_stopped_and_continued_the_mean_is_the_same(data: Corpus, tmp_path: Path, valid: bool, stops: Any) -> None:
    run = replace(AVERAGED, save_every="never" if valid else "4")
    whole = part(data, tmp_path / "whole", valid, -1, run).average
    assert whole is not None and whole.steps == (12, 16, 18) and bool(whole.numbers) == valid
    for step in stops:
        result = part(data, tmp_path / "parts", valid, step, run)
        assert result.progress.step == step and result.finished == (step == 18 and not valid)
    parts = part(data, tmp_path / "parts", valid, -1, run).average
    assert parts is not None and parts.steps == whole.steps and parts.numbers == whole.numbers
    for name, tensor in whole.weights.items():
        assert torch.equal(tensor, parts.weights[name]), name
    again = part(data, tmp_path / "parts", valid, -1, run).average
    assert again is not None and again.steps == whole.steps and again.numbers == whole.numbers


def test_a_signal_while_the_mean_is_measured_leaves_the_run_unfinished(data: Corpus, tmp_path: Path) -> None:
    calls = 0

    def evaluate(model: Any, stop: Callable[[], bool]) -> dict[str, float] | None:
        nonlocal calls
        calls += 1
        if calls == 6:
            os.kill(os.getpid(), signal.SIGUSR1)
        return None if stop() else {"loss": 1.0}

    def run() -> RunResult:
        return fit(CausalLM(tiny("transformer")), source(data), BACKEND, AVERAGED, evaluate=evaluate,
                   checkpoints=Checkpoints(tmp_path, 2))  # fmt: skip

    first, second = run(), run()
    assert (first.finished, first.stopped, first.average) == (False, "SIGUSR1", None)
    assert second.finished and second.average is not None and second.average.steps == (12, 16, 18)


def test_one_checkpoint_is_no_mean(data: Corpus, tmp_path: Path) -> None:
    run = replace(AVERAGED, steps=3)
    assert part(data, tmp_path / "a", True, -1, run).average is None
    assert part(data, tmp_path / "b", True, -1, replace(AVERAGED, average=1)).average is None
