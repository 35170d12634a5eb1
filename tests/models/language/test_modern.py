"""Decoders of the LLaMA family: windows, heads of keys, biases and untied matrices."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_models import tiny

from nlptools.configs.architectures.transformer import ModernOptions
from nlptools.errors import BundleError, UsageError
from nlptools.layers.rotary_scaling import rotary_rates
from nlptools.models.language.modern import ModernConfig, within

FORMS: dict[str, dict[str, Any]] = {
    "window": {"sliding_window": 3},
    "window from the second layer": {"sliding_window": 3, "whole_layers": (0,)},
    "norms": {"query_key_norm": True, "head_dim": 6},
    "biases": {"attention_bias": True, "output_bias": True, "feed_forward_bias": True},
    "norms after": {"pre_norm": False, "output_norm": True, "query_key_norm": True, "joint_norms": True},
    "norms before and after": {"output_norm": True, "norm": "offset-rms", "query_key_norm": True},
    "parallel": {"parallel": True, "norm": "layer", "feed_forward": "plain", "rotary_share": 0.5},
    "some layers without positions": {"unturned_layers": (1,)},
    "capped": {"score_cap": 2.0, "logit_cap": 3.0, "score_size": 5, "embedding_scale": 3.0},
    "two bases": {"local_rope_theta": 100.0, "sliding_window": 3, "whole_layers": (1,)},
    "untied": {"tie_word_embeddings": False, "num_key_value_heads": 1},
}
forms = pytest.mark.parametrize("form", FORMS)
IDS = torch.randint(0, 50, (3, 12), generator=torch.Generator().manual_seed(0))


@pytest.mark.sampled(4)
@forms
@torch.inference_mode()
def test_cached_steps_padded_rows_and_beams_are_the_whole(form: str) -> None:
    model = tiny("modern", **FORMS[form])
    whole, _ = model(IDS)
    assert torch.allclose(model.states(IDS).last, whole, atol=1e-5)
    mask = torch.ones(3, 10, dtype=torch.bool)
    mask[1, :4] = False
    ids = IDS[:, :10].clone()
    ids[1, 4:] = IDS[1, :6]
    hidden, state = model(ids, model.start(3, 11), mask)
    assert torch.allclose(hidden[0], whole[0, :10], atol=1e-4)
    assert torch.allclose(hidden[1, 4:], whole[1, :6], atol=1e-4)
    rows = torch.tensor([1, 1, 2, 2])  # two hypotheses each of the second and the third row
    state = state.select(rows, 2)
    texts = [[*IDS[1, :6].tolist()]] * 2 + [IDS[2, :10].tolist()] * 2
    for step, order in enumerate(([0, 1, 2, 3], [1, 0, 3, 3], [0, 0, 2, 3], [0, 1, 3, 2])):
        state, texts = state.select(torch.tensor(order), 2), [texts[row] for row in order]
        new = torch.tensor([[7 + step], [11 + step], [13], [17 + 2 * step]])
        hidden, state = model(new, state)
        texts = [[*text, int(token)] for text, token in zip(texts, new, strict=True)]
        for row, text in enumerate(texts):
            assert torch.allclose(hidden[row, 0], model(torch.tensor([text]))[0][0, -1], atol=1e-4), (step, row)


@torch.inference_mode()
def test_a_window_hides_what_lies_before_it() -> None:
    model = tiny("modern", num_hidden_layers=1, sliding_window=4)
    other = IDS.clone()
    other[:, 3] = (other[:, 3] + 1) % 50
    same = (model(IDS)[0] - model(other)[0]).abs().amax((0, 2)) < 1e-6
    assert same.tolist() == [True] * 3 + [False] * 4 + [True] * 5


def test_within_counts_what_a_position_may_attend_to() -> None:
    assert within(None, 2, 3, 5, torch.device("cpu")) is None
    band = within(None, 2, 3, 2, torch.device("cpu"))
    assert band is not None
    assert band[0, 0].int().tolist() == [[0, 1, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 1, 1]]
    attend = torch.tensor([[1, 0, 1, 1, 0, 1]], dtype=torch.bool)[None, None]
    near = within(attend, 5, 1, 2, torch.device("cpu"))
    assert near is not None and near[0, 0].int().tolist() == [[0, 0, 0, 1, 0, 1]]


@forms
def test_every_weight_learns(form: str) -> None:
    model = tiny("modern", **FORMS[form]).train()
    hidden, _ = model(IDS)
    model.output.summed_loss(hidden.flatten(0, 1), IDS.flatten()).backward()
    for name, parameter in model.named_parameters():
        # a bias of keys moves all scores of a query alike until positions turn it, so its gradient is merely small
        assert parameter.grad is not None and bool(parameter.grad.any()), name


def test_sizes_follow_from_options() -> None:
    options = ModernOptions(tokenizer="char", hidden=96, heads=4, key_value_heads=2, layers=2, context=64)
    config = ModernConfig.from_options(options, 100)
    assert (config.head_dim, config.num_key_value_heads, config.intermediate_size) == (24, 2, 256)
    assert config.tie_word_embeddings and not config.query_key_norm
    for changes, message in (
        ({"hidden": 60}, "--hidden 60 is not a multiple of 2 x --heads 4"),
        ({"key_value_heads": 3}, "--heads 4 is not a multiple of --key-value-heads 3"),
    ):
        with pytest.raises(UsageError, match=message):
            ModernConfig.from_options(replace(options, **changes), 100)


def test_scalings_of_rotary_positions() -> None:
    plain = rotary_rates(8, 10000.0).near
    assert torch.allclose(plain, torch.tensor([1.0, 0.1, 0.01, 0.001]))
    assert torch.allclose(rotary_rates(8, 10000.0, {"type": "linear", "factor": 4}).near, plain / 4)
    assert torch.equal(rotary_rates(8, 10000.0, {"type": "dynamic", "factor": 4}).near, plain)
    settings = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}
    slow = rotary_rates(8, 10000.0, {**settings, "original_max_position_embeddings": 512}).near
    assert torch.allclose(slow / plain, torch.tensor([1.0, 1.0, 1 / 8, 1 / 8])), (
        "512 positions: 81, 8.1, .81, .081 turns"
    )
    yarn = rotary_rates(8, 10000.0, {"rope_type": "yarn", "factor": 4.0}, 512)
    assert yarn.factor == pytest.approx(1.138629436)
    assert torch.allclose(yarn.near[-1], plain[-1] / 4) and yarn.near[0] == 1
    lists = {"short_factor": [1.0, 2.0, 4.0, 8.0], "long_factor": [2.0, 4.0, 8.0, 16.0]}
    long = rotary_rates(8, 10000.0, {"rope_type": "longrope", **lists, "original_max_position_embeddings": 128}, 512)
    assert long.factor == pytest.approx((1 + math.log(4) / math.log(128)) ** 0.5) and long.trained == 128
    assert long.far is not None and torch.allclose(long.near, 2 * long.far)
    for wrong, message in (
        ({"rope_type": "another"}, "'another' is not supported"),
        ({"rope_type": "llama3", "factor": 8}, "low_freq_factor is None"),
        ({"rope_type": "longrope", **lists, "long_factor": [1.0]}, "long_factor is not a list of 4 numbers"),
        ({"rope_type": "longrope", **lists, "short_factor": [1, 2, 3, 0]}, "short_factor is 0"),
    ):
        with pytest.raises(BundleError, match=message):
            rotary_rates(8, 10000.0, wrong)


@torch.inference_mode()
def test_longer_texts_than_the_trained_ones_have_other_positions() -> None:
    lists = {"short_factor": [1.0] * 4, "long_factor": [3.0] * 4, "original_max_position_embeddings": 8}
    model = tiny("modern", rope_scaling={"rope_type": "longrope", **lists})
    assert model.config.head_dim == 8
    short, long = IDS[:1, :8], IDS[:1]
    packed = torch.cat([short, long], 1)
    segments = torch.tensor([[0] * 8 + [1] * 12])
    expected = torch.cat([model(short)[0], model(long)[0]], 1)
    assert torch.allclose(model.packed(packed, segments), expected, atol=1e-5)
    assert not torch.allclose(model(short)[0], model(long)[0][:, :8], atol=1e-3)
    # in a cache, what counts is how far a text may grow: each row by itself, also where rows are joined
    ids = torch.stack([long[0, :10], torch.cat([torch.zeros(4, dtype=torch.int64), long[0, :6]])])
    mask = torch.tensor([[True] * 10, [False] * 4 + [True] * 6])
    hidden, state = model(ids, model.start(2, 12), mask)
    assert torch.allclose(hidden[0], model(long)[0][0, :10], atol=1e-4)
    assert torch.allclose(hidden[1, 4:], model(short)[0][0, :6], atol=1e-4)
    _, other = model(long[:, :10], model.start(1, 12))
    joined = state.select(torch.tensor([1])).join([other])
    hidden, _ = model(torch.stack([short[0, 6:7], long[0, 10:11]]), joined)
    assert torch.allclose(hidden[0, 0], model(short[:, :7])[0][0, 6], atol=1e-4)
    assert torch.allclose(hidden[1, 0], model(long)[0][0, 10], atol=1e-4)
