"""fill against the pipeline of transformers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nlptools.configs.fill import Fill
from nlptools.files.streams import LineBlock
from nlptools.inference import loading, uses

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
]
LINES = ["the [MASK] sat on the mat .", "[MASK]", "the do[MASK] sat [MASK] the mats."]


def test_fillers_of_a_published_layout(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer, pipeline

    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    sizes = {"vocab_size": len(WORDS), "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
    torch.manual_seed(0)
    model = BertForMaskedLM(BertConfig(**sizes, intermediate_size=40, max_position_embeddings=16)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(tmp_path)
    tokenizer = BertTokenizer(vocab=str(tmp_path / "vocab.txt"))
    tokenizer.save_pretrained(tmp_path)
    theirs = pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=len(WORDS))
    filler = loading.load(tmp_path, precision="fp32", threads=1, use=uses.FILL, settings=Fill(top=len(WORDS) - 5))
    ours = filler.fill(LineBlock("lines", 1, LINES))
    for line, masks in zip(LINES, ours, strict=True):
        found = theirs(line)
        expected = found if isinstance(found[0], list) else [found]
        for fillers, each in zip(masks, expected, strict=True):
            words = [(row["token_str"], row["score"]) for row in each if not row["token_str"].startswith("[")]
            assert [filler.text for filler in fillers] == [word for word, _ in words]
            assert [filler.probability for filler in fillers] == pytest.approx([p for _, p in words], rel=1e-4)
