"""Decoders of LLaMA's family with heads of tasks: the logits of transformers, whose directories open here and ours there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from llama_folders import FORMS, SIZES, written
from llama_folders import tokenizer as tokenizer_of_folders

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Predict
from nlptools.errors import BundleError
from nlptools.inference.prediction import Predictor
from nlptools.models.language.modern import Modern, ModernConfig
from nlptools.models.tasks.with_heads import WithHeads
from nlptools.tasks import outputs
from nlptools.text.chat_templates import FORMATS
from nlptools.training.preferences.rewards import Sample, reward
from tests.tasks.answer.test_task import questions
from tests.tasks.classify.test_task import predicted
from tests.tasks.tag.test_task import columns, sentences
from tests.tasks.tiny_tasks import FP32, table, texts, train
from tests.tiny_bundles import words_bundle
from tests.training.preferences.toys import lines

transformers = pytest.importorskip("transformers")
pytestmark = [pytest.mark.reference, pytest.mark.filterwarnings("ignore")]

HEADS = {"SequenceClassification": "sequence", "TokenClassification": "tokens", "QuestionAnswering": "spans"}
PAIRS = [
    {"prompt": "the cat", "chosen": f" sat on the {word}", "rejected": f" and the {word} the"}
    for word in ("mat", "log", "dog", "cat", "on", "sat")
]


def theirs(directory: Path, form: str, task: str, count: int = 3) -> Any:
    """A model with random weights and `count` labels, as transformers saves it, and the tokenizer of `llama_folders`."""
    family, changes = FORMS[form]
    written(directory, form, bos=True)  # for its tokenizer
    special = {"vocab_size": 280, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    labels = {} if task == "QuestionAnswering" else {"id2label": dict(enumerate(("no", "yes", "maybe")[:count]))}
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **special, **labels, **changes})
    torch.manual_seed(0)
    model = getattr(transformers, f"{family}For{task}")(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(directory)
    return type(model).from_pretrained(directory).eval()


def their_logits(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(B, K), or (B, T, K)."""
    out = model(input_ids=ids, attention_mask=mask.long())
    return out.logits if hasattr(out, "logits") else torch.stack([out.start_logits, out.end_logits], -1)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("task", HEADS)
@pytest.mark.parametrize("form", ["llama", "tied", "mistral", "qwen2", "qwen3"])
@torch.inference_mode()
def test_logits_are_theirs(tmp_path: Path, form: str, task: str) -> None:
    model = theirs(tmp_path / "theirs", form, task)
    loaded = bundle.load(tmp_path / "theirs")
    ours: Any = loaded.model
    assert loaded.arch == "modern-tasks" and ours.heads == (HEADS[task],)
    assert ours.num_labels == (3 if task != "QuestionAnswering" else 2)
    torch.manual_seed(4)
    mask = torch.arange(13) < torch.tensor([[13], [7], [4], [1]])
    ids = torch.where(mask, torch.randint(2, 99, (4, 13)), 1)
    hidden = outputs.hidden_states(ours, HEADS[task], outputs.LAST, ids, mask, None)
    mine, expected = ours.task_logits(HEADS[task], hidden), their_logits(model, ids, mask)
    if task != "SequenceClassification":
        mine, expected = mine[mask], expected[mask]
    assert torch.allclose(mine, expected, atol=1e-4)


def opened_there(directory: Path, task: str, family: str) -> Any:
    """The directory in transformers, which misses nothing in it and nothing of which it misses."""
    model, info = getattr(transformers, f"AutoModelFor{task}").from_pretrained(directory, output_loading_info=True)
    assert type(model).__name__ == f"{family}For{task}"
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    return model.eval()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", ["llama", "tied", "mistral", "qwen2", "qwen3"])
def test_reward_models_open_there_and_in_train_ppo(tmp_path: Path, form: str) -> None:
    written(tmp_path / "encoder", form, bos=True)
    path = lines(tmp_path / "a.jsonl", PAIRS)
    train(tmp_path, path, path, task="reward", epochs=2.0)
    model = opened_there(tmp_path / "out", "SequenceClassification", FORMS[form][0])
    assert model.config.num_labels == 1 and model.config.pad_token_id == 1
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out", pad_token="</s>", padding_side="right")
    whole = [pair["prompt"] + pair[key] for pair in PAIRS for key in ("chosen", "rejected")]
    with torch.inference_mode():
        scores = model(**tokenizer(whole, return_tensors="pt", padding=True)).logits[:, 0]
    expected = (scores - config["nlptools"]["task"]["best_reward"]).reshape(-1, 2)
    rows = [list(map(float, line.split("\t"))) for line in predicted(tmp_path / "out", path)]
    assert np.allclose(rows, expected, atol=1e-4)
    samples = [Sample(pair["prompt"], pair["chosen"], True) for pair in PAIRS]
    assert np.allclose(reward(str(tmp_path / "out"), FP32)(samples), expected[:, 0], atol=1e-4)


