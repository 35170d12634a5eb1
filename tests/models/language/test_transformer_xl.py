"""Transformer-XL beside the equations of the paper, written out step by step."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from head_law import assert_head_agrees
from tiny_models import tiny
from torch import Tensor

from nlptools.configs.architectures.transformer_xl import TransformerXLOptions
from nlptools.errors import BundleError, UsageError
from nlptools.models.language.transformer_xl import TransformerXLConfig


def ids(rows: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(2, 50, (rows, length), generator=torch.Generator().manual_seed(seed))


def norm(x: Tensor) -> Tensor:
    """With the scale and shift that `initialize` sets."""
    return (x - x.mean()) / (x.var(correction=0) + 1e-5).sqrt()


def encoded(distance: int, size: int, clamp: int) -> Tensor:
    """Sines and cosines of a distance."""
    distance = min(distance, clamp) if clamp else distance
    rates = 1 / 10000 ** (torch.arange(0, size, 2) / size)
    return torch.cat([(distance * rates).sin(), (distance * rates).cos()])


def reference(model: Any, text: list[int], segment: int) -> Tensor:
    """Hidden states of a text in training, (T, D), position by position: section 3.3 of the paper."""
    w, config = {name: tensor.detach() for name, tensor in model.state_dict().items()}, model.config
    D, H, M = config.hidden_size, config.num_attention_heads, config.memory_length
    K = D // H
    hidden = [w["token_embedding.weight"][i] * D**0.5 for i in text]
    for layer in range(config.num_hidden_layers):
        name = f"blocks.{layer}.attention."
        key, value = w[name + "key_value.weight"].chunk(2)
        row = layer if config.biases_per_layer else 0
        u, v = w["content_bias"][row], w["distance_bias"][row]
        new, read = [], [norm(x) for x in hidden] if config.pre_norm else hidden
        for i, x in enumerate(hidden):
            first = max(0, i - M if config.same_length else i // segment * segment - M)
            q = (w[name + "query.weight"] @ read[i]).view(H, K)
            scores = []
            for j in range(first, i + 1):
                k = (key @ read[j]).view(H, K)
                r = (w[name + "distance.weight"] @ encoded(i - j, D, config.clamp_length)).view(H, K)
                scores.append((q * k + q * r + u * k + v * r).sum(1) / K**0.5)
            a = torch.stack(scores, 1).softmax(1)  # (H, S)
            values = torch.stack([(value @ read[j]).view(H, K) for j in range(first, i + 1)], 1)
            attended = w[name + "output.weight"] @ (a[..., None] * values).sum(1).reshape(D)
            x = x + attended if config.pre_norm else norm(x + attended)
            inner = (w[f"blocks.{layer}.feed_forward.up.weight"] @ (norm(x) if config.pre_norm else x)).relu()
            x = x + w[f"blocks.{layer}.feed_forward.down.weight"] @ inner
            new.append(x if config.pre_norm else norm(x))
        hidden = new
    return torch.stack([norm(x) for x in hidden] if config.pre_norm else hidden)


SETTINGS = [{}, {"clamp_length": 4}, {"same_length": True}, {"biases_per_layer": True}, {"memory_length": 0},
            {"memory_length": 50}, {"pre_norm": True}, {"same_length": True, "clamp_length": 3, "memory_length": 3}]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_training_computes_the_equations_of_the_paper(settings: dict[str, Any]) -> None:
    model, x = tiny("transformer-xl", **settings).train(), ids(2, 20)
    with torch.no_grad():
        model.content_bias.normal_()
        model.distance_bias.normal_()
        state, parts = model.start(2, 0), []
        for begin in range(0, 20, 5):
            hidden, state = model(x[:, begin : begin + 5], state)
            parts.append(hidden)
            assert state.memory.shape[-2] == min(begin + 5, model.config.memory_length)
    for row, text in zip(torch.cat(parts, 1), x.tolist(), strict=True):
        assert torch.allclose(row, reference(model, text, 5), atol=1e-4)


@pytest.mark.parametrize(("memory", "pre_norm"), [(0, False), (3, False), (8, True), (200, False)])
@torch.inference_mode()
def test_inference_sees_the_same_number_of_positions_however_the_text_is_cut(memory: int, pre_norm: bool) -> None:
    model, x = tiny("transformer-xl", inference_memory=memory, pre_norm=pre_norm), ids(2, 300)
    trained = replace(model.config, memory_length=memory, same_length=True)
    whole, parts = model(x)[0], []
    state = model.start(2, 0)
    for begin, end in pairwise((0, 1, 2, 10, 140, 141, 300)):
        hidden, state = model(x[:, begin:end], state)
        parts.append(hidden)
        assert state.memory.shape[-2] == min(end, memory)
    assert torch.allclose(torch.cat(parts, 1), whole, atol=1e-4)
    model.config = trained
    assert torch.allclose(whole[0, :25], reference(model, x[0, :25].tolist(), 5), atol=1e-4)
    other = x.clone()
    other[:, 0] = 2 + (x[:, 0] - 1) % 48
    first_difference = (model(other)[0] != whole).any(-1).any(0).nonzero().flatten()
    assert int(first_difference[-1]) <= 2 * memory, "two layers see as far as that"


def test_no_gradient_flows_into_the_memory() -> None:
    model, x = tiny("transformer-xl").train(), ids(1, 12)
    first, state = model(x[:, :6], model.start(1, 0))
    second, _ = model(x[:, 6:], state)
    assert not state.memory.requires_grad
    (gradient,) = torch.autograd.grad(second.sum(), first, allow_unused=True)
    assert gradient is None


def test_16_bits_are_close() -> None:
    model, x = tiny("transformer-xl"), ids(2, 30)
    with torch.inference_mode():
        whole = model(x)[0]
        state, parts = model.bfloat16().start(2, 0), []
        for begin, end in pairwise((0, 10, 11, 30)):
            hidden, state = model(x[:, begin:end], state)
            parts.append(hidden.float())
    assert torch.cosine_similarity(torch.cat(parts, 1), whole, dim=-1).min() > 0.98


def test_an_adaptive_softmax_in_place_of_the_tied_output() -> None:
    model, tied = tiny("transformer-xl", adaptive_cutoffs=[10, 30]), tiny("transformer-xl")
    x = ids(2, 8)
    hidden = model(x)[0]
    assert model.config.adaptive_cutoffs == (10, 30)
    assert torch.allclose(model.output.logits(hidden).exp().sum(-1), torch.ones(2, 8), atol=1e-5)
    own = {name for name, _ in model.named_parameters()} - {name for name, _ in tied.named_parameters()}
    assert own and all(name.startswith("output.") for name in own)
    assert_head_agrees(model.output, hidden.detach().flatten(0, 1))
    options = TransformerXLOptions(tokenizer="t", adaptive="20,50")
    options.check()
    assert TransformerXLConfig.from_options(options, 100).adaptive_cutoffs == (20, 50)
    with pytest.raises(UsageError, match="--adaptive 20,50: the vocabulary has 50 tokens"):
        TransformerXLConfig.from_options(options, 50)


def test_sizes_from_options() -> None:
    options = TransformerXLOptions(tokenizer="t", context=8, dropout=0.3, attention_dropout=0.1)
    config = TransformerXLConfig.from_options(options, 100)
    assert (config.memory_length, config.inference_memory) == (8, 15)
    assert (config.hidden_dropout, config.embedding_dropout, config.attention_dropout) == (0.3, 0.3, 0.1)
    config = TransformerXLConfig.from_options(replace(options, same_length=True, memory_length=3), 100)
    assert (config.memory_length, config.inference_memory) == (3, 3)
    with pytest.raises(UsageError, match="--hidden 30 is not an even multiple of --heads 4"):
        TransformerXLConfig.from_options(replace(options, hidden=30), 100)
    with pytest.raises(BundleError, match="memory_length is -1"):
        replace(config, memory_length=-1)
    with pytest.raises(BundleError, match="is odd"):
        replace(config, hidden_size=27, num_attention_heads=3)
