"""Caches and dynamic evaluation beside the published equations, one token at a time."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny
from torch.nn import functional as F

from nlptools.compute.backend import Backend
from nlptools.configs.scoring import Score
from nlptools.errors import Diverged
from nlptools.inference.adaptation import CacheGrid, DynamicScores, NeuralCache
from nlptools.inference.scoring import CarriedScores

EOS = 1
BACKEND = Backend(torch.device("cpu"))
architectures = pytest.mark.parametrize("arch", ["lstm", "transformer"])


def text(length: int = 90) -> np.ndarray:
    return np.random.default_rng(2).integers(2, 12, length)


def cut(scores: Any, ids: np.ndarray, size: int) -> np.ndarray:
    return np.concatenate([row for i in range(0, len(ids), size) for row in scores([ids[i : i + size]]) or []])


@pytest.mark.parametrize(("size", "weight", "theta"), [(1000, 0.3, 0.05), (7, 0.6, 0.3), (1, 0.2, 0.0), (50, 0.0, 1.0)])
@torch.inference_mode()
def test_a_cache(size: int, weight: float, theta: float) -> None:
    model, ids = tiny("lstm"), text(300)
    found = CarriedScores(model, BACKEND, start=EOS, measure=NeuralCache(size, weight, theta))([ids])
    assert found is not None
    hidden, _ = model(torch.from_numpy(np.append(EOS, ids[:-1]))[None], model.start(1, 0))
    probs = model.output.logits(hidden)[0].double().softmax(-1).numpy()
    h = hidden[0].double().numpy()
    for t, token in enumerate(ids):
        expected = probs[t, token]
        past = range(max(0, t - size), t)
        if past:
            terms = {i: math.exp(theta * h[t] @ h[i]) for i in past}
            cached = sum(p for i, p in terms.items() if ids[i] == token) / sum(terms.values())
            expected = (1 - weight) * expected + weight * cached
        assert found[0][t] == pytest.approx(math.log(expected), abs=1e-4), t
    again = cut(CarriedScores(model, BACKEND, start=EOS, measure=NeuralCache(size, weight, theta)), ids, 11)
    assert np.allclose(again, found[0], atol=1e-4)


@torch.inference_mode()
def test_the_columns_of_a_grid_are_caches_with_a_weight_of_one() -> None:
    model, ids = tiny("transformer"), text()
    grid = CarriedScores(model, BACKEND, start=EOS, measure=CacheGrid(20, [0.0, 0.2]))([ids])
    base = CarriedScores(model, BACKEND, start=EOS)([ids])
    assert grid is not None and base is not None and grid[0].shape == (90, 3)
    assert np.allclose(grid[0][:, 0], base[0], atol=1e-5) and grid[0][0].tolist() == [grid[0][0, 0]] * 3
    for column, theta in ((1, 0.0), (2, 0.2)):
        mixed = CarriedScores(model, BACKEND, start=EOS, measure=NeuralCache(20, 0.4, theta))([ids])
        assert mixed is not None
        expected = np.log(0.6 * np.exp(grid[0][:, 0]) + 0.4 * np.exp(grid[0][:, column]))
        assert np.allclose(mixed[0], expected, atol=1e-4)


def slow_dynamic(model: Any, ids: np.ndarray, rate: float, decay: float, segment: int) -> list[float]:
    """Dynamic evaluation, with a forward pass for each segment and nothing carried but what has to be."""
    model, first = copy.deepcopy(model), copy.deepcopy(model)
    model.requires_grad_(True)
    tokens, out = torch.from_numpy(np.append(EOS, ids)), []
    state = model.start(1, 0) if model.max_context is None else None
    for begin in range(0, len(ids), segment):
        end = begin + segment
        start = begin if state is not None else max(0, end - model.max_context)
        hidden, after = model(tokens[None, start : min(end, len(ids))], state)
        targets = tokens[begin + 1 : end + 1]
        logs = model.output.logits(hidden)[0, begin - start :].log_softmax(-1)
        out += logs[range(len(targets)), targets].tolist()
        if len(targets) < segment:
            break
        gradients = torch.autograd.grad(F.nll_loss(logs, targets), list(model.parameters()), allow_unused=True)
        with torch.no_grad():
            for weight, gradient, old in zip(model.parameters(), gradients, first.parameters(), strict=True):
                step = torch.zeros_like(weight) if gradient is None else gradient
                weight.copy_(weight - rate * step + decay * (old - weight))
        state = None if state is None else after.detach()
    return out


@pytest.mark.sampled(2)
@architectures
@pytest.mark.parametrize(("rate", "decay", "segment"), [(0.1, 0.0, 7), (0.2, 0.1, 20), (0.1, 0.0, 1), (0.0, 0.3, 5)])
def test_dynamic_evaluation(arch: str, rate: float, decay: float, segment: int) -> None:
    model, ids = tiny(arch), text()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    expected = slow_dynamic(model, ids, rate, decay, segment)
    how = {"start": EOS, "rate": rate, "decay": decay, "segment": segment}
    for size in (90, 8, 1):
        with torch.inference_mode():
            model(torch.from_numpy(ids[None, :20]))  # which may pack the weights
            found = cut(DynamicScores(BACKEND.for_inference(model), BACKEND, **how), ids, size)
        assert np.allclose(found, expected, atol=2e-4), size
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    if rate == 0 and arch == "lstm":
        plain = CarriedScores(model, BACKEND, start=EOS)([ids])
        assert plain is not None and np.allclose(plain[0], expected, atol=1e-4)


def test_a_segment_is_no_longer_than_the_context() -> None:
    model, ids = tiny("transformer"), text()
    long, full = (DynamicScores(model, BACKEND, start=EOS, rate=0.1, segment=n) for n in (99, 24))
    assert np.array_equal(cut(long, ids, 90), cut(full, ids, 90))


@architectures
def test_a_text_that_repeats_itself_is_learned(arch: str) -> None:
    model, ids = tiny(arch), np.tile(text(6), 40)
    found = cut(DynamicScores(model, BACKEND, start=EOS, rate=0.1, segment=6), ids, 240)
    cached = CarriedScores(model, BACKEND, start=EOS, measure=NeuralCache.of(Score(cache=20, cache_settings=".5,.3")))
    with torch.inference_mode():
        with_cache = cut(cached, ids, 240)
        base = cut(CarriedScores(model, BACKEND, start=EOS), ids, 240)
    assert found[120:].mean() > base[120:].mean() + 0.5 and with_cache[120:].mean() > base[120:].mean() + 0.5


def test_a_rate_that_is_too_large_is_an_error() -> None:
    scores = DynamicScores(tiny("transformer"), BACKEND, start=EOS, rate=1e4, segment=5)
    with pytest.raises(Diverged, match="--dynamic 10000: the weights are no longer finite"):
        cut(scores, text(), 90)


def test_nothing_to_score() -> None:
    scores = DynamicScores(tiny("lstm"), BACKEND, start=EOS, rate=0.1)
    empty = np.zeros(0, np.int64)
    assert scores([]) == [] and [len(row) for row in scores([empty, empty]) or []] == [0, 0]
    assert scores([text()], lambda: True) is None
