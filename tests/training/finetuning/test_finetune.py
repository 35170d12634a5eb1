"""Fine-tuning as a run: resume, seeds, folds, what learns how fast, what is carried over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import BundleError, OutputError, UsageError
from nlptools.files import artifacts
from nlptools.inference.prediction import Predictor
from nlptools.tasks import outputs
from nlptools.tasks import task as tasks
from nlptools.training.finetuning import rates
from nlptools.training.finetuning.pretrained import new_model
from tests.tasks.tiny_tasks import FP32, encoder, gpt, stop_and_go_on, table, texts, train


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return dict(bundle.load(directory).weights())


@pytest.mark.sampled(law="a stopped run goes on")
def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder", hidden_dropout=0.1, attention_dropout=0.1)
    stop_and_go_on(tmp_path)


def test_seeds_tell_mean_and_spread_and_keep_the_best(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, valid = table(tmp_path / "a.tsv", texts(100)), table(tmp_path / "b.tsv", texts(31, 1))
    more: dict[str, Any] = {"seeds": 3, "epochs": 1.0}
    done = train(tmp_path, path, valid, **more)
    summary = done.metrics["repeats"]
    values = [summary["runs"][f"seed-{i}"]["valid_accuracy"] for i in (1, 2, 3)]
    assert summary["mean"] == pytest.approx(sum(values) / 3)
    assert summary["best"] == f"seed-{values.index(max(values)) + 1}"
    assert "accuracy: mean" in capfd.readouterr().err
    best, kept = weights(tmp_path / "out" / summary["best"]), weights(tmp_path / "out")
    assert all(torch.equal(tensor, kept[name]) for name, tensor in best.items())
    assert artifacts.verify(tmp_path / "out")
    assert train(tmp_path, path, valid, **more).metrics["repeats"]["mean"] == summary["mean"]  # nothing is done again
    with pytest.raises(UsageError, match="needs --valid"):
        train(tmp_path, path, seeds=2)


def test_a_run_that_gives_one_answer_is_called_failed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "a.tsv", [*texts(40), *[("w1 w2", "good")] * 40])
    done = train(tmp_path, path, path, seeds=2, lr=0.0, steps=2)
    assert done.metrics["repeats"]["failed"] and "its predictions are all the same" in capfd.readouterr().err


def test_several_runs_do_not_replace_a_single_one(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(40))
    train(tmp_path, path, epochs=1.0)
    with pytest.raises(OutputError, match="contains a single run"):
        train(tmp_path, path, path, seeds=2)


def test_folds_measure_every_example_once(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(41))
    done = train(tmp_path, path, folds=3, epochs=1.0)
    assert set(done.metrics["repeats"]["runs"]) == {"fold-1", "fold-2", "fold-3"}
    records = [json.loads((tmp_path / "out" / f"fold-{i}" / "training.json").read_text())["data"] for i in (1, 2, 3)]
    assert sorted(record["valid"]["examples"] for record in records) == [13, 14, 14]
    assert all(record["train"]["examples"] + record["valid"]["examples"] == 41 for record in records)


def test_frozen_layers_stay_as_they_are(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(60))
    before = weights(encoder(tmp_path / "encoder"))
    train(tmp_path, path, freeze="1", epochs=1.0)
    after = weights(tmp_path / "out")
    moved = {name for name, tensor in before.items() if not torch.equal(tensor, after[name])}
    part_of = bundle.load(tmp_path / "out").model.part_of
    assert moved and all(part_of(name) >= 2 for name in moved)
    assert any(".blocks.1." in name for name in moved) and "encoder.pooler.dense.weight" in moved
    train(tmp_path, path, freeze="all", epochs=1.0, force=True)
    after = weights(tmp_path / "out")
    assert {name for name, t in before.items() if not torch.equal(t, after[name])} <= {
        "encoder.pooler.dense.weight",
        "encoder.pooler.dense.bias",
    }


def test_rates_by_hand() -> None:
    names = ["model.encoder.token_embedding.weight", "model.encoder.blocks.0.x", "model.encoder.blocks.1.x"]
    head = ["model.encoder.pooler.dense.weight", "model.sequence.output.bias"]
    parts = dict(zip([*names, *head], [0, 1, 2, 3, 3], strict=True))
    assert rates.Rates(parts, 3).at(0.0) == {}
    decayed = rates.Rates(parts, 3, decay=0.5).at(7.0)
    assert list(decayed.values()) == [0.125, 0.25, 0.5, 1.0, 1.0]
    gradual = rates.Rates(parts, 3, unfreeze=0.5)
    assert list(gradual.at(0.4).values()) == [0, 0, 0, 1, 1]
    assert list(gradual.at(0.5).values()) == [0, 0, 1, 1, 1]
    assert list(gradual.at(1.5).values()) == [1, 1, 1, 1, 1]


def test_a_head_for_the_same_labels_is_kept_another_is_not(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(60))
    train(tmp_path, path, epochs=1.0)
    base = bundle.load(tmp_path / "out")
    made = tasks.for_training(Finetune(task="classify", model="m"), Files())
    same = made.learn(list(made.read([str(path)], True, "strict")))
    held = base.weights()["sequence.output.weight"]
    assert torch.equal(new_model(base, same, 1).state_dict()["sequence.output.weight"], held)
    others = same.restored({"labels": ["bad", "worse"], "mean": 0.0})
    assert not torch.equal(new_model(base, others, 1).state_dict()["sequence.output.weight"], held)
    # dropout is that of the encoder, or as told
    as_held, told = new_model(base, same, 1), new_model(base, same, 1, dropout=0.25)
    assert as_held.config == base.model.config
    assert told.config.attention_dropout == told.encoder.dropout.p == told.dropout.p == 0.25 != as_held.dropout.p


def test_a_layer_below_the_last_can_be_what_the_head_sees(tmp_path: Path) -> None:
    path, valid = table(tmp_path / "a.tsv", texts(100)), table(tmp_path / "b.tsv", texts(40, 1))
    before = weights(encoder(tmp_path / "encoder"))
    train(tmp_path, path, valid, layers="1")
    after = weights(tmp_path / "out")
    same = [name for name in before if ".blocks.1." in name]
    assert same and all(torch.equal(before[name], after[name]) for name in same if before[name].dim() < 2)
    assert bundle.load(tmp_path / "out").config["nlptools"]["task"]["layers"] == "1"
    with pytest.raises(UsageError, match="the model has layers 0 to 2"):
        train(tmp_path, path, layers="7")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("how", "head", "shape"), [("mix", "layer_mix", (3,)), ("concat:-2:", "layer_concat", (32, 64))]
)
@pytest.mark.parametrize("make", [encoder, gpt])
def test_what_makes_one_layer_of_several_is_learnt(
    tmp_path: Path, make: Any, how: str, head: str, shape: tuple[int, ...]
) -> None:
    make(tmp_path / "encoder")
    path, valid = table(tmp_path / "a.tsv", texts(300)), table(tmp_path / "b.tsv", texts(40, 1))
    done = train(tmp_path, path, valid, layers=how)
    assert done.metrics["valid_accuracy"] == 1.0
    found = bundle.load(tmp_path / "out")
    learnt = found.weights()[f"{head}.weight"]
    assert found.model.heads[-1] == head and learnt.shape == shape
    assert found.config["nlptools"]["task"]["layers"] == how
    # rows end to end, as when predicting, and padded, as in training
    predictor = Predictor(found, Backend.detect(FP32), Predict(probabilities=True))
    made: Any = predictor.task
    examples = list(made.read([str(valid)], False, "strict"))
    features = made.features(examples, predictor.members[0].encoding, False)
    packed = outputs.logits(found.model, made.head, features, predictor.members[0].backend, predictor.members[0].which)
    assert packed is not None
    with torch.inference_mode():
        for row, expected in enumerate(packed):
            batch = features.rows.batch(np.array([row]), 0)
            arrays = [torch.from_numpy(array) for array in (batch.ids, batch.mask, batch.types)]
            seen = outputs.hidden_states(found.model, made.head, predictor.members[0].which, *arrays)
            assert np.allclose(found.model.task_logits(made.head, seen)[0].numpy(), expected, atol=1e-4)
    # it goes on where the same layers are seen, and is new elsewhere
    again = new_model(found, made, 5, predictor.members[0].which).state_dict()
    assert torch.equal(again[f"{head}.weight"], learnt)
    fresh = new_model(found, made, 5).state_dict()
    assert f"{head}.weight" not in fresh
    assert not torch.equal(fresh["sequence.output.weight"], found.weights()["sequence.output.weight"])


def test_a_mix_begins_as_told_and_ends_in_a_form_that_embed_takes(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(40))
    (tmp_path / "mix.json").write_text("[0.5, 0, 2]")
    train(tmp_path, path, layers=f"mix:{tmp_path / 'mix.json'}", freeze="all", lr=0.0, epochs=1.0)
    found = bundle.load(tmp_path / "out")
    assert found.weights()["layer_mix.weight"].tolist() == [0.5, 0, 2]
    task = found.config["nlptools"]["task"]
    assert task["layers"] == "mix" and task["layer_weights"] == [0.5, 0, 2]
    assert json.loads((tmp_path / "out/layer_mix.json").read_text()) == [0.5, 0, 2]
    (tmp_path / "mix.json").write_text("[0.5, 0]")
    with pytest.raises(UsageError, match="holds 2 weights, the model has 3 layers"):
        train(tmp_path, path, layers=f"mix:{tmp_path / 'mix.json'}", force=True)


@pytest.mark.parametrize("said", ["mix", "concat:all"])
def test_layers_that_only_the_config_speaks_of_are_refused(tmp_path: Path, said: str) -> None:
    encoder(tmp_path / "encoder")
    train(tmp_path, table(tmp_path / "a.tsv", texts(40)), epochs=1.0)
    path = tmp_path / "out/config.json"
    config = json.loads(path.read_text())
    config["nlptools"]["task"]["layers"] = said
    path.write_text(json.dumps(config))
    (tmp_path / "out/manifest.json").unlink()  # which would call it damaged
    with pytest.raises(BundleError, match=f"config.json has layers '{said}', their weights are missing"):
        Predictor(bundle.load(tmp_path / "out"), Backend.detect(FP32), Predict())


@pytest.mark.sampled(law="an encoder learns a task")
def test_electra_learns_too(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder", "electra", embedding_size=16)
    path, valid = table(tmp_path / "a.tsv", texts(300)), table(tmp_path / "b.tsv", texts(40, 1))
    assert train(tmp_path, path, valid).metrics["valid_accuracy"] == 1.0
    assert bundle.load(tmp_path / "out").config["architectures"] == ["ElectraForSequenceClassification"]
