"""The convolutional language model beside PyTorch's own convolution, and how far it sees."""

from __future__ import annotations

import torch
from tiny_models import tiny
from torch.nn import functional as F

from nlptools.configs.architectures.convolution import ConvolutionOptions
from nlptools.models.language.convolution import ConvolutionLM, ConvolutionLMConfig


def ids(rows: int, length: int) -> torch.Tensor:
    return torch.randint(2, 50, (rows, length), generator=torch.Generator().manual_seed(0))


@torch.inference_mode()
def test_it_is_the_published_stack_of_gated_convolutions() -> None:
    model, x = tiny("convolution"), ids(2, 12)
    h = model.token_embedding(x).transpose(1, 2)
    for layer in model.convolutions:
        kernel = layer.linear.weight.view(64, 3, 32).transpose(1, 2)
        linear, gate = F.conv1d(F.pad(h, (2, 0)), kernel, layer.linear.bias).chunk(2, 1)
        h = (linear * gate.sigmoid() + h) / 2**0.5
    assert torch.allclose(model(x)[0], h.transpose(1, 2), atol=1e-4)


@torch.inference_mode()
def test_layers_see_their_kernels_and_no_further() -> None:
    model, x = tiny("convolution", num_hidden_layers=3, kernel_size=4), ids(1, 30)
    other = x.clone()
    other[:, 5] = 2 + (x[:, 5] - 1) % 48
    changed = (model(x)[0] != model(other)[0]).any(-1).flatten().nonzero().flatten()
    assert changed.tolist() == list(range(5, 5 + 1 + 3 * 3))


def test_a_new_model_keeps_the_variance_of_its_embeddings() -> None:
    torch.manual_seed(0)
    model = ConvolutionLM(ConvolutionLMConfig(1000, 128, 6))
    model.initialize()
    layers = model.eval().states(torch.randint(0, 1000, (8, 64))).layers
    variances = [float(layer.detach().var()) for layer in layers]
    assert all(0.008 < variance < 0.012 for variance in variances), variances


def test_sizes_from_options() -> None:
    options = ConvolutionOptions(tokenizer="t", hidden=64, kernel=5, dropout=0.2)
    config = ConvolutionLMConfig.from_options(options, 100)
    assert (config.kernel_size, config.hidden_dropout, config.embedding_dropout) == (5, 0.2, 0.2)
