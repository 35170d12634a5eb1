"""Sampling draws from the distribution that its options describe."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nlptools.configs.generation import Generate
from nlptools.inference.generation.sampling import sample


def expected(logits: torch.Tensor, settings: Generate) -> np.ndarray:
    """The filters in words, for one row: temperature, top-k, top-p, min-p."""
    p = torch.softmax(logits.double() / settings.temperature, -1).numpy()
    order = np.argsort(-p, kind="stable")
    keep = order[: settings.top_k or len(p)]
    mass = p[keep] / p[keep].sum() if settings.top_k else p[keep]
    keep = keep[np.cumsum(mass) - mass < settings.top_p]
    keep = keep[p[keep] >= settings.min_p * p[order[0]]]
    out = np.zeros_like(p)
    out[keep] = p[keep] / p[keep].sum()
    return out


@pytest.mark.parametrize("vocabulary", [40, 3000])
@pytest.mark.parametrize(
    "settings",
    [
        Generate(),
        Generate(temperature=0.5),
        Generate(top_k=5),
        Generate(top_p=0.7),
        Generate(top_p=0.999),
        Generate(min_p=0.2),
        Generate(min_p=1e-4, temperature=1.5),
        Generate(top_k=20, top_p=0.8, min_p=0.05, temperature=0.9),
        Generate(top_p=0.0),
    ],
)
def test_every_token_comes_as_often_as_it_should(vocabulary: int, settings: Generate) -> None:
    torch.manual_seed(1)
    row = torch.randn(vocabulary) * 2
    want = expected(row, settings) if settings.top_p > 0 else np.eye(vocabulary)[int(row.argmax())]
    points = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000  # evenly over [0, 1)
    drawn = torch.cat([sample(row.expand(len(part), -1), settings, part) for part in points.split(2000)])
    found = np.bincount(drawn.numpy(), minlength=vocabulary) / len(points)
    assert np.abs(found - want).max() < 2e-4
    assert not found[want == 0].any()
