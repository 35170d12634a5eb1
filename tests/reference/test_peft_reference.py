"""Adapters of `--lora` open in PEFT with the same outputs, and adapters that PEFT writes open here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Predict
from nlptools.inference import merging
from nlptools.inference.description import describe
from nlptools.inference.prediction import Predictor
from nlptools.tasks import outputs
from tests.llama_folders import written
from tests.tasks.answer.test_task import questions
from tests.tasks.tiny_tags import columns, sentences
from tests.tasks.tiny_tasks import FP32, encoder, gpt, table, texts, train
from tests.tiny_bundles import words_bundle
from tests.training.preferences.toys import align, demonstrations, lines

transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
pytestmark = pytest.mark.reference

TASKS: dict[str, tuple[str, Any]] = {
    "classify": ("SequenceClassification", lambda path: table(path, texts(60, words=("good", "bad", "w7")))),
    "tag": ("TokenClassification", lambda path: columns(path, sentences(40))),
    "answer": ("QuestionAnswering", lambda path: questions(path, 60, impossible=0.3)),
}
FAMILIES: dict[str, Any] = {"bert": encoder, "electra": lambda path: encoder(path, "electra"), "gpt2": gpt}


def logits(model: Any, **inputs: torch.Tensor) -> torch.Tensor:
    """(B, K), or (B, T, K)."""
    with torch.inference_mode():
        out = model.eval()(**inputs)
    return out.logits if hasattr(out, "logits") else torch.stack([out.start_logits, out.end_logits], -1)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("task", TASKS)
def test_tasks_open_there(tmp_path: Path, family: str, task: str) -> None:
    FAMILIES[family](tmp_path / "encoder")
    kind, write = TASKS[task]
    path = write(tmp_path / "a")
    train(tmp_path, path, task=task, epochs=2.0, lora=3, lora_alpha=5.0, lr=1e-2)
    ours = Predictor(bundle.load(tmp_path / "out"), Backend.detect(FP32), Predict())
    labels = {} if task == "answer" else {"num_labels": len(ours.task.labels)}  # type: ignore[attr-defined]
    opened = getattr(peft, f"AutoPeftModelFor{kind}").from_pretrained(tmp_path / "out", **labels)
    opened.config.pad_token_id = 0
    merging.convert(str(tmp_path / "out"), str(tmp_path / "merged"))
    merged = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(tmp_path / "merged")
    examples = list(ours.task.read([str(path)], False, "strict"))
    features = ours.task.features(examples, ours.members[0].encoding, False)
    found = outputs.logits(ours.model, ours.task.head, features, ours.backend)
    assert found is not None
    batch = features.rows.batch(np.arange(len(features)), 0)
    inputs = {"input_ids": torch.from_numpy(batch.ids), "attention_mask": torch.from_numpy(batch.mask).long()}
    if family != "gpt2":
        inputs["token_type_ids"] = torch.from_numpy(batch.types).long()
    # the wrapper for answers of PEFT 0.21 forgets token_type_ids
    for model in (opened.base_model, merged):
        for row, other, real in zip(found, logits(model, **inputs).numpy(), batch.mask, strict=True):
            assert np.allclose(row, other if task == "classify" else other[real], atol=1e-5)


@pytest.mark.parametrize("arch", ["transformer", "modern"])
@pytest.mark.parametrize("targets", ["all", "attention"])
def test_language_models_open_there(tmp_path: Path, arch: str, targets: str) -> None:
    words_bundle(tmp_path / "base", arch)
    path = lines(tmp_path / "a.jsonl", demonstrations(60))
    align(tmp_path, "instruct", path, epochs=2.0, lora=3, lora_targets=targets, lr=2e-2)
    model: Any = bundle.load(tmp_path / "out").model
    opened = peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out")
    ids = torch.randint(6, 40, (2, 9))
    with torch.inference_mode():
        expected = model.output.logits(model(ids)[0])
    before: Any = bundle.load(tmp_path / "base").model
    with torch.inference_mode():
        assert not torch.allclose(before.output.logits(before(ids)[0]), expected, atol=1e-2)
    assert torch.allclose(logits(opened, input_ids=ids), expected, atol=1e-4)


def randomized(model: Any) -> Any:
    """The model of PEFT with adapters that change its outputs."""
    torch.manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameter.copy_(torch.randn_like(parameter) * (0.2 if "lora_" in name else 0.1))
    return model.eval()


@pytest.mark.parametrize("more", [{}, {"use_rslora": True}, {"rank_pattern": {"q_proj": 4}}, {"bias": "all"}])
def test_their_llama_opens_here(tmp_path: Path, more: dict[str, Any]) -> None:
    base = written(tmp_path / "base", "one key head" if "bias" in more else "llama")
    base.name_or_path = str(tmp_path / "base")
    config = peft.LoraConfig(task_type="CAUSAL_LM", r=2, lora_alpha=6, target_modules="all-linear", **more)
    model = randomized(peft.get_peft_model(base, config))
    model.save_pretrained(tmp_path / "theirs")
    ids = torch.randint(3, 100, (2, 9))
    loaded = bundle.load(tmp_path / "theirs")
    ours: Any = loaded.model
    with torch.inference_mode():
        assert torch.allclose(ours.output.logits(ours(ids)[0]), logits(model, input_ids=ids), atol=1e-4)
    assert not loaded.prepends_start and loaded.eos == 1
    assert describe(tmp_path / "theirs")["adapter"] | {"targets": None} == {
        "base": str(tmp_path / "base"), "rank": 2, "alpha": 6, "targets": None
    }  # fmt: skip
    merging.convert(str(tmp_path / "theirs"), str(tmp_path / "merged"))
    merged = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert torch.allclose(logits(merged, input_ids=ids), logits(model, input_ids=ids), atol=1e-4)
    assert bundle.load(tmp_path / "merged").prepends_start == loaded.prepends_start


@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize(
    ("kind", "task"), [("SequenceClassification", "SEQ_CLS"), ("TokenClassification", "TOKEN_CLS")]
)
def test_their_classifiers_open_here(tmp_path: Path, family: str, kind: str, task: str) -> None:
    FAMILIES[family](tmp_path / "base")
    base = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(tmp_path / "base", num_labels=3, pad_token_id=0)
    model = randomized(
        peft.get_peft_model(base, peft.LoraConfig(task_type=task, r=2, lora_alpha=6, fan_in_fan_out=family == "gpt2"))
    )
    model.save_pretrained(tmp_path / "theirs")
    loaded = bundle.load(tmp_path / "theirs")
    ours: Any = loaded.model
    head = "sequence" if task == "SEQ_CLS" else "tokens"
    assert ours.heads == (("pooler",) if family == "bert" else ()) + (head,)
    ids = torch.randint(5, 20, (1, 9))
    with torch.inference_mode():
        hidden = outputs.hidden_states(ours, head, outputs.LAST, ids, torch.ones_like(ids, dtype=torch.bool), None)
        assert torch.allclose(ours.task_logits(head, hidden), logits(model, input_ids=ids), atol=1e-5)
