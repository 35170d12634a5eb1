"""Models with weights in 8 or 16 bits compute nearly what they did, without the weights in floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_encoder_decoders import BACKEND
from tiny_models import tiny
from torch import nn

from nlptools.compute.kernels import fp16, int8
from nlptools.configs.generation import Generate
from nlptools.inference.generation.decoding import generate
from nlptools.inference.scoring import document_scores
from nlptools.layers.linear import Linear
from nlptools.layers.quantized import WEIGHTS, Rounding, quantize

pytestmark = pytest.mark.skipif(not int8.available(), reason="no products in 8 bits for this processor")
ARCHITECTURES = ["transformer", "modern", "transformer-xl", "lstm", "convolution", "feedforward"]


def of(model: Any) -> Rounding:
    return Rounding(model, model, model.output, model.streams)


ROWS = [np.random.default_rng(n).integers(2, 50, n + 3).tolist() for n in range(6)]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_log_probabilities_are_close(arch: str) -> None:
    plain, rounded = BACKEND.for_inference(tiny(arch)), BACKEND.for_inference(tiny(arch))
    rounding = of(rounded)
    assert rounding.possible
    quantize(rounding, "int8")
    assert all(module.weight.numel() == 0 for module in rounded.modules() if isinstance(module, Linear))
    with torch.inference_mode():
        before, after = (document_scores(model, ROWS, BACKEND, start=1) for model in (plain, rounded))
    assert before is not None and after is not None
    difference = np.concatenate(after) - np.concatenate(before)
    largest = int8.largest_code()
    assert largest is not None
    assert 0 < np.abs(difference).mean() < 32 / largest  # the weights of these models are wide


@pytest.mark.skipif(not fp16.available(), reason="no products in fp16 for this processor")
@torch.inference_mode()
def test_logits_with_weights_in_fp16_are_those_of_the_rounded_weights() -> None:
    ids = torch.tensor([ROWS[5]])
    for arch in ARCHITECTURES:
        plain, rounded = BACKEND.for_inference(tiny(arch)), BACKEND.for_inference(tiny(arch))
        before = plain.output.logits(plain(ids)[0])
        quantize(of(rounded), "fp16")
        for module in (each for each in plain.modules() if isinstance(each, Linear)):
            module.weight.data = module.weight.half().float()
            module._packed.clear()
        found, wanted = rounded.output.logits(rounded(ids)[0]), plain.output.logits(plain(ids)[0])
        assert not torch.equal(found, before), arch
        assert float((found - wanted).abs().max()) < 2e-3 * float(wanted.abs().max()), arch


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_greedy_search_does_not_depend_on_the_batch(arch: str, weights: str) -> None:
    if not WEIGHTS[weights].available():
        pytest.skip("no such products for this processor")
    model = BACKEND.for_inference(tiny(arch))
    quantize(of(model), weights)
    settings = Generate(temperature=0, max_new_tokens=8)
    together = generate(model, ROWS, settings, BACKEND, eos=1)
    for row, (found,) in zip(ROWS, together, strict=True):
        ((alone,),) = generate(model, [row], settings, BACKEND, eos=1)
        assert alone.ids == found.ids


def test_an_untied_head_is_one_of_the_layers() -> None:
    model = BACKEND.for_inference(tiny("modern", tie_word_embeddings=False))
    plain = BACKEND.for_inference(tiny("modern", tie_word_embeddings=False))
    quantize(of(model), "int8")
    assert model.output.rounded is model.output_matrix.rounded
    with torch.inference_mode():
        ids = torch.tensor([ROWS[3]])
        logits, wanted = (each.output.logits(each(ids)[0]) for each in (model, plain))
    assert float((logits - wanted).abs().mean()) < 0.05 * float(wanted.abs().mean()) + 0.05


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_all_but_the_embeddings_is_computed_in_float32(arch: str) -> None:
    wide, narrow = BACKEND.for_inference(tiny(arch)), BACKEND.for_inference(tiny(arch)).bfloat16()
    for model in (wide, narrow):
        quantize(of(model), "int8")
    types = {module.weight.dtype for module in narrow.modules() if isinstance(module, nn.Embedding)}
    assert types == {torch.float32 if narrow.streams else torch.bfloat16}
    ids = torch.tensor([ROWS[3]])
    with torch.inference_mode():
        hidden, wanted = narrow(ids)[0], wide(ids)[0]
        assert hidden.dtype == narrow.output.logits(hidden).dtype == torch.float32
    assert float((hidden - wanted).abs().mean()) < 0.05 * float(wanted.abs().mean())  # the weights were rounded twice
