"""Schemes of positions, and a new one that is a class and a row: GPT, its cache and its directory work with each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from tiny_models import tiny

from nlptools.errors import BundleError
from nlptools.layers.positions import POSITIONS, Positions, Rotary, Turn
from nlptools.models.huggingface import directories
from nlptools.models.language.gpt import GPTConfig


class Shifted(Positions):
    """Queries and keys with a number for each position added: a scheme that is a class and a row."""

    def __init__(self, length: int, hidden_size: int, head_size: int = 0) -> None:
        """`length` is not needed."""

    def turn(self, positions: torch.Tensor, lengths: torch.Tensor | int = 0) -> Turn | None:
        return partial(torch.add, (positions / 10).sin()[..., None, None, None])


@pytest.fixture(autouse=True)
def shifted() -> Iterator[None]:
    POSITIONS["shifted"] = Shifted
    yield
    del POSITIONS["shifted"]


schemes = pytest.mark.parametrize("scheme", ["learned", "sinusoidal", "none", "rotary", "shifted"])
IDS = torch.randint(0, 50, (3, 12), generator=torch.Generator().manual_seed(0))


@schemes
@torch.inference_mode()
def test_cached_steps_and_padded_rows_are_the_whole(scheme: str) -> None:
    model = tiny("transformer", positions=scheme)
    whole, _ = model(IDS)
    assert torch.allclose(model.states(IDS).last, whole, atol=1e-5)
    state, steps = model.start(3, 12), []
    for part in IDS.split([5, 1, 4, 1, 1], 1):
        hidden, state = model(part, state)
        steps.append(hidden)
    assert torch.allclose(torch.cat(steps, 1), whole, atol=1e-4)
    mask = torch.ones(3, 12, dtype=torch.bool)
    mask[1, :4] = False
    padded = IDS.clone()
    padded[1] = torch.cat([torch.zeros(4, dtype=torch.int64), IDS[1, :8]])
    hidden, state = model(padded, model.start(3, 13), mask)
    assert torch.allclose(hidden[1, 4:], whole[1, :8], atol=1e-4)
    hidden, _ = model(IDS[:, 8:9], state)
    assert torch.allclose(hidden[1, 0], whole[1, 8], atol=1e-4)


@torch.inference_mode()
def test_what_tells_positions_apart() -> None:
    same = torch.full((1, 6), 7)
    for scheme in ("learned", "sinusoidal", "none", "rotary"):
        hidden = tiny("transformer", positions=scheme)(same)[0][0]
        assert torch.allclose(hidden[0], hidden[5], atol=1e-4) == (scheme in ("none", "rotary")), scheme
    # attention from the last token to others depends on their distance alone
    rotary = Rotary(24, 32, 8)
    query_key = torch.randn(1, 1, 2, 4, 8)
    for shift in (0, 9):
        turn_query, turn_key = rotary.turn(torch.tensor([5 + shift])), rotary.turn(torch.tensor([2 + shift]))
        assert turn_query is not None and turn_key is not None
        score = (turn_query(query_key)[:, :, 0] * turn_key(query_key)[:, :, 1]).sum(-1)
        expected = score if not shift else expected  # noqa: F821  from the first round
        assert torch.allclose(score, expected, atol=1e-5)


@schemes
def test_a_configuration_survives_its_directory(scheme: str, tmp_path: Path) -> None:
    config = GPTConfig(50, 32, 2, 4, 24, positions=scheme)
    data = directories.config_to_hf("transformer", config)
    assert (data["model_type"] == "gpt2") == (scheme == "learned")
    assert directories.config_from_hf(data) == ("transformer", config)
    names = set(tiny("transformer", positions=scheme).state_dict())
    assert ("position_embedding.weight" in names) == (scheme == "learned")


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(
        BundleError, match="positions is 'rotated', expected one of learned, sinusoidal, none, rotary, shifted"
    ):
        GPTConfig(50, 32, 2, 4, 24, positions="rotated")
