"""Weighted sums of layers, in both published forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from nlptools.configs.layers import Mix, read_mix
from nlptools.errors import DataError, UsageError
from nlptools.layers.heads import LayerMix, mix_in

STATES = list(torch.randn(3, 2, 4, 5))
SOFTMAX = Mix((0.5, -1.0, 2.0), 1.5)
PLAIN = Mix((0.5, 0.25, 2.0))


@pytest.mark.parametrize("softmax", [False, True])
@pytest.mark.parametrize("mix", [SOFTMAX, PLAIN])
def test_a_mix_of_either_form_goes_through_a_file_into_a_layer_of_either_form(
    tmp_path: Path, softmax: bool, mix: Mix
) -> None:
    (tmp_path / "mix.json").write_text(json.dumps(mix.as_json()))
    read = read_mix(str(tmp_path / "mix.json"), 3)
    assert read == mix
    layer = LayerMix(3, softmax)
    layer.set(read)
    expected = sum(w * state for w, state in zip(mix.weights, STATES, strict=True))
    assert torch.allclose(layer(STATES), torch.as_tensor(expected), atol=1e-5)
    again = mix_in({f"a.{name}": tensor for name, tensor in layer.state_dict().items()}, "a")
    assert again is not None and again.weights == pytest.approx(mix.weights, rel=1e-5)
    assert (again.gamma is not None) == softmax and mix_in({}, "a") is None


def test_at_first_all_layers_weigh_the_same() -> None:
    for softmax in (False, True):
        assert torch.allclose(LayerMix(3, softmax).weights, torch.full((3,), 1 / 3))


def test_the_softmax_does_not_overflow() -> None:
    assert Mix((1000.0, 1000.0), 2.0).weights == [1.0, 1.0]


def test_a_softmax_has_positive_weights() -> None:
    with pytest.raises(UsageError, match="not positive"):
        LayerMix(2, softmax=True).set(Mix((0.0, 1.0)))


@pytest.mark.parametrize(
    "text", ['{"s": [1, 2]}', '{"s": 1, "gamma": 2}', '{"s": [1, NaN], "gamma": 1}', "3", "[true]"]
)
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "mix.json").write_text(text)
    with pytest.raises(DataError, match="expected"):
        read_mix(str(tmp_path / "mix.json"), 2)
