"""Decoding steps traced in TorchScript: the same bits as by Python, or Python computes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_encoder_decoders import BACKEND
from tiny_models import tiny
from torch import Tensor

from nlptools.compute.kernels import scripted
from nlptools.configs.generation import Generate
from nlptools.inference.generation.decoding import generate
from nlptools.layers import traced_steps
from nlptools.layers.quantized import WEIGHTS, Rounding, quantize
from nlptools.layers.traced_steps import AFTER, MOST

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt": ("transformer", {}),
    "post-norm": ("transformer", {"post_norm": True}),
    "sinusoidal": ("transformer", {"positions": "sinusoidal"}),
    "llama": ("modern", {}),
    "grouped": ("modern", {"num_attention_heads": 4, "num_key_value_heads": 2}),
    "qwen": ("modern", {"query_key_norm": True, "attention_bias": True, "tie_word_embeddings": False}),
    "neox": ("modern", {"parallel": True, "norm": "layer", "rotary_share": 0.5, "feed_forward": "plain"}),
    "olmo": ("modern", {"pre_norm": False, "output_norm": True, "query_key_norm": True, "joint_norms": True}),
    "gemma": ("modern", {"norm": "offset-rms", "embedding_scale": 3.0, "local_rope_theta": 100.0, "logit_cap": 5.0}),
    "capped": ("modern", {"score_cap": 5.0}),
    "window": ("modern", {"sliding_window": 6}),
    "dynamic": ("modern", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "max_position_embeddings": 64}),
}
STEPS = AFTER + 12


def rounded(name: str, weights: str, **changes: Any) -> Any:
    if not WEIGHTS[weights].available():
        pytest.skip("no such products for this processor")
    arch, variant = VARIANTS[name]
    model = BACKEND.for_inference(tiny(arch, **{"max_position_embeddings": 64, **variant, **changes}))
    quantize(Rounding(model, model, model.output, model.streams), weights)
    return model


def decoded(model: Any, ids: Tensor, steps: int = STEPS, capacity: int = 8) -> list[Tensor]:
    """The hidden states of a prompt of 4 tokens, and of steps after it; the buffers of the cache grow meanwhile."""
    with torch.inference_mode():
        hidden, state = model(ids[:, :4], model.start(len(ids), capacity))
        found = [hidden]
        for t in range(4, 4 + steps):
            hidden, state = model(ids[:, t : t + 1], state)
            found.append(hidden)
    return found


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", VARIANTS)
def test_traced_steps_have_the_bits_of_python(name: str, weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.randint(2, 50, (3, 4 + STEPS), generator=torch.Generator().manual_seed(1))
    model = rounded(name, weights)
    for rows in (ids[:1], ids):
        found = decoded(model, rows)
        with monkeypatch.context() as patch:
            patch.setattr(traced_steps, "MOST", 0)
            model._traced = None
            wanted = decoded(model, rows)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
        model._traced = None


@pytest.mark.skipif(not WEIGHTS["int8"].available(), reason="no products in 8 bits for this processor")
def test_steps_are_traced_once_they_are_many() -> None:
    ids = torch.randint(2, 50, (MOST + 2, 4 + STEPS), generator=torch.Generator().manual_seed(2))
    model = rounded("llama", "int8")
    decoded(model, ids[:1], steps=AFTER)
    assert not model._traced._traced
    decoded(model, ids[:1], steps=1)
    traced = model._traced._traced
    assert [*traced] == [1] and isinstance(traced[1], torch.jit.ScriptModule)
    for rows in range(1, MOST + 3):
        decoded(model, ids[:rows])
    assert len(traced) == MOST


@pytest.mark.skipif(not WEIGHTS["int8"].available(), reason="no products in 8 bits for this processor")
def test_what_cannot_be_traced_is_left_to_python() -> None:
    ids = torch.randint(2, 50, (1, 4 + STEPS), generator=torch.Generator().manual_seed(3))
    floats = BACKEND.for_inference(tiny("modern", max_position_embeddings=64))
    for model in (rounded("capped", "int8"), rounded("window", "int8", sliding_window=2), floats):
        decoded(model, ids)
        assert model._traced is None or not model._traced._traced


@pytest.mark.skipif(not WEIGHTS["int8"].available(), reason="no products in 8 bits for this processor")
def test_without_torchscript_python_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(function: object) -> object:
        raise RuntimeError("not supported")

    ids = torch.randint(2, 50, (2, 4 + STEPS), generator=torch.Generator().manual_seed(4))
    wanted = decoded(rounded("llama", "int8"), ids)
    monkeypatch.setattr(torch.jit, "script", missing)
    plain = rounded("llama", "int8")
    assert isinstance(plain.output.rounded.products, scripted.Products)
    assert all(torch.equal(a, b) for a, b in zip(decoded(plain, ids), wanted, strict=True))
    assert not plain._traced._traced


@pytest.mark.skipif(not WEIGHTS["int8"].available(), reason="no products in 8 bits for this processor")
def test_samples_beams_and_batches_are_decoded_beside_traced_steps() -> None:
    model = rounded("llama", "int8")
    rows = [[2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    for settings in (
        Generate(temperature=0, max_new_tokens=STEPS),
        Generate(temperature=0, max_new_tokens=STEPS, beam=3),
        Generate(temperature=1.0, max_new_tokens=STEPS, num_samples=2),
    ):
        torch.manual_seed(5)
        before = generate(model, rows, settings, BACKEND, eos=1)
        for row in rows * 2:
            generate(model, [row], Generate(temperature=0, max_new_tokens=STEPS), BACKEND, eos=-1)
        assert model._traced._traced
        torch.manual_seed(5)
        after = generate(model, rows, settings, BACKEND, eos=1)
        assert [[each.ids for each in row] for row in before] == [[each.ids for each in row] for row in after]
        model._traced = None
