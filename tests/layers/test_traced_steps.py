"""Decoding steps traced in TorchScript: the same bits as by Python, or Python computes them."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import tiny_encoder_decoders
import torch
from tiny_encoder_decoders import BACKEND
from tiny_models import tiny
from torch import Tensor

from nlptools.configs.generation import Generate
from nlptools.inference.generation.decoding import generate
from nlptools.layers import traced_steps
from nlptools.layers.linear import frozen
from nlptools.layers.quantized import WEIGHTS, Rounding, quantize
from nlptools.layers.traced_steps import AFTER, MOST, TracedSteps

DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt": ("transformer", {}),
    "post-norm": ("transformer", {"post_norm": True}),
    "sinusoidal": ("transformer", {"positions": "sinusoidal"}),
    "llama": ("modern", {}),
    "one key": ("modern", {"num_key_value_heads": 1}),
    "qwen": ("modern", {"query_key_norm": True, "attention_bias": True, "tie_word_embeddings": False}),
    "neox": ("modern", {"parallel": True, "norm": "layer", "rotary_share": 0.5, "feed_forward": "plain"}),
    "olmo": ("modern", {"pre_norm": False, "output_norm": True, "query_key_norm": True, "joint_norms": True}),
    "gemma": ("modern", {"norm": "offset-rms", "embedding_scale": 3.0, "local_rope_theta": 100.0, "logit_cap": 5.0}),
    "capped": ("modern", {"score_cap": 5.0}),
    "window": ("modern", {"sliding_window": 12, "whole_layers": (1,)}),
    "dynamic": ("modern", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "max_position_embeddings": 20}),
}
TRANSLATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": ("transformer", {}),
    "pegasus": ("transformer-pre", {}),
    "bart": ("transformer", {"positions": "learned", "max_position_embeddings": 99, "embedding_norm": True}),
    "t5": ("transformer-pre", {"positions": "relative", "norm_class": "rms", "bias": False, "scale_attention": False}),
}
STEPS = AFTER + 14
LONGER = {"max_position_embeddings": 4 + STEPS}


def ready(model: Any, weights: str) -> Any:
    """For inference, with weights of this kind."""
    model = BACKEND.for_inference(model)
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if weights != "float":
        if not WEIGHTS[weights].available():
            pytest.skip("no such products for this processor")
        quantize(Rounding(model, model, model.output), weights)
    return model


def decoder(name: str, weights: str, **changes: Any) -> Any:
    arch, variant = DECODERS[name]
    return ready(tiny(arch, **{**LONGER, **variant, **changes}), weights)


def decoded(model: Any, ids: Tensor, steps: int = STEPS, capacity: int = 8) -> list[Tensor]:
    """The hidden states of a prompt of 4 tokens, and of steps after it; the buffers of the cache grow meanwhile."""
    with torch.inference_mode():
        hidden, state = model(ids[:, :4], model.start(len(ids), capacity))
        found = [hidden]
        for t in range(4, 4 + steps):
            hidden, state = model(ids[:, t : t + 1], state)
            found.append(hidden)
    return found


def both(model: Any, decode: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What is decoded with traced steps and by Python."""
    model.traced_steps.clear()
    traced = decode()
    assert model.traced_steps._traced or model.traced_steps._refused
    with monkeypatch.context() as patch:
        patch.setattr(traced_steps, "AFTER", 10**6)
        model.traced_steps._traced.clear()
        return traced, decode()


