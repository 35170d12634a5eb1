"""BERT and ELECTRA give the hidden states and logits that transformers gives, with their weights and with ours."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from nlptools.errors import BundleError
from nlptools.models.encoders.bert import EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.huggingface.bert import FAMILY as door

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.reference

SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}
FAMILIES = [
    ("BertForPreTraining", "bert", {}),
    ("BertForMaskedLM", "bert", {"hidden_act": "gelu_new"}),
    ("BertModel", "bert", {"hidden_act": "relu", "type_vocab_size": 3}),
    ("ElectraForPreTraining", "electra", {"embedding_size": 16}),
    ("ElectraForMaskedLM", "electra", {"embedding_size": 32}),
    ("ElectraModel", "electra", {"embedding_size": 16, "layer_norm_eps": 1e-6}),
]
families = pytest.mark.parametrize(("name", "kind", "more"), FAMILIES, ids=[row[0] for row in FAMILIES])


def theirs(name: str, kind: str, more: dict[str, Any]) -> Any:
    config = getattr(transformers, "BertConfig" if kind == "bert" else "ElectraConfig")(**SIZES, **more)
    torch.manual_seed(3)
    model = getattr(transformers, name)(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def ours(model: Any, weights: dict[str, torch.Tensor] | None = None) -> BertWithHeads:
    config = door.config_from_hf(model.config.to_dict())
    weights = model.state_dict() if weights is None else weights
    made = BertWithHeads(config, door.heads_in(weights, config))
    made.load_state_dict(door.weights_from_hf(weights, made.state_dict(), config))
    return made.eval()


def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(4)
    mask = torch.arange(13) < torch.tensor([[13], [7], [4]])
    types = (torch.arange(13) > 5).long().expand(3, 13)
    return {"ids": torch.randint(0, 99, (3, 13)), "mask": mask, "types": types}


@families
@torch.inference_mode()
def test_hidden_states_and_logits_are_theirs(name: str, kind: str, more: dict[str, Any]) -> None:
    model, b = theirs(name, kind, more), batch()
    made, mask = ours(model), b["mask"]
    out = model(b["ids"], attention_mask=mask.long(), token_type_ids=b["types"], output_hidden_states=True)
    hidden = made.encoder(b["ids"], mask, b["types"])
    assert len(hidden.layers) == len(out.hidden_states) == 4
    for mine, other in zip(hidden.layers, out.hidden_states, strict=True):
        assert torch.allclose(mine[mask], other[mask], atol=1e-5)
    if "masked" in made.heads:
        logits = out.prediction_logits if name == "BertForPreTraining" else out.logits
        assert torch.allclose(made.masked_logits(hidden.last[mask]), logits[mask], atol=1e-5)
    if "next_sentence" in made.heads:
        assert made.next_sentence is not None and made.encoder.pooler is not None
        found = made.next_sentence(made.encoder.pooler(hidden.last))
        assert torch.allclose(found, out.seq_relationship_logits, atol=1e-5)
    if "replaced" in made.heads:
        assert made.replaced is not None
        assert torch.allclose(made.replaced(hidden.last)[mask], out.logits[mask], atol=1e-5)
    if name == "BertModel":
        assert made.encoder.pooler is not None
        assert torch.allclose(made.encoder.pooler(hidden.last), out.pooler_output, atol=1e-5)


@families
def test_out_through_the_door_and_back(name: str, kind: str, more: dict[str, Any], tmp_path: Path) -> None:
    made = ours(theirs(name, kind, more))
    out = door.weights_to_hf(made.state_dict(), made.config)
    config = door.config_to_hf(made.config, made.heads)
    assert config["architectures"] == [name]
    assert door.config_from_hf(config) == made.config
    (tmp_path / "config.json").write_text(json.dumps(config))
    safetensors.torch.save_file(out, tmp_path / "model.safetensors", {"format": "pt"})
    opened, told = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"]
    expected = theirs(name, kind, more).state_dict()
    assert all(torch.equal(tensor, expected[key]) for key, tensor in opened.state_dict().items())
    again = door.weights_from_hf(out, made.state_dict(), made.config)
    assert all(torch.equal(again[key], tensor) for key, tensor in made.state_dict().items())


def test_names_of_old_uploads_are_known() -> None:
    model = theirs("BertForPreTraining", "bert", {})
    expected = ours(model).state_dict()
    weights = {
        key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for key, tensor in model.state_dict().items()
        if not key.startswith("cls.predictions.decoder")
    }
    weights["bert.embeddings.position_ids"] = torch.arange(24)[None]
    found = ours(model, weights).state_dict()
    assert all(torch.equal(found[key], tensor) for key, tensor in expected.items())
    # only the encoder, without its prefix, as sentence-transformers saves it
    bare = {key.removeprefix("bert."): t for key, t in model.state_dict().items() if key.startswith("bert.")}
    made = ours(model, bare)
    assert made.heads == ("pooler",)
    key = "encoder.blocks.2.attention.query_key_value.weight"
    assert torch.equal(made.state_dict()[key], expected[key])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"position_embedding_type": "relative_key"}, "positions 'relative_key'"),
        ({"hidden_act": "mish"}, "activation 'mish'"),
        ({"hidden_size": None}, "no hidden_size"),
        ({"is_decoder": True}, "made into a decoder"),
        ({"num_attention_heads": 5}, "not a multiple of the 5"),
        ({"vocab_size": -1}, "vocab_size is -1"),
        ({"pad_token_id": 99}, "pad_token_id is 99"),
    ],
)
def test_what_is_no_bert_is_refused(change: dict[str, Any], said: str) -> None:
    data = {**theirs("BertModel", "bert", {}).config.to_dict(), **change}
    with pytest.raises(BundleError, match=said):
        door.config_from_hf(data)


def test_weights_that_do_not_fit_are_refused() -> None:
    model = theirs("BertModel", "bert", {})
    config = door.config_from_hf(model.config.to_dict())
    wanted = BertWithHeads(config, ("pooler",)).state_dict()
    weights = model.state_dict()
    with pytest.raises(BundleError, match=r"no weight encoder\.layer\.1\.output\.dense\.bias"):
        door.weights_from_hf({k: t for k, t in weights.items() if "1.output.dense.bias" not in k}, wanted, config)
    with pytest.raises(BundleError, match="unknown weight"):
        door.weights_from_hf({**weights, "encoder.layer.3.output.dense.bias": torch.zeros(3)}, wanted, config)
    with pytest.raises(BundleError, match=r"has 99 rows, config\.json says 98"):
        smaller = replace(config, vocab_size=98)
        door.weights_from_hf(weights, BertWithHeads(smaller, ("pooler",)).state_dict(), smaller)


@torch.inference_mode()
def test_several_sequences_in_a_row_see_only_themselves() -> None:
    torch.manual_seed(1)
    model = BertWithHeads(EncoderConfig(**SIZES), ()).eval()
    ids = torch.randint(0, 99, (1, 12))
    bounds = [(0, 5), (5, 6), (6, 12)]
    segment = torch.tensor([0] * 5 + [1] + [2] * 6)
    positions = torch.tensor([[0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 5]])
    attend = (segment[:, None] == segment[None])[None, None]
    packed = model.encoder(ids, positions=positions, attend=attend).last
    for begin, end in bounds:
        assert torch.allclose(packed[:, begin:end], model.encoder(ids[:, begin:end]).last, atol=1e-5)
