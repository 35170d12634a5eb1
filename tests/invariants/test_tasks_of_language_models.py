"""Every language model in the registry can be fine-tuned: one loop, of a step or two of each task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import LANGUAGE_MODELS, tiny

from nlptools import bundle
from nlptools.configs.ppo import PPOTraining, TrainPPO
from nlptools.errors import UsageError
from nlptools.models import registry
from nlptools.models.tasks.with_heads import WithHeads
from nlptools.training.preferences.ppo import train_ppo
from tests.running import rows
from tests.tasks.classify.test_task import predicted
from tests.tasks.tiny_tasks import FP32, table
from tests.tiny_bundles import words_bundle
from tests.training.preferences.toys import align, lines

WITHOUT_LINEAR_MAPS = ("rnn", "lstm", "gru")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arch", LANGUAGE_MODELS)
def test_every_task_trains(arch: str, tmp_path: Path) -> None:
    base = words_bundle(tmp_path / "base", arch)
    texts = table(tmp_path / "texts.tsv", [(f"w{i} w{i % 3}", str(i % 3)) for i in range(24)])
    tags = tmp_path / "tags.conll"
    tags.write_text("".join(f"w{i} A\nw{i + 1} B\n\n" for i in range(24)))
    answers = lines(tmp_path / "answers.jsonl", [{"prompt": f"w{i}", "completion": f" w{i + 1}"} for i in range(24)])
    pairs = lines(
        tmp_path / "pairs.jsonl", [{"prompt": f"w{i}", "chosen": " w3", "rejected": " w4 w5"} for i in range(24)]
    )
    small: dict[str, Any] = {"steps": 2, "epochs": 0.0, "batch_size": 8}
    for task, data, more in (
        ("classify", texts, {"freeze": "1", "layer_decay": 0.5}),
        ("tag", tags, {"layers": "mix"}),
        ("instruct", answers, {}),
        ("preference", pairs, {}),
    ):
        align(tmp_path, task, data, data, output=str(tmp_path / task), **small, **more)
        assert bundle.load(tmp_path / task).arch == (f"{arch}-tasks" if task in ("classify", "tag") else arch)
    _check_frozen(base, tmp_path / "classify")
    labels = [line.split("\t")[0] for line in predicted(tmp_path / "classify", texts, text_column=("1",))]
    assert len(labels) == 24 and set(labels) <= {"0", "1", "2"}
    assert predicted(tmp_path / "tag", tags)
    try:
        align(tmp_path, "instruct", answers, output=str(tmp_path / "lora"), lora=2, **small)
        assert (tmp_path / "lora" / "adapter_model.safetensors").is_file() and arch not in WITHOUT_LINEAR_MAPS
        assert bundle.load(tmp_path / "lora").arch == arch
    except UsageError as error:
        assert arch in WITHOUT_LINEAR_MAPS and "has no linear maps that adapters" in str(error)
    (tmp_path / "prompts.txt").write_text("".join(f"w{i} w{i + 1}\n" for i in range(8)))
    run = PPOTraining(output=str(tmp_path / "ppo"), steps=4, batch_size=8, save_every="never", log_every="1")
    settings = TrainPPO(policy=str(base), reward="awk '{print gsub(/w3/, \"\")}'", rollouts=8, max_new_tokens=4)
    train_ppo([str(tmp_path / "prompts.txt")], settings, run, FP32)
    first = rows(tmp_path / "ppo", "train")[0]
    assert first["kl"] == pytest.approx(0, abs=1e-3) and first["clip_fraction"] == 0


def _check_frozen(before: Path, after: Path) -> None:
    """`--freeze 1`: the embeddings and the first layer stay, later ones change."""
    weights, model = bundle.load(before).weights(), bundle.load(after).model
    moved = {name for name, tensor in model.state_dict().items() if name.startswith("encoder.")
             and not torch.equal(tensor, weights[name.removeprefix("encoder.")])}  # fmt: skip
    assert all(model.part_of(name) > 1 for name in moved)
    assert bool(moved) == (model.config.num_hidden_layers > 1)


def test_names_with_heads() -> None:
    assert registry.find("gpt-tasks") == registry.find("transformer-tasks")
    assert registry.with_heads("lstm") == "lstm-tasks" and registry.with_heads("ngram") is None
    assert not registry.names_heads({"no": "name"})


def test_directories_with_earlier_names_open(tmp_path: Path) -> None:
    base, model = (
        bundle.load(words_bundle(tmp_path / "base")),
        WithHeads(tiny("transformer", vocab_size=50), ("choice",)),
    )
    ids = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 1)
    save = {"arch": "transformer-tasks", "training": {}, "more": ids}
    (tmp_path / "out").mkdir()
    bundle.save_encoder(tmp_path / "out", model, model.state_dict(), base.tokenizer, **save)  # type: ignore[arg-type]
    config = tmp_path / "out" / "config.json"
    config.write_text(config.read_text().replace("transformer-tasks", "gpt-tasks"))
    (tmp_path / "out" / "manifest.json").unlink()
    opened = bundle.load(tmp_path / "out")
    assert (opened.arch, opened.heads) == ("transformer-tasks", ("choice",))
