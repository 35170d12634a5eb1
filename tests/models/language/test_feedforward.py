"""The feed-forward language model beside the formula of its paper."""

from __future__ import annotations

import pytest
import torch
from tiny_models import tiny

from nlptools.configs.architectures.feedforward import FeedForwardOptions
from nlptools.errors import BundleError, UsageError
from nlptools.models.language.feedforward import FeedForwardLMConfig


@torch.inference_mode()
def test_one_layer_is_the_model_of_2003() -> None:
    """y = b + U (W x + tanh(d + H x)) for x, the embeddings of the last words side by side; U is the embedding (tied)."""
    model = tiny("feedforward", num_hidden_layers=1, far_tokens=0, direct=True)
    for bias in (model.local.bias, model.output_bias):
        bias.uniform_(-1, 1)
    text = [7, 3, 9, 30, 2]
    table = model.token_embedding.weight[:50]
    for t in range(5):
        before = [0.0 * table[0] if i < 0 else table[text[i]] for i in (t - 2, t - 1, t)]
        x = torch.cat(before)
        hidden = torch.tanh(model.local.bias + model.local.weight @ x) + model.direct.weight @ x
        expected = model.output_bias + table @ hidden
        found = model.output.logits(model(torch.tensor([text]))[0])[0, t]
        assert torch.allclose(found, expected, atol=1e-4)
    assert model.norm is None and len(model.layers) == 0


@torch.inference_mode()
def test_the_far_context_is_the_mean_of_the_embeddings_before_the_local_ones() -> None:
    model = tiny("feedforward")  # 3 local tokens, 5 far ones
    text = torch.arange(2, 14)
    x = model.token_embedding(text)
    local = torch.cat([torch.zeros(7, 32), x])
    real = torch.cat([torch.zeros(7, 1), torch.ones(12, 1)]).bool()
    means = model._far_means(local[None], real[None], 12)[0]
    for t in range(12):
        far = x[max(0, t - 7) : max(0, t - 2)]
        expected = far.mean(0) if len(far) else torch.zeros(32)
        assert torch.allclose(means[t], expected, atol=1e-5), t


@torch.inference_mode()
def test_only_the_local_and_the_far_tokens_matter() -> None:
    model, text = tiny("feedforward"), torch.arange(2, 20)[None]
    for distance, matters in ((0, True), (2, True), (3, True), (7, True), (8, False)):
        changed = text.clone()
        changed[0, 17 - distance] = 40
        same = torch.allclose(model(text)[0][0, 17], model(changed)[0][0, 17], atol=1e-5)
        assert same != matters, distance


def test_direct_connections_need_one_layer() -> None:
    with pytest.raises(UsageError, match="--direct requires --layers 1"):
        FeedForwardOptions("words", direct=True, layers=2).check()
    FeedForwardOptions("words", direct=True, layers=1).check()


def test_sizes_that_no_model_has() -> None:
    with pytest.raises(BundleError, match="far_tokens is -1, expected a whole number from 0"):
        FeedForwardLMConfig(50, 32, 1, far_tokens=-1)
    with pytest.raises(BundleError, match="local_tokens is 0, expected a whole number from 1"):
        FeedForwardLMConfig(50, 32, 1, local_tokens=0)
    with pytest.raises(BundleError, match="direct connections with 2 layers, expected one layer"):
        FeedForwardLMConfig(50, 32, 2, direct=True)


def test_long_n_grams_are_for_feed_forward_models() -> None:
    FeedForwardOptions("words", order=16).check()
    config = FeedForwardLMConfig.from_options(FeedForwardOptions("words", order=6, far=9, layers=2), 50)
    assert (config.local_tokens, config.far_tokens) == (5, 9)
