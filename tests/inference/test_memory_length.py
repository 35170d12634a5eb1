"""`score --memory-length`: how far a model with a memory sees, set after training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_bundles import WORDS, words_bundle

from nlptools.configs.scoring import Score
from nlptools.errors import UsageError
from nlptools.files.streams import LineBlock
from nlptools.inference.language_model import TextLanguageModel
from nlptools.inference.loading import load

LINE = " ".join(np.random.default_rng(0).choice(WORDS[6:], 400))


def opened(path: Path, length: int | None) -> TextLanguageModel:
    model = load(path, settings=Score(memory_length=length), device="cpu", precision="fp32", threads=1)
    assert isinstance(model, TextLanguageModel)
    return model


def test_a_longer_memory_changes_what_lies_beyond_the_shorter_one(tmp_path: Path) -> None:
    path = words_bundle(tmp_path / "xl", "transformer-xl")
    scores = {length: next(iter(opened(path, length).score([LINE]))).logprobs for length in (None, 2, 5, 300)}
    assert scores[None] == scores[5], "as the directory says"
    assert scores[2][:3] == pytest.approx(scores[300][:3], abs=1e-5)
    for length in (2, 5):
        assert not np.allclose(scores[length][length * 2 + 2 :], scores[300][length * 2 + 2 :], atol=1e-3)
    whole = load(
        words_bundle(tmp_path / "long", "transformer-xl", inference_memory=300), device="cpu", precision="fp32"
    )
    assert isinstance(whole, TextLanguageModel)
    assert next(iter(whole.score([LINE]))).logprobs == pytest.approx(scores[300], abs=1e-5)


def test_the_protocol_names_it(tmp_path: Path) -> None:
    path = words_bundle(tmp_path / "xl", "transformer-xl")
    for length, expected in ((None, 5), (7, 7)):
        result = opened(path, length).perplexity([LineBlock("text", 1, [LINE])], Score(per="total"))
        assert result["protocol"]["memory"] == expected
    plain = opened(words_bundle(tmp_path / "lstm", "lstm"), None)
    assert plain.perplexity([LineBlock("text", 1, [LINE])], Score(per="total"))["protocol"]["memory"] is None


def test_models_without_a_memory_refuse_it(tmp_path: Path) -> None:
    arpa = tmp_path / "m.arpa"
    arpa.write_text("\\data\\\nngram 1=3\n\n\\1-grams:\n-1\t<unk>\n-99\t<s>\n-1\t</s>\n\n\\end\\\n")
    for path in (words_bundle(tmp_path / "gpt"), words_bundle(tmp_path / "lstm", "lstm"), arpa):
        with pytest.raises(UsageError, match=f"--memory-length: .*{path.name} has no memory"):
            load(path, settings=Score(memory_length=3), device="cpu")
