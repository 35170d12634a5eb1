"""Directories of encoders: what is saved is what is loaded, with the heads that were there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from nlptools import bundle
from nlptools.errors import BundleError
from nlptools.files import artifacts
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat"]


def saved(path: Path, family: str = "bert", heads: tuple[str, ...] = ("pooler",), vocab_size: int = 8) -> BertWithHeads:
    config = EncoderConfig(vocab_size, 8, 2, 2, 12, family, 4 if family == "electra" else 0)
    torch.manual_seed(0)
    model = BertWithHeads(config, heads)
    model.initialize()
    path.mkdir(exist_ok=True)
    tokenizer = NamedTokenizer("whitespace", Vocab(WORDS))
    bundle.save_encoder(path, model, model.state_dict(), tokenizer, training={}, more={"id2label": {"0": "A"}})
    return model


@pytest.mark.parametrize(
    ("family", "heads"),
    [
        ("bert", ()),
        ("bert", ("pooler", "masked", "next_sentence")),
        ("electra", ("masked",)),
        ("electra", ("replaced",)),
        ("bert", ("tokens", "crf")),
        ("electra", ("tokens", "crf")),
    ],
)
def test_a_saved_encoder_comes_back(tmp_path: Path, family: str, heads: tuple[str, ...]) -> None:
    model = saved(tmp_path / "m", family, heads)
    found = bundle.load(tmp_path / "m")
    assert found.target_tokenizer is None and found.arch == "bert"
    assert found.model.heads == heads and found.model.config == model.config  # type: ignore[attr-defined]
    assert found.config["id2label"] == {"0": "A"} and found.config["model_type"] == family
    assert found.tokenizer.encode_lines(["the cat"]) == [[5, 6]]
    assert found.weights().keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        rows = 8 if name.endswith("token_embedding.weight") else len(tensor)
        assert torch.equal(found.weights()[name][:rows], tensor[:rows]), name


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="the tokenizer has 8 tokens, the model 7"):
        saved(tmp_path / "m", vocab_size=7)


def test_sizes_that_the_weights_do_not_have_are_refused_before_they_are_allocated(tmp_path: Path) -> None:
    saved(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "intermediate_size": 200_000}))
    names = [file.name for file in (tmp_path / "m").iterdir() if file.name != "manifest.json"]
    artifacts.write_manifest(tmp_path / "m", names)
    with pytest.raises(BundleError, match="do not belong together"):
        bundle.load(tmp_path / "m")
