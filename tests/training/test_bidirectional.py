"""Laws of training for a bidirectional model, as those of other language models in tests/invariants."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny

from nlptools.batches.spelled_texts import SpelledTexts
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.corpora.token_file import Corpus, TextCounts
from nlptools.inference.bidirectional import BothDirections
from nlptools.text.byte_spelling import spell
from nlptools.text.vocab import Vocab
from nlptools.training.bidirectional import BidirectionalLM
from nlptools.training.engine.checkpoint import Checkpoints
from nlptools.training.engine.loop import fit
from nlptools.training.engine.steps import Fit

BACKEND = Backend(torch.device("cpu"))
RUN = Training(output="", steps=8, batch_size=4, lr=1e-2, warmup=0, save_every="never", schedule="constant")
VOCAB = Vocab(["<unk>", "</s>", *(f"w{i}" for i in range(48))])
FURTHER = ["new", "words"]


def texts(count: int, length: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(2, 52, length) for _ in range(count)]


def source(count: int = 20, length: int = 9, batch_size: int = 4) -> SpelledTexts:
    ids = np.concatenate([[1], *([*text, 1] for text in texts(count, length))]).astype(np.uint32)
    corpus = Corpus(Path("ids"), ids, TextCounts(tokens=len(ids) - 1), "", spell(FURTHER))
    return SpelledTexts(corpus, VOCAB.tokens, 12, batch_size, eos=1, unk=0, seed=1)


def begin(batches: Any, sampled: int = 0, **changes: Any) -> Fit:
    model = tiny("elmo", **changes)
    torch.manual_seed(9)
    state = Fit(BidirectionalLM(model, sampled), source(), BACKEND, RUN, None)
    state.batches = iter(batches)
    state.objective.train()
    return state


def trained(steps: int, checkpoints: Checkpoints | None = None, sampled: int = 0) -> dict[str, Any]:
    model = tiny("elmo", hidden_dropout=0.2, layer_norm=True)
    torch.manual_seed(4)
    fit(BidirectionalLM(model, sampled), source(), BACKEND, replace(RUN, steps=steps), checkpoints=checkpoints)
    return dict(model.state_dict())


@pytest.mark.sampled(law="a stopped run goes on")
@pytest.mark.parametrize("sampled", [0, 10])
def test_stopped_and_continued_is_never_stopped(tmp_path: Path, sampled: int) -> None:
    whole = trained(8, Checkpoints(tmp_path / "whole", keep=2), sampled)
    trained(3, Checkpoints(tmp_path / "parts", keep=2), sampled)
    parts = trained(8, Checkpoints(tmp_path / "parts", keep=2), sampled)
    before = tiny("elmo", layer_norm=True).state_dict()
    for name, tensor in whole.items():
        assert torch.equal(tensor, parts[name]), name
        assert not torch.equal(tensor, before[name]), f"{name} learns"


def test_the_loss_is_that_of_scoring() -> None:
    """The mean over both directions, in whatever batches."""
    model = tiny("elmo")
    scores = BothDirections(model, VOCAB, 1, BACKEND)
    scores.extend(spell(FURTHER))
    with torch.inference_mode():
        scored = scores(texts(20, 9))
    assert scored is not None
    batches = source()
    iterator, objective = iter(batches), BidirectionalLM(model).eval()
    total = 0.0
    with torch.inference_mode():
        for _ in range(int(batches.batches_per_epoch)):
            arrays = objective.arrays(next(iterator))
            total += float(objective(*map(torch.from_numpy, arrays))["loss"])
    assert total == pytest.approx(-float(sum(each.sum() for each in scored)) / 2, rel=1e-4)


def test_two_batches_accumulated_are_one() -> None:
    whole = next(iter(source()))
    half = len(whole.lengths) // 2

    def part(rows: slice) -> Any:
        names = ("places", "lengths", "following", "preceding")
        return replace(whole, **{name: getattr(whole, name)[rows] for name in names})

    one = begin([whole])
    two = begin([part(slice(half)), part(slice(half, None))])
    two.run = replace(RUN, accumulate=2)
    a, b = one.step(), two.step()
    assert a["targets"] == b["targets"] == whole.num_targets
    assert a["loss"] == pytest.approx(b["loss"], rel=1e-5)
    assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-3)


@pytest.mark.sampled(1)
def test_a_tiny_model_learns_ten_lines_by_heart() -> None:
    state = begin(source(10), num_hidden_layers=1)
    losses = [state.step()["loss"] for _ in range(120)]
    assert losses[-1] < 1.0 < losses[0], losses[-1]


def test_an_adaptive_softmax_trains() -> None:
    state = begin(source(), adaptive_cutoffs=(10, 30))
    losses = [state.step()["loss"] for _ in range(20)]
    assert losses[-1] < losses[0]
