"""Scores of a text as one stream: what a token sees, however the stream is cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import LANGUAGE_MODELS, TOY, tiny

from nlptools.compute.backend import Backend
from nlptools.corpora.token_file import TextCounts
from nlptools.inference import scoring
from nlptools.models import registry

EOS = 1
BACKEND = Backend(torch.device("cpu"))
architectures = pytest.mark.parametrize("arch", LANGUAGE_MODELS)


@pytest.fixture(autouse=True)
def toy_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.ARCHITECTURES, TOY.name, TOY)


def calm(arch: str) -> Any:
    """A tiny model with smaller weights: wide ones let a recurrent network amplify rounding errors over a long text."""
    model = tiny(arch)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.4 if parameter.dim() > 1 else 1.0)
    return model


def documents(*lengths: int) -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [np.append(rng.integers(2, 50, n - 1), EOS) for n in lengths]


def carried(model: Any, texts: list[np.ndarray], at_once: int, **how: Any) -> np.ndarray:
    scores = scoring.CarriedScores(model, BACKEND, start=EOS, **how)
    parts = [row for i in range(0, len(texts), at_once) for row in scores(texts[i : i + at_once]) or []]
    assert [len(part) for part in parts] == [len(text) for text in texts]
    return np.concatenate(parts)


@pytest.mark.sampled(9)
@architectures
@pytest.mark.parametrize("stride", [0, 5, 24, 99])
@torch.inference_mode()
def test_the_cuts_of_a_stream_change_nothing(arch: str, stride: int) -> None:
    model = calm(arch)
    texts = documents(3, 40, 1, 30, 7, 24, 2)
    whole = carried(model, [np.concatenate(texts)], 1, stride=stride)
    for at_once in (1, 3, 7):
        for batch_tokens in (1, 60, 4096):
            parts = carried(model, texts, at_once, stride=stride, batch_tokens=batch_tokens)
            assert np.allclose(parts, whole, atol=1e-4), (at_once, batch_tokens)


@pytest.mark.sampled(4)
@architectures
@torch.inference_mode()
def test_each_token_is_given_all_that_comes_before(arch: str) -> None:
    model = calm(arch)
    texts = documents(3, 40, 1, 30)
    tokens = np.concatenate([[EOS], *texts])
    stride, context = 7, model.max_context
    found = carried(model, texts, 1, stride=stride)
    for t in range(len(tokens) - 1):
        begin = 0
        if context is not None and t >= context:
            end = next(end for end in range(context, 1000, stride) if end > t)
            begin = end - context
        inputs = torch.from_numpy(tokens[begin : t + 1])[None]
        expected = model.output.logits(model(inputs)[0])[0, -1].log_softmax(-1)
        assert float(expected[tokens[t + 1]]) == pytest.approx(float(found[t]), abs=1e-4), t


@architectures
@torch.inference_mode()
def test_the_sum_of_a_stream_given_in_chunks(arch: str) -> None:
    model = calm(arch)
    texts = documents(3, 40, 30, 8)
    expected = carried(model, texts, 4).sum(dtype=np.float64)
    flat = np.concatenate(texts)
    chunks = [(part, TextCounts(tokens=len(part))) for part in np.split(flat, [10, 11, 50])]
    summed = scoring.score_stream(model, chunks, BACKEND, eos=EOS, carry=True)
    assert summed is not None
    assert summed[0] == pytest.approx(expected, abs=1e-3) and summed[1].tokens == 81
    apart = scoring.score_stream(model, chunks, BACKEND, eos=EOS)
    assert apart is not None and apart[0] != pytest.approx(expected, abs=1e-3)
    assert scoring.score_stream(model, chunks, BACKEND, eos=EOS, carry=True, stop=lambda: True) is None
    assert scoring.score_stream(model, chunks, BACKEND, eos=EOS, stop=lambda: True) is None


def test_nothing_to_score() -> None:
    scores = scoring.CarriedScores(tiny("lstm"), BACKEND, start=EOS)
    empty = np.zeros(0, np.int64)
    assert scores([]) == [] and [len(row) for row in scores([empty, empty]) or []] == [0, 0]
