"""Heads of tasks give the logits that transformers gives, and open there under its names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from nlptools.models.encoders.bert_with_heads import BertWithHeads
from nlptools.models.huggingface import checks
from nlptools.models.huggingface.bert import FAMILY as door

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.reference

SIZES = {
    "vocab_size": 99,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}
TASKS = {
    "SequenceClassification": ("sequence", 5),
    "TokenClassification": ("tokens", 4),
    "QuestionAnswering": ("spans", 2),
    "MultipleChoice": ("choice", 2),
}
models = pytest.mark.parametrize("task", TASKS)
families = pytest.mark.parametrize("family", ["Bert", "Electra"])


def theirs(family: str, task: str) -> Any:
    more = {"embedding_size": 16} if family == "Electra" else {}
    config = getattr(transformers, f"{family}Config")(**SIZES, **more, num_labels=TASKS[task][1])
    torch.manual_seed(3)
    model = getattr(transformers, f"{family}For{task}")(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def ours(model: Any, architectures: list[str]) -> BertWithHeads:
    config, weights = door.config_from_hf(model.config.to_dict()), model.state_dict()
    made = BertWithHeads(config, door.heads_in(weights, config, architectures), checks.labels_in(weights))
    made.load_state_dict(door.weights_from_hf(weights, made.state_dict(), config))
    return made.eval()


@models
@families
@torch.inference_mode()
def test_logits_are_theirs(family: str, task: str) -> None:
    model = theirs(family, task)
    made = ours(model, [type(model).__name__])
    head = TASKS[task][0]
    assert made.heads[-1] == head and set(made.heads) <= {"pooler", head}
    torch.manual_seed(4)
    ids, mask = torch.randint(0, 99, (4, 13)), torch.arange(13) < torch.tensor([[13], [7], [4], [9]])
    types = (torch.arange(13) > 5).long().expand(4, 13).contiguous()
    found = made.task_logits(head, made.encoder(ids, mask, types).last)
    given: dict[str, torch.Tensor] = {"input_ids": ids, "attention_mask": mask.long(), "token_type_ids": types}
    if head == "choice":
        out = model(**{name: tensor[None] for name, tensor in given.items()}).logits[0]
        assert torch.allclose(found, out, atol=1e-4)
    elif head == "sequence":
        assert torch.allclose(found, model(**given).logits, atol=1e-4)
    elif head == "tokens":
        assert torch.allclose(found[mask], model(**given).logits[mask], atol=1e-4)
    else:
        answer = model(**given)
        assert torch.allclose(found[..., 0][mask], answer.start_logits[mask], atol=1e-4)
        assert torch.allclose(found[..., 1][mask], answer.end_logits[mask], atol=1e-4)


@models
@families
def test_out_through_the_door_and_back(family: str, task: str, tmp_path: Path) -> None:
    name = f"{family}For{task}"
    model = theirs(family, task)
    made = ours(model, [name])
    config = {**door.config_to_hf(made.config, made.heads), "num_labels": made.num_labels}
    assert config["architectures"] == [name]
    (tmp_path / "config.json").write_text(json.dumps(config))
    out = door.weights_to_hf(made.state_dict(), made.config)
    safetensors.torch.save_file(out, tmp_path / "model.safetensors", {"format": "pt"})
    opened, told = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"]
    expected = model.state_dict()
    assert all(torch.equal(tensor, expected[key]) for key, tensor in opened.state_dict().items())
    again = door.weights_from_hf(out, made.state_dict(), made.config)
    assert all(torch.equal(again[key], tensor) for key, tensor in made.state_dict().items())


def test_a_pooler_that_nothing_uses_does_not_hide_a_tagger() -> None:
    model = theirs("Bert", "TokenClassification")
    config, weights = door.config_from_hf(model.config.to_dict()), model.state_dict()
    weights["bert.pooler.dense.weight"], weights["bert.pooler.dense.bias"] = torch.zeros(32, 32), torch.zeros(32)
    assert door.heads_in(weights, config, ["BertForTokenClassification"]) == ("pooler", "tokens")
    assert door.heads_in(weights, config) == ("pooler", "sequence")
