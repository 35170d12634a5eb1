"""Filters on the next token beside those of transformers, on random logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nlptools.configs.generation import Generate
from nlptools.inference.generation.sampling import sample

pytestmark = pytest.mark.reference


def kept(logits: torch.Tensor, settings: Generate) -> set[int]:
    """The tokens that can be drawn: those at 20,000 points evenly over the cumulative distribution."""
    points = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    return {id for part in points.split(10_000) for id in sample(logits.expand(len(part), -1), settings, part).tolist()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("settings", "name", "argument"),
    [
        (Generate(typical=0.5), "Typical", 0.5),
        (Generate(typical=0.9), "Typical", 0.9),
        (Generate(top_p=0.8), "TopP", 0.8),
        (Generate(top_k=7), "TopK", 7),
        (Generate(min_p=0.1), "MinP", 0.1),
    ],
)
def test_the_same_tokens_are_left(seed: int, settings: Generate, name: str, argument: Any) -> None:
    from transformers.generation import logits_process

    torch.manual_seed(seed)
    logits = torch.randn(1, 60)  # no token is so improbable that it falls between the points
    theirs = getattr(logits_process, f"{name}LogitsWarper")(argument)(
        torch.zeros(1, 0, dtype=torch.int64), logits.clone()
    )
    assert kept(logits, settings) == set((theirs[0] > -torch.inf).nonzero().flatten().tolist())


def test_the_same_repetition_penalty() -> None:
    from transformers.generation.logits_process import RepetitionPenaltyLogitsProcessor

    from nlptools.inference.generation.constraints import penalize

    torch.manual_seed(0)
    logits, seen = torch.randn(4, 30), torch.randint(0, 30, (4, 12))
    theirs = RepetitionPenaltyLogitsProcessor(1.7)(seen, logits.clone())
    torch.testing.assert_close(penalize(logits, seen.tolist(), 1.7), theirs)
