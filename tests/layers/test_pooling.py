"""Layers put together, and vectors pooled over time, by hand."""

from __future__ import annotations

import pytest
import torch

from nlptools.configs.layers import Layers, layers
from nlptools.errors import UsageError
from nlptools.layers.pooling import POOLINGS, choose, pool

STATES = [torch.full((1, 2, 3), float(10**i)) for i in range(4)]  # 1, 10, 100, 1000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("last", 1000),
        ("0", 1),
        ("-1", 1000),
        ("-2", 100),
        ("2", 100),
        ("sum:all", 1111),
        ("sum:-2:", 1100),
        ("sum:1:3", 110),
        ("mean:all", 1111 / 4),
        ("mean:-3:-1", 55),
        ("sum::1", 1),
    ],
)
def test_a_choice_of_layers(text: str, value: float) -> None:
    assert torch.allclose(choose(STATES, layers(text)), torch.full((1, 2, 3), float(value)))


def test_layers_side_by_side_and_weighted() -> None:
    both = choose(STATES, layers("concat:-2:"))
    assert both.shape == (1, 2, 6) and both[0, 0].tolist() == [100.0] * 3 + [1000.0] * 3
    assert choose(STATES, layers("mix:w.json"), [0.5, 0, 0, 2.0])[0, 0, 0] == 2000.5
    assert layers("mix:w.json") == Layers("mix", file="w.json")


@pytest.mark.parametrize("text", ["", "first", "sum", "sum:", "sum:1", "mean:a:b", "mix:", "1:2", "sum:1:2:3", "--1"])
def test_what_is_no_choice_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a choice of layers"):
        layers(text)


@pytest.mark.parametrize("text", ["4", "-5", "sum:4:", "mean:2:2"])
def test_layers_that_are_not_there_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no such layers: the model has 4, numbered 0 to 3"):
        choose(STATES, layers(text))


def test_a_mix_needs_a_weight_for_each_layer() -> None:
    with pytest.raises(UsageError, match="the mix has 3 weights, but the model has 4 layers"):
        choose(STATES, layers("mix:w.json"), [1, 2, 3])


def test_pooling_by_hand() -> None:
    hidden = torch.tensor([[[1.0, -4.0], [3.0, 2.0], [99.0, 99.0]], [[2.0, 2.0], [4.0, -2.0], [6.0, 3.0]]])
    mask = torch.tensor([[True, True, False], [True, True, True]])
    expected = {
        "mean": [[2.0, -1.0], [4.0, 1.0]],
        "cls": [[1.0, -4.0], [2.0, 2.0]],
        "first": [[1.0, -4.0], [2.0, 2.0]],
        "last": [[3.0, 2.0], [6.0, 3.0]],
        "max": [[3.0, 2.0], [6.0, 3.0]],
        "mean-sqrt": [[4 / 2**0.5, -2 / 2**0.5], [12 / 3**0.5, 3 / 3**0.5]],
        "weighted-mean": [[7 / 3, 0.0], [28 / 6, 7 / 6]],
    }
    assert set(expected) == set(POOLINGS)
    for kind, rows in expected.items():
        assert torch.allclose(pool(hidden, mask, [kind]), torch.tensor(rows), atol=1e-6), kind
    both = pool(hidden, mask, ["max", "mean"])
    assert torch.equal(both, torch.cat([pool(hidden, mask, ["max"]), pool(hidden, mask, ["mean"])], 1))


@pytest.mark.parametrize("kind", sorted(POOLINGS))
def test_padding_changes_no_vector(kind: str) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(2, 4, 3)
    padded = torch.cat([hidden, torch.full((2, 2, 3), 1e3)], 1)
    mask = torch.arange(6) < torch.tensor([[4], [4]])
    assert torch.allclose(pool(hidden, None, [kind]), pool(padded, mask, [kind]), atol=1e-6)