@pytest.mark.parametrize("chat", [None, "chatml"])
@pytest.mark.parametrize("form", ["llama", "qwen2"])
def test_published_reward_models_judge_samples(tmp_path: Path, form: str, chat: str | None) -> None:
    model = theirs(tmp_path, form, "SequenceClassification", 1)
    tokenizer_of_folders(bos=True, chat=None if chat is None else FORMATS[chat].source).save_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, pad_token="</s>", padding_side="right")
    end = "<|im_end|>" if chat else ""
    samples = [Sample(pair["prompt"], pair["chosen"] + end, True) for pair in PAIRS]
    samples.append(Sample("<s>the dog" if chat else "the dog", " on", False))
    after = "\n" if chat else ""  # as the template writes it
    whole = [s.prompt.removeprefix("<s>") + s.completion + (after if s.ended else "") for s in samples]
    with torch.inference_mode():
        expected = model(**tokenizer(whole, return_tensors="pt", padding=True)).logits[:, 0]
    assert np.allclose(reward(str(tmp_path), FP32)(samples), expected, atol=1e-4)


@pytest.mark.parametrize("task", ["classify", "tag", "answer"])
def test_other_tasks_on_top_of_our_modern_model(tmp_path: Path, task: str) -> None:
    words_bundle(tmp_path / "encoder", "modern")
    path = {
        "classify": lambda: table(tmp_path / "a.tsv", texts(60)),
        "tag": lambda: columns(tmp_path / "a.txt", sentences(40)),
        "answer": lambda: questions(tmp_path / "a.json", 60, impossible=0.3),
    }[task]()
    train(tmp_path, path, task=task, epochs=1.0, force=True)
    theirs_of = {"classify": "SequenceClassification", "tag": "TokenClassification", "answer": "QuestionAnswering"}
    model = opened_there(tmp_path / "out", theirs_of[task], "Llama")
    ours = Predictor(bundle.load(tmp_path / "out"), Backend.detect(FP32), Predict())
    examples = list(ours.task.read([str(path)], False, "strict"))
    features = ours.task.features(examples, ours.members[0].encoding, False)
    logits = outputs.logits(ours.members[0].model, ours.task.head, features, ours.members[0].backend)
    assert logits is not None
    batch = features.rows.batch(np.arange(len(features)), bundle.load(tmp_path / "out").eos)
    with torch.inference_mode():
        expected = their_logits(model, torch.from_numpy(batch.ids), torch.from_numpy(batch.mask)).numpy()
    for row, other, real in zip(logits, expected, batch.mask, strict=True):
        assert np.allclose(row, other if task == "classify" else other[real], atol=1e-4)


def test_heads_that_transformers_does_not_have_are_kept(tmp_path: Path) -> None:
    config = ModernConfig(50, 32, 2, 4, 40, tie_word_embeddings=False)
    model = WithHeads(Modern(config), ("choice", "crf", "tokens"), 3)
    model.initialize()
    assert not any("output_matrix" in name for name in model.state_dict())
    words_bundle(tmp_path / "lm", "modern")
    tokenizer = bundle.load(tmp_path / "lm").tokenizer
    (tmp_path / "out").mkdir()
    more = {"bos_token_id": 0, "eos_token_id": 0}
    bundle.save_encoder(
        tmp_path / "out", model, model.state_dict(), tokenizer, arch="modern-tasks", training={}, more=more
    )
    again = bundle.load(tmp_path / "out")
    assert set(again.heads) == {"choice", "crf", "tokens"} and again.model.config == config
    weights = again.weights()
    rows = {"encoder.token_embedding.weight": 50}  # the others are padding
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor[: rows.get(name)], weights[name][: rows.get(name)]), name


def test_a_head_that_is_not_known_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "m")
    file = tmp_path / "m" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "architectures": ["LlamaForMultipleChoice"]}))
    with pytest.raises(BundleError, match="LlamaForMultipleChoice is not supported, expected"):
        bundle.load(tmp_path / "m")
