"""predict --ask against the heads of transformers, on folders with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from nlptools.configs import Compute
from nlptools.configs.finetuning import Predict
from nlptools.inference.loading import load
from nlptools.inference.pretraining_heads import NextSentences, ReplacedTokens

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.reference
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "the",
    "cat",
    "##s",
    "sat",
    "on",
    "mat",
    "##ting",
    ".",
    "do",
    "##g",
    "i",
    "like",
    "pickles",
    "nasdaq",
    "fell",
]
SIZES = {"vocab_size": len(WORDS), "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
FP32 = Compute(precision="fp32", threads=1)


def saved(name: str, config: Any, path: Path) -> tuple[Any, Any]:
    (path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    torch.manual_seed(0)
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(path)
    tokenizer = transformers.BertTokenizer(vocab=str(path / "vocab.txt"))
    tokenizer.save_pretrained(path)
    return model, tokenizer


@pytest.mark.parametrize("name", ["BertForPreTraining", "BertForNextSentencePrediction"])
def test_next_sentences_of_published_layouts(tmp_path: Path, name: str) -> None:
    config = transformers.BertConfig(**SIZES, intermediate_size=40, max_position_embeddings=16)
    model, tokenizer = saved(name, config, tmp_path)
    pairs = [
        ("I like pickles .", "the cats sat ."),
        ("I like pickles .", "the NASDAQ fell on the mat"),
        ("the dog", "sat"),
    ]
    ours = load(tmp_path, compute=FP32, settings=Predict(ask="next"))
    assert isinstance(ours, NextSentences)
    shares = ours.probabilities(pairs)
    for (a, b), share in zip(pairs, shares, strict=True):
        with torch.inference_mode():
            out = model(**tokenizer(a, b, return_tensors="pt"))
        logits = out.seq_relationship_logits if name == "BertForPreTraining" else out.logits
        assert share.tolist() == pytest.approx(logits.softmax(-1)[0].tolist(), rel=1e-4)


def test_replaced_tokens_of_a_published_layout(tmp_path: Path) -> None:
    config = transformers.ElectraConfig(**SIZES, embedding_size=8, intermediate_size=40, max_position_embeddings=16)
    model, tokenizer = saved("ElectraForPreTraining", config, tmp_path)
    lines = ["the dogs sat on the mat .", "sitting", "I like pickles ."]
    ours = load(tmp_path, compute=FP32, settings=Predict(ask="replaced"))
    assert isinstance(ours, ReplacedTokens)
    for line, found in zip(lines, ours.probabilities(lines), strict=True):
        batch = tokenizer(line, return_tensors="pt")
        with torch.inference_mode():
            expected = model(**batch).logits.sigmoid()[0, 1:-1].tolist()
        assert [token for token, _ in found] == tokenizer.convert_ids_to_tokens(batch["input_ids"][0, 1:-1].tolist())
        assert [share for _, share in found] == pytest.approx(expected, rel=1e-4)
