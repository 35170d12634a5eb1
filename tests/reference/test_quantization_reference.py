"""`--quantize int8` on folders of transformers: every family of encoders, and the heads of tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import nlptools
from nlptools.compute.kernels import int8
from nlptools.configs import Compute
from nlptools.configs.embed import Embed
from nlptools.configs.fill import Fill
from nlptools.configs.finetuning import Predict
from nlptools.configs.rerank import Rerank
from nlptools.configs.scoring import Score
from nlptools.files.streams import LineBlock
from nlptools.inference import uses
from nlptools.layers.linear import Linear
from nlptools.vectors.rows import scaled
from tests.reference.encoder_families import FAMILIES
from tests.reference.encoder_tokenizers import LINES

pytestmark = [
    pytest.mark.reference,
    pytest.mark.skipif(not int8.available(), reason="no products in 8 bits for this processor"),
]
FP32 = Compute(device="cpu", precision="fp32", threads=1)


def rounded_layers(model: Any) -> int:
    return sum(isinstance(module, Linear) and module.rounded is not None for module in model.modules())


def lowest_cosine(before: np.ndarray, after: np.ndarray) -> float:
    return float((scaled(before) * scaled(after)).sum(1).min())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", FAMILIES)
def test_vectors_of_encoders_are_close(name: str, tmp_path: Path) -> None:
    FAMILIES[name].folder(tmp_path / "model", "Model", **FAMILIES[name].variants[-1])
    plain = nlptools.load(tmp_path / "model", settings=Embed(), compute=FP32).embed(LINES)
    loaded: Any = nlptools.load(tmp_path / "model", settings=Embed(quantize="int8"), compute=FP32)
    found = loaded.embed(LINES)
    assert rounded_layers(loaded.model) >= 4
    assert not np.array_equal(found, plain) and lowest_cosine(plain, found) > 0.97
    # a line has the same vector whatever the lines beside it
    np.testing.assert_allclose(loaded.embed(LINES[:1]), found[:1], atol=1e-5)
    if FAMILIES[name].maskable:
        check_masked(tmp_path / "masked", name)


def check_masked(path: Path, name: str) -> None:
    FAMILIES[name].folder(path, "ForMaskedLM")
    totals: list[np.ndarray] = []
    for rounding in (None, "int8"):
        settings = Score(masked="tokens", quantize=rounding)
        rows = nlptools.load(path, settings=settings, compute=FP32).totals(LINES[:3], settings)
        totals.append(np.array([row[0] for row in rows]))
    assert not np.array_equal(*totals) and np.abs(totals[1] / totals[0] - 1).max() < 0.1
    check_filled(path)


def check_filled(path: Path) -> None:
    """The fillers of a mask have almost the same probabilities, and so do most of their words."""
    found: list[dict[str, float]] = []
    for rounding in (None, "int8"):
        filler: Any = nlptools.load(
            path, use=uses.FILL, settings=Fill(top=20, mask="GAP", quantize=rounding), compute=FP32
        )
        fillers = filler.fill(LineBlock("lines", 1, [f"{LINES[0]} GAP {LINES[1]}"]))[0][0]
        found.append({each.text: each.probability for each in fillers})
    both = found[0].keys() & found[1].keys()
    assert found[0] != found[1] and len(both) >= len(found[0]) // 2
    assert all(abs(found[1][text] / found[0][text] - 1) < 0.5 for text in both)


@pytest.mark.parametrize("kind", ["SequenceClassification", "TokenClassification"])
def test_predictions_and_rankings_are_close(kind: str, tmp_path: Path) -> None:
    FAMILIES["bert"].folder(tmp_path / "model", f"For{kind}", num_labels=1 if kind.startswith("S") else 3)
    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")  # a word per line
    if kind == "TokenClassification":
        loaded: Any = nlptools.load(tmp_path / "model", settings=Predict(quantize="int8"), compute=FP32)
        assert [len(line.split()) for part in loaded.lines([str(tmp_path / "in.txt")]) for line in part] == [3]
        assert rounded_layers(loaded.members[0].model) == rounded_layers(loaded.members[0].model.encoder) > 0
        return
    pairs = [(LINES[0], line) for line in LINES]
    scores = [
        nlptools.load(tmp_path / "model", use=uses.RERANK, settings=Rerank(quantize=how), compute=FP32).scores(pairs)
        for how in (None, "int8")
    ]
    assert scores[0] != scores[1]
    np.testing.assert_allclose(scores[1], scores[0], atol=0.2 * float(np.ptp(scores[0])) + 0.1)
