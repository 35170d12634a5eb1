"""On a CPU, a row of a batch has the numbers that it has alone, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Run, each_value, this_month
from tiny_models import tiny

from nlptools.compute.backend import Backend
from nlptools.compute.kernels.linear import by_onednn
from nlptools.configs.generation import Generate
from nlptools.inference import likelihoods, scoring
from nlptools.inference.generation import decoding
from nlptools.inference.token_details import TokenDetails
from nlptools.inference.words import Wanted

EOS = 1
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt": ("transformer", {}),
    "one head": ("transformer", {"num_attention_heads": 1, "positions": "sinusoidal"}),
    "llama": ("modern", {}),
    "window": ("modern", {"sliding_window": 4, "whole_layers": (0,)}),
    "qwen": ("modern", {"query_key_norm": True, "num_key_value_heads": 1, "attention_bias": True}),
    "convolution": ("convolution", {}),
    "feedforward": ("feedforward", {}),
}
models = pytest.mark.parametrize("name", MODELS)
TWO_THREADS = ("one head", "llama")


@pytest.fixture(autouse=True)
def threads(name: str) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2 if name in TWO_THREADS else 1)
    yield
    torch.set_num_threads(before)


def rows(count: int, longest: int, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(2, 50, n).tolist() for n in rng.integers(0, longest, count)]


def model_of(name: str, backend: Backend) -> Any:
    arch, changes = MODELS[name]
    return backend.for_inference(tiny(arch, **changes))


@pytest.mark.sampled(4)
@models
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@torch.inference_mode()
def test_scores_of_a_document(name: str, precision: str) -> None:
    if precision == "bf16" and (not by_onednn(torch.bfloat16) or MODELS[name][0] not in ("transformer", "modern")):
        pytest.skip("no products in bf16 here, or no Transformer")
    backend = Backend(torch.device("cpu"), precision)
    model = model_of(name, backend)
    documents = [[*row, EOS] for row in [[], *rows(10, 40)]]
    begins = np.arange(50) % 3 == 0
    for measure in (scoring.log_probabilities, TokenDetails(Wanted(begins, True, True), torch.device("cpu"))):
        how: Any = {"start": EOS, "measure": measure, "stride": 9}
        together = scoring.document_scores(model, documents, backend, **how)
        narrow = scoring.document_scores(model, documents, backend, batch_tokens=1, **how)
        assert together is not None and narrow is not None
        for document, one, other in zip(documents, together, narrow, strict=True):
            alone = scoring.document_scores(model, [document], backend, **how)
            assert alone is not None and np.array_equal(one, alone[0]) and np.array_equal(one, other)


@torch.inference_mode()
def likelihoods_are_exact() -> None:
    backend = Backend(torch.device("cpu"))
    for name in MODELS:
        torch.set_num_threads(2 if name in TWO_THREADS else 1)
        model = model_of(name, backend)
        contexts = [[EOS, *row] for row in rows(6, 14)]
        pairs = [(contexts[i % 6], row or [7]) for i, row in enumerate(rows(13, 9, seed=1))]
        together = likelihoods.likelihoods(model, pairs, backend)
        assert together == [likelihoods.likelihoods(model, [pair], backend)[0] for pair in pairs], name
        assert together == likelihoods.likelihoods(model, pairs, backend, batch_tokens=60), name


@pytest.mark.parametrize("name", ["gpt"])
def test_likelihoods_of_choices(name: str, fork: Run, tmp_path: Path) -> None:
    """In a process of its own, as every command is: one that has trained before can differ in the last bit of a token."""
    program = tmp_path / "program.py"
    program.write_text("from tests.invariants.test_exact_rows import likelihoods_are_exact; likelihoods_are_exact()")
    done = fork(program)
    assert (done.code, done.err) == (0, "")


GREEDY: dict[str, Any] = {"temperature": 0}
SAMPLED: list[dict[str, Any]] = [{"num_samples": 2}, {"top_k": 9, "top_p": 0.8}]
DRAWN = each_value(this_month(MODELS, 2), SAMPLED)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "settings"), [*((name, GREEDY) for name in MODELS), *DRAWN], ids=str)
def test_continuations_and_their_log_probabilities(name: str, settings: dict[str, Any]) -> None:
    """Also where windows move on, and where prompts take the places of those that have ended."""
    backend = Backend(torch.device("cpu"))
    model = model_of(name, backend)
    prompts = [[EOS, *row] for row in rows(7, 20)]
    done = [
        decoding.generate(
            model,
            prompts,
            Generate(max_new_tokens=18, logprobs=True, batch_size=batch, **settings),
            backend,
            eos=EOS,
            seed=4,
        )
        for batch in (1, 5, 64)
    ]
    assert done[0] == done[1] == done[2]