def some_ids(rows: int, seed: int = 1) -> Tensor:
    return torch.randint(2, 50, (rows, 4 + STEPS), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("weights", ["float", *WEIGHTS])
@pytest.mark.parametrize("name", DECODERS)
def test_traced_steps_have_the_bits_of_python(name: str, weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, model = some_ids(3), decoder(name, weights)
    steps = 14 if name == "dynamic" else STEPS  # its context is shorter
    monkeypatch.setattr(traced_steps, "AFTER", 3)
    for rows in (ids[:1], ids):
        found, wanted = both(model, lambda rows=rows: decoded(model, rows, steps), monkeypatch)  # type: ignore[misc]
        assert bool(model.traced_steps._refused) == (name == "capped")
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.mark.parametrize("weights", ["float", *WEIGHTS])
@pytest.mark.parametrize("name", DECODERS)
def test_each_row_of_a_ragged_batch_has_the_bits_of_its_own(
    name: str, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # PyTorch has another exp for numbers that remain after whole registers: of 32 numbers with AVX-512
    registers = {"intermediate_size": 64} if DECODERS[name][0] == "modern" else {}
    ids, model = some_ids(4), decoder(name, weights, **registers)
    steps = 10 if name == "dynamic" else 20
    own = [3, 5, 5, 2]
    real = torch.arange(5) >= 5 - torch.tensor(own)[:, None]
    monkeypatch.setattr(traced_steps, "AFTER", 3)

    def rows(batch: Tensor, prompt: int, mask: Tensor | None) -> Tensor:
        with torch.inference_mode():
            _, state = model(batch[:, :prompt], model.start(len(batch), 6), mask)
            found = []
            for t in range(prompt, prompt + steps):
                hidden, state = model(batch[:, t : t + 1], state)
                found.append(hidden)
        return torch.cat(found, 1)

    found, wanted = both(model, lambda: rows(ids, 5, real), monkeypatch)
    assert torch.equal(found, wanted)
    if name != "capped" and weights != "int8":  # which have other last digits for one row
        for i, length in enumerate(own):
            alone = rows(ids[i : i + 1, 5 - length :], length, None)
            assert torch.equal(found[i : i + 1], alone)


@pytest.mark.parametrize("name", [name for name in DECODERS if name != "capped"])
def test_drafts_have_the_bits_of_single_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, model = some_ids(1), decoder(name, "float")
    monkeypatch.setattr(traced_steps, "AFTER", 1)

    def drafted() -> Tensor:
        with torch.inference_mode():
            _, state = model(ids[:, :4], model.start(1, 8))
            state.stepwise = True
            found = []
            for begin in range(4, 16, 3):
                model(ids[:, begin + 6 : begin + 9], state)  # a draft that was wrong
                state.forget(3)
                hidden, state = model(ids[:, begin : begin + 3], state)
                found.append(hidden)
        return torch.cat(found, 1)

    found, wanted = both(model, drafted, monkeypatch)
    assert torch.equal(found, wanted)
    assert torch.equal(found, torch.cat(decoded(model, ids, steps=12)[1:], 1))


@pytest.mark.parametrize("weights", ["float", *WEIGHTS])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_traced_translation_has_the_bits_of_python(name: str, weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, variant = TRANSLATORS[name]
    model = ready(tiny_encoder_decoders.tiny(form, **variant), weights)
    monkeypatch.setattr(traced_steps, "AFTER", 2)
    ids = some_ids(2) % 28 + 1
    for lengths in ((5,), (9,), (3, 3), (7, 2)):
        source, real = tiny_encoder_decoders.source_batch(tiny_encoder_decoders.some_sources(*lengths))
        mask = None if bool(real.all()) else real

        def decode(source: Tensor = source, mask: Tensor | None = mask) -> list[Tensor]:
            found = []
            with torch.inference_mode():
                state = model.encode(source, mask, capacity=3)
                for t in range(9):
                    hidden, state = model(ids[: len(source), t : t + 1], state)
                    found.append(hidden)
                state = state.select(torch.arange(len(source)).repeat_interleave(2), 2)
                for t in range(9, 18):
                    hidden, state = model(ids[: len(source), t : t + 1].repeat(2, 1), state)
                    found.append(hidden)
            return found

        found, wanted = both(model, decode, monkeypatch)
        assert not model.traced_steps._refused
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_steps_are_traced_once_they_are_many() -> None:
    model, ids = decoder("llama", "float"), some_ids(MOST + 2)
    traced = model.traced_steps._traced
    decoded(model, ids[:1], steps=AFTER)
    assert not traced
    decoded(model, ids[:1], steps=1)
    assert len(traced) == 1 and all(isinstance(each, torch.jit.ScriptModule) for each in traced.values())
    for rows in range(1, MOST + 3):
        decoded(model, ids[:rows])
        assert len(traced) == min(rows, MOST)
    decoded(model, ids)  # more often than the rarest of them by now
    assert len(traced) == MOST and len(ids) in {kind[0][0] for kind in traced}


def test_what_cannot_be_traced_is_left_to_python() -> None:
    learns = BACKEND.for_inference(tiny("modern", **LONGER))
    for parameter in learns.parameters():
        parameter.requires_grad_(True)
    for model in (decoder("capped", "float"), learns):
        decoded(model, some_ids(1))
        assert not model.traced_steps._traced


@pytest.mark.parametrize("weights", ["float", "int8"])
def test_without_torchscript_python_computes_the_same(weights: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(function: object) -> object:
        raise RuntimeError("not supported")

    wanted = decoded(decoder("llama", weights), some_ids(2))
    monkeypatch.setattr(torch.jit, "script", missing)
    plain = decoder("llama", weights)
    assert all(torch.equal(a, b) for a, b in zip(decoded(plain, some_ids(2)), wanted, strict=True))
    assert not plain.traced_steps._traced


def test_traces_end_when_weights_change() -> None:
    ids, model = some_ids(1), decoder("llama", "float")
    before = decoded(model, ids)
    assert model.traced_steps._traced
    other = copy.deepcopy(model)
    assert not other.traced_steps._traced and isinstance(pickle.loads(pickle.dumps(TracedSteps())), TracedSteps)
    with frozen(model):
        pass
    assert not model.traced_steps._traced
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    changed = decoded(model, ids)
    assert not torch.equal(changed[-1], before[-1])
    quantize(Rounding(model, model, model.output), "int8")
    assert not model.traced_steps._traced


def test_samples_beams_and_batches_are_decoded_beside_traced_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model, rows = decoder("llama", "int8"), [[2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    for settings in (
        Generate(temperature=0, max_new_tokens=STEPS - 2),
        Generate(temperature=0, max_new_tokens=STEPS - 2, beam=3),
        Generate(temperature=1.0, max_new_tokens=STEPS - 2, num_samples=2),
    ):

        def decode(settings: Generate = settings) -> list[list[list[int]]]:
            torch.manual_seed(5)
            found = []
            for prompts in ([rows[0]], [rows[1]], rows):
                found += [[[*each.ids] for each in row] for row in generate(model, prompts, settings, BACKEND, eos=-1)]
            assert model.traced_steps._traced or traced_steps.AFTER > STEPS
            return found

        found, wanted = both(model, decode, monkeypatch)
        assert found == wanted
