"""Training with adapters: the base stays as it is, runs go on exactly, directories open everywhere and merge."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import this_month

import nlptools
from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.generation import Generate
from nlptools.errors import BundleError, OutputError, UsageError
from nlptools.files import artifacts
from nlptools.inference import merging, mixture_directory
from nlptools.inference.description import describe
from tests.running import rows
from tests.tasks.answer.test_task import questions
from tests.tasks.choice.test_task import choices
from tests.tasks.classify.test_task import predicted
from tests.tasks.coreference.test_task import gap
from tests.tasks.reward.test_task import preferences
from tests.tasks.tag.test_task import columns, sentences
from tests.tasks.tiny_tasks import FP32, encoder, gpt, stopped_at, table, texts, train
from tests.tiny_bundles import words_bundle
from tests.training.preferences.test_ppo import train as train_ppo
from tests.training.preferences.toys import align, demonstrations, lines

LORA: dict[str, Any] = {"lora": 4, "lr": 1e-2}
ENCODERS: dict[str, Any] = {"bert": encoder, "electra": lambda path: encoder(path, "electra"), "gpt": gpt}
encoders = pytest.mark.parametrize("make", ENCODERS.values(), ids=ENCODERS)


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return dict(bundle.load(directory).weights())


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


@pytest.mark.sampled(1)
@encoders
def test_classifies(tmp_path: Path, make: Any) -> None:
    base = artifacts.sha256(make(tmp_path / "encoder") / "model.safetensors")
    path, valid = table(tmp_path / "a.tsv", texts(100)), table(tmp_path / "b.tsv", texts(40, 1))
    done = train(tmp_path, path, valid, epochs=6.0, **LORA)
    assert done.metrics["valid_accuracy"] > 0.9
    assert artifacts.sha256(tmp_path / "encoder" / "model.safetensors") == base
    labels = [line.split("\t")[0] for line in predicted(tmp_path / "out", valid, text_column=("1",))]
    right = sum(label == expected for label, (_, expected) in zip(labels, texts(40, 1), strict=True))
    assert right / 40 == pytest.approx(done.metrics["valid_accuracy"])
    before, after = weights(tmp_path / "encoder"), weights(tmp_path / "out")
    prefix = "" if "encoder.token_embedding.weight" in before else "encoder."
    fixed = [name for name in before if "blocks" not in name and "pooler" not in name]
    assert fixed and all(torch.equal(before[name], after[prefix + name]) for name in fixed)


@pytest.mark.sampled(law="a stopped run goes on")
def test_stop_and_go_on(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder", hidden_dropout=0.1, attention_dropout=0.1)
    path, valid = table(tmp_path / "a.tsv", texts(100)), table(tmp_path / "b.tsv", texts(30, 1))
    more: dict[str, Any] = {"epochs": 2.0, "layer_decay": 0.7, "lora_dropout": 0.1, **LORA}
    whole = train(tmp_path, path, valid, output=str(tmp_path / "whole"), **more)
    with stopped_at(6):
        train(tmp_path, path, valid, **more)
    [checkpoint] = (tmp_path / "out" / "checkpoints").glob("step-*")
    held = artifacts.load_tensors(checkpoint / "weights.safetensors")
    assert all(".lora_" in name or "pooler" in name or "sequence" in name for name in held)
    assert train(tmp_path, path, valid, **more).metrics["valid_loss"] == whole.metrics["valid_loss"]
    one, other = (artifacts.load_tensors(tmp_path / name / "adapter_model.safetensors") for name in ("whole", "out"))
    assert same(one, other) and same(weights(tmp_path / "whole"), weights(tmp_path / "out"))


def test_a_run_does_not_go_on_from_another_base(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(60))
    with stopped_at(3):
        train(tmp_path, path, **LORA)
    shutil.rmtree(tmp_path / "encoder")
    encoder(tmp_path / "encoder", initializer_range=0.2)
    with pytest.raises(OutputError, match=r"other settings \(base\)"):
        train(tmp_path, path, **LORA)


@pytest.mark.usefixtures("bf16_everywhere")
def test_a_run_in_16_bits_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tasks.tiny_tasks.FP32", Compute(device="cpu", precision="bf16", threads=1))
    path, valid = table(tmp_path / "a.tsv", texts(100)), table(tmp_path / "b.tsv", texts(40, 1))
    assert train(tmp_path, path, valid, epochs=6.0, **LORA).metrics["valid_accuracy"] > 0.9


TASKS: dict[str, Any] = {
    "pair": lambda path: table(
        path, [(a, b, label) for (a, label), (b, _) in zip(texts(20), texts(20, 1), strict=True)]
    ),
    "regress": lambda path: table(path, [(text, str(len(text))) for text, _ in texts(20)]),
    "tag": lambda path: columns(path, sentences(20)),
    "answer": lambda path: questions(path, 20, yes=True),
    "choice": lambda path: choices(path, 20),
    "coreference": lambda path: gap(path, 20),
    "reward": lambda path: lines(path.with_suffix(".jsonl"), preferences(20)),
}


def test_adapters_do_not_open_with_another_base(tmp_path: Path) -> None:
    train(tmp_path, table(tmp_path / "a.tsv", texts(30)), epochs=1.0, **LORA)
    (tmp_path / "encoder").rename(tmp_path / "before")
    encoder(tmp_path / "encoder", initializer_range=0.2)
    with pytest.raises(BundleError, match="adapters of other weights"):
        bundle.load(tmp_path / "out")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("task", "encoder_name"), this_month([(task, name) for task in TASKS for name in ENCODERS], 8))
def test_every_task(tmp_path: Path, task: str, encoder_name: str) -> None:
    """The directory predicts what the merged one predicts, whose weights are the trained ones."""
    ENCODERS[encoder_name](tmp_path / "encoder")
    path = TASKS[task](tmp_path / "a")
    train(tmp_path, path, path, task=task, epochs=2.0, **({"crf": True} if task == "tag" else {}), **LORA)
    merging.convert(str(tmp_path / "out"), str(tmp_path / "merged"))
    assert same(weights(tmp_path / "out"), weights(tmp_path / "merged"))
    one, other = (predicted(tmp_path / name, path) for name in ("out", "merged"))
    assert one and one == other


@pytest.mark.parametrize("seeds", [1, 2])
def test_mean_of_seeds_and_merge(tmp_path: Path, seeds: int) -> None:
    """The kept directory of several seeds opens too; merged, it is one model with the same weights."""
    path, valid = table(tmp_path / "a.tsv", texts(60)), table(tmp_path / "b.tsv", texts(20, 1))
    train(tmp_path, path, valid, seeds=seeds, epochs=1.0, **LORA)
    merging.convert(str(tmp_path / "out"), str(tmp_path / "merged"))
    one, other = bundle.load(tmp_path / "out"), bundle.load(tmp_path / "merged")
    assert same(one.weights(), other.weights()) and one.heads == other.heads == ("pooler", "sequence")
    assert one.config == other.config and artifacts.verify(tmp_path / "merged")
    facts = describe(tmp_path / "out")
    assert facts["adapter"]["rank"] == 4 and facts["task"]["labels"] == ["bad", "good"]
    with pytest.raises(UsageError, match="has adapters already"):
        train(tmp_path, path, model=str(tmp_path / "out"), output=str(tmp_path / "next"), **LORA)
    train(tmp_path, path, model=str(tmp_path / "out"), output=str(tmp_path / "next"), epochs=1.0)
    assert (tmp_path / "next" / "model.safetensors").is_file()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("arch", ["transformer", "modern"])
def test_alignment(tmp_path: Path, arch: str) -> None:
    words_bundle(tmp_path / "base", arch)
    demos, pairs = lines(tmp_path / "a.jsonl", demonstrations(60)), lines(tmp_path / "b.jsonl", preferences(40))
    align(tmp_path, "instruct", demos, demos, epochs=2.0, output=str(tmp_path / "assistant"), **LORA)
    model: Any = nlptools.load(str(tmp_path / "assistant"), settings=Generate(), compute=FP32)
    assert len(list(model.generate(["w1 w2"], Generate(max_new_tokens=3, temperature=0)))) == 1
    parts = [bundle.load(tmp_path / name) for name in ("base", "assistant")]
    mixture_directory.save(str(tmp_path / "mixed"), parts, [0.5, 0.5])
    assert not (tmp_path / "mixed" / "model-2" / "adapter_config.json").exists()  # needs no base
    assert same(weights(tmp_path / "mixed" / "model-2"), weights(tmp_path / "assistant"))
    align(tmp_path, "preference", pairs, pairs, epochs=1.0, output=str(tmp_path / "preferred"), **LORA)
    log = rows(tmp_path / "preferred", "valid")
    assert log[-1]["loss"] < 0.6931
    tensors = artifacts.load_tensors(tmp_path / "preferred" / "adapter_model.safetensors")
    assert {len(tensor) for name, tensor in tensors.items() if ".lora_A." in name} == {4}


@pytest.mark.sampled(law="a stopped run goes on")
@pytest.mark.parametrize("critic", ["shared", "separate"])
def test_ppo_stops_and_goes_on(tmp_path: Path, critic: str) -> None:
    how: dict[str, Any] = {"steps": 20, "passes": 4, "kl_target": 3.0, "critic": critic, "lora": 4, "lr": 1e-2}
    whole = train_ppo(tmp_path, output=str(tmp_path / "whole"), **how)
    with stopped_at(7):
        train_ppo(tmp_path, **how)
    assert train_ppo(tmp_path, **how).steps == whole.steps == 20
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "out"))
    assert not same(weights(tmp_path / "base"), weights(tmp_path / "out"))


@pytest.mark.sampled(law="preferences are learned")
@pytest.mark.usefixtures("bf16_everywhere")
@pytest.mark.parametrize(("precision", "near"), this_month([("fp32", 1e-4), ("bf16", 0.02)], 1))
def test_rewards_rise(tmp_path: Path, precision: str, near: float) -> None:
    compute = replace(FP32, precision=precision)
    train_ppo(tmp_path, algorithm="rloo", steps=72, kl=0.01, lora=8, lr=2e-2, compute=compute)
    log = rows(tmp_path / "out", "train")
    assert log[0]["kl"] == pytest.approx(0, abs=near) and log[0]["clip_fraction"] == 0
    assert log[-1]["reward"] > 2 * log[0]["reward"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lora_alpha": 8.0}, "--lora-alpha requires --lora"),
        ({"lora": 4, "freeze": "1"}, "--lora cannot be combined with"),
        ({"lora": 4, "scratch": "mean", "model": None}, "--scratch cannot be combined with --lora"),
    ],
)
def test_options(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train(tmp_path, table(tmp_path / "a.tsv", texts(20)), **changes)
