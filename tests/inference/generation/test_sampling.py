"""Sampling draws from the distribution that its options describe."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import this_month

from nlptools.configs.generation import Generate
from nlptools.inference.generation.continuation import Continuation
from nlptools.inference.generation.decoding import best
from nlptools.inference.generation.sampling import sample


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def expected(logits: torch.Tensor, settings: Generate) -> np.ndarray:
    """The filters in words, for one row: temperature, top-n-sigma, typical, top-k, top-p, min-p."""
    scaled = logits.double().numpy() / settings.temperature
    if settings.top_n_sigma:
        scaled = np.where(scaled >= scaled.max() - settings.top_n_sigma * scaled.std(), scaled, -np.inf)
    p = softmax(scaled)
    if settings.typical < 1:
        surprisal = -np.log(np.maximum(p, 1e-300))
        distance = np.abs(surprisal - (p * surprisal).sum())
        order = np.argsort(distance, kind="stable")
        enough = int(np.searchsorted(np.cumsum(p[order]), settings.typical)) + 1
        p = np.where(np.isin(np.arange(len(p)), order[:enough]), p, 0.0)
        p /= p.sum()
    order = np.argsort(-p, kind="stable")
    keep = order[: settings.top_k or len(p)]
    mass = p[keep] / p[keep].sum() if settings.top_k else p[keep]
    keep = keep[np.cumsum(mass) - mass < settings.top_p]
    keep = keep[p[keep] >= settings.min_p * p[order[0]]]
    out = np.zeros_like(p)
    out[keep] = p[keep] / p[keep].sum()
    return out


SETTINGS = [
    Generate(),
    Generate(temperature=0.5),
    Generate(top_k=5),
    Generate(top_p=0.7),
    Generate(top_p=0.999),
    Generate(min_p=0.2),
    Generate(min_p=1e-4, temperature=1.5),
    Generate(top_k=20, top_p=0.8, min_p=0.05, temperature=0.9),
    Generate(top_p=0.0),
    Generate(typical=0.3),
    Generate(typical=0.9, temperature=0.7),
    Generate(top_n_sigma=1.0, temperature=2.0),
    Generate(top_n_sigma=2.0, typical=0.8, top_k=30, top_p=0.95, min_p=0.01),
]
# sorting 20,000 rows of many words takes seconds
CASES = [(40, settings) for settings in SETTINGS] + [(3000, settings) for settings in this_month(SETTINGS, 2)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("vocabulary", "settings"), CASES)
def test_every_token_comes_as_often_as_it_should(vocabulary: int, settings: Generate) -> None:
    torch.manual_seed(1)
    row = torch.randn(vocabulary) * 2
    want = expected(row, settings) if settings.top_p > 0 else np.eye(vocabulary)[int(row.argmax())]
    points = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000  # evenly over [0, 1)
    drawn = torch.cat([sample(row.expand(len(part), -1), settings, part) for part in points.split(2000)])
    found = np.bincount(drawn.numpy(), minlength=vocabulary) / len(points)
    assert np.abs(found - want).max() < 2e-4
    assert not found[want == 0].any()


def test_banned_tokens_count_for_no_deviation_and_no_entropy() -> None:
    torch.manual_seed(2)
    row = torch.randn(1, 50)
    banned = torch.cat([row, torch.full((1, 30), -torch.inf)], 1)
    points = (torch.arange(500, dtype=torch.float64) + 0.5) / 500
    for settings in (Generate(top_n_sigma=1.5), Generate(typical=0.6)):
        drawn = [sample(each.expand(500, -1), settings, points) for each in (row, banned)]
        assert torch.equal(*drawn)


def test_the_best_samples_come_first() -> None:
    drawn = [Continuation([1], [-3.0]), Continuation([2, 2], [-1.0, -2.0]), Continuation([3], [-1.0]), Continuation([])]
    assert [c.ids for c in best(drawn, 2)] == [[3], [2, 2]]
    assert best(drawn, 4) is drawn
