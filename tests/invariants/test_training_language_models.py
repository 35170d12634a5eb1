"""Laws of training that hold for every language model in the registry."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import each_value, this_month
from tiny_models import LANGUAGE_MODELS, tiny

from nlptools.batches.windows import ContiguousStreams, ShuffledWindows
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.models import registry
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.loop import fit
from nlptools.training.engine.steps import Fit
from nlptools.training.objectives import CausalLM

BACKEND = Backend(torch.device("cpu"))
RUN = Training(output="", steps=12, batch_size=4, lr=1e-2, warmup=0, save_every="never", valid_every="4")
architectures = pytest.mark.parametrize("arch", LANGUAGE_MODELS)


@pytest.fixture
def data(tmp_path: Path) -> Corpus:
    return corpus(tmp_path, np.random.default_rng(0).integers(2, 50, 400))


def corpus(directory: Path, ids: np.ndarray) -> Corpus:
    return Corpus(directory / "ids", ids.astype("uint16"), TextCounts(tokens=len(ids) - 1), "")


def source(arch: str, data: Corpus, batch_size: int = 4) -> Any:
    kind = ContiguousStreams if registry.model_class(arch).streams else ShuffledWindows
    return kind(data, 8, batch_size, seed=1)


def begin(arch: str, data: Corpus, run: Training = RUN) -> Fit:
    objective = CausalLM(tiny(arch))
    torch.manual_seed(9)
    state = Fit(objective, source(arch, data, run.batch_size), BACKEND, run, None)
    state.objective.train()
    return state


def trained(arch: str, data: Corpus, run: Training, checkpoints: Checkpoints | None = None) -> dict[str, Any]:
    """The weights after a run; its steps are random by seed 4."""
    model = tiny(arch, hidden_dropout=0.2)
    torch.manual_seed(4)
    fit(CausalLM(model), source(arch, data), BACKEND, replace(run, schedule="constant"), checkpoints=checkpoints)
    return dict(model.state_dict())


@pytest.mark.sampled(3)
@architectures
def test_accumulated_batches_equal_one_large_batch(arch: str, data: Corpus) -> None:
    """Also with batches that hold different numbers of targets, where a mean of means goes wrong."""
    small, large = begin(arch, data, replace(RUN, batch_size=2, accumulate=2)), begin(arch, data)
    if small.objective.model.streams:
        small.source = large.source  # streams of 2 are not halves of streams of 4

    def halves() -> Any:
        for batch in source(arch, data, 4):
            cut = np.where(np.arange(8) < 3, batch.targets[2:], -1)
            yield replace(batch, ids=batch.ids[:2], targets=batch.targets[:2])
            yield replace(batch, ids=batch.ids[2:], targets=cut)

    def wholes() -> Any:
        for batch in source(arch, data, 4):
            cut = np.where(np.arange(8) < 3, batch.targets[2:], -1)
            yield replace(batch, targets=np.concatenate([batch.targets[:2], cut]))

    small.batches, large.batches = halves(), wholes()
    a, b = small.step(), large.step()
    assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
    assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-4)
    assert a["targets"] == b["targets"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("arch", "stop_at"), each_value(LANGUAGE_MODELS, [1, 4, 7, 11]))
def test_stopped_and_continued_is_never_stopped(arch: str, data: Corpus, tmp_path: Path, stop_at: int) -> None:
    """Bit for bit: weights, with dropout and any state that is carried from batch to batch."""
    whole = trained(arch, data, RUN, Checkpoints(tmp_path / "whole", keep=2))
    trained(arch, data, replace(RUN, steps=stop_at), Checkpoints(tmp_path / "parts", keep=2))
    parts = trained(arch, data, RUN, Checkpoints(tmp_path / "parts", keep=2))
    for name, tensor in whole.items():
        assert torch.equal(tensor, parts[name]), name


@pytest.mark.sampled(3)
@architectures
def test_the_same_seed_gives_the_same_weights(arch: str, data: Corpus) -> None:
    first, second = trained(arch, data, RUN), trained(arch, data, RUN)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    before = tiny(arch).state_dict()
    assert not any(torch.equal(tensor, before[name]) for name, tensor in first.items()), "every weight learns"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("arch", this_month(LANGUAGE_MODELS, 4))
def test_a_tiny_model_learns_ten_lines_by_heart(arch: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    text = corpus(tmp_path, np.concatenate([[1], *([*rng.integers(2, 50, 9), 1] for _ in range(10))]))
    run = replace(RUN, steps=300, lr=1e-2, batch_size=4, weight_decay=0.0)
    objective = CausalLM(tiny(arch, num_hidden_layers=1))
    objective.model.initialize()
    state = Fit(objective, source(arch, text, 4), BACKEND, run, None)
    losses = [state.step()["loss"]]
    while len(losses) < 300 and max(losses[-5:]) >= 0.5:
        losses.append(state.step()["loss"])
    assert max(losses[-5:]) < 0.5 < losses[0], losses[-1]
