"""LSTMs over words with the features of an ELMo as a model of every task: learned, stopped and continued, saved, opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import this_month
from tiny_bundles import words_bundle

import nlptools
from nlptools import bundle
from nlptools.configs.embed import Embed
from nlptools.configs.finetuning import Finetune, FinetuneTraining
from nlptools.configs.tasks.files import Files
from nlptools.configs.tasks.words import Scratch
from nlptools.configs.word_taggers import FEATURES, FEATURES_PRESETS
from nlptools.errors import BundleError, UsageError
from nlptools.files import artifacts
from nlptools.metrics import spans
from nlptools.metrics.tags import read_tags
from nlptools.models import registry
from nlptools.training.engine.job import Trained
from nlptools.training.finetuning.finetune import finetune
from tests.tasks.answer.test_task import questions
from tests.tasks.choice.test_task import choices
from tests.tasks.coreference.test_task import gap
from tests.tasks.tag.test_task import propositions
from tests.tasks.tiny_tags import columns, predicted, sentences
from tests.tasks.tiny_tasks import FP32, stopped_at, table, texts

SMALL = {"dim": 16, "hidden_size": 16, "char_dim": 8, "dropout": 0.1, "lr": 1e-2, "epochs": 4.0, "batch_size": 8}


def train(tmp_path: Path, path: Path, valid: Path | None = None, features: str = "input", **changes: Any) -> Trained:
    """Train into `tmp_path`/out on top of `tmp_path`/elmo."""
    if not (tmp_path / "elmo").is_dir():
        words_bundle(tmp_path / "elmo", "elmo")
    how = {"task": "tag", "model": str(tmp_path / "elmo"), **FEATURES_PRESETS[features], **SMALL, **changes}
    how |= {"output": str(tmp_path / "out"), "valid": valid and str(valid), "save_every": "never"}

    def settings(kind: Any) -> Any:
        return kind(**{name: how.pop(name) for name in list(how) if name in kind.__dataclass_fields__})

    run, scratch, files = settings(FinetuneTraining), settings(Scratch), settings(Files)
    return finetune([str(path)], Finetune(features=features, **how), run, FP32, files, scratch)


def f1_of_predictions(tmp_path: Path, valid: Path) -> float:
    """Of what `predict` writes with the model in `tmp_path`/out."""
    lines = predicted(tmp_path / "out", valid, columns=True)
    (tmp_path / "tagged").write_text("".join(f"{line}\n" for line in lines))
    return spans.entities(*read_tags([tmp_path / "tagged"]), "conlleval").values()["f1"]


@pytest.mark.sampled(law="a model without pretraining learns a task")
@pytest.mark.parametrize("features", FEATURES)
def test_spans_are_learned_wherever_the_features_are(features: str, tmp_path: Path) -> None:
    path, valid = columns(tmp_path / "a.txt", sentences(100)), columns(tmp_path / "b.txt", sentences(40, 1))
    done = train(tmp_path, path, valid, features, crf=features == "both", epochs=10.0)
    assert done.metrics["valid_f1"] > 0.95
    found = bundle.load(tmp_path / "out")
    assert found.family == registry.WORD_READER and artifacts.verify(tmp_path / "out")
    assert {"layer_mix.json": features in ("input", "both"), "output_mix.json": features in ("output", "both")} == {
        name: (tmp_path / "out" / name).is_file() for name in ("layer_mix.json", "output_mix.json")
    }
    # what `predict` writes has the F1 of the validation; neither windows nor batches change it
    lines = predicted(tmp_path / "out", valid, columns=True)
    assert predicted(tmp_path / "out", valid, columns=True, window=7, batch_tokens=10) == lines
    assert f1_of_predictions(tmp_path, valid) == pytest.approx(done.metrics["valid_f1"], abs=1e-9)


def test_a_frozen_elmo_stays_and_train_all_moves_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = columns(tmp_path / "a.txt", sentences(40))
    before: Any = {}
    for train_all in (False, True):
        train(tmp_path, path, epochs=1.0, train_all=train_all, force=True)
        before = before or bundle.load(tmp_path / "elmo").weights()
        after = {
            name[5:]: tensor for name, tensor in bundle.load(tmp_path / "out").weights().items() if name[:5] == "elmo."
        }
        assert after and not any(name.startswith("output") for name in after), "the softmax is left out"
        moved = [name for name in after if not torch.equal(after[name], before[name])]
        assert bool(moved) == train_all and (not train_all or len(moved) > len(after) / 2)
    mix = json.loads((tmp_path / "out/layer_mix.json").read_text())
    assert len(mix["s"]) == 3 and mix["gamma"] != 1, "s and gamma are learned"
    assert f"gamma {mix['gamma']:.4g}"[:9] in capsys.readouterr().err
    embed = Embed(unit="word", layers=f"mix:{tmp_path / 'out/layer_mix.json'}")
    assert nlptools.load(tmp_path / "elmo", compute=FP32, settings=embed).embed_units(["w1 w2"])[0].vectors.shape == (
        2,
        64,
    )
    with pytest.raises(UsageError, match="model of finetune --features"):
        nlptools.load(tmp_path / "out", compute=FP32, settings=Embed())


def test_features_are_those_of_embed(tmp_path: Path) -> None:
    """Each stretch of words is a text of its own; marks have none; it does not matter what is in the batch."""
    train(tmp_path, columns(tmp_path / "a.txt", sentences(20)), epochs=1.0)
    from nlptools.tasks import readers

    found = bundle.load(tmp_path / "out")
    encoding = readers.encoding(found, 0, 1)
    rows = encoding.rows([("the cat w1", "sat"), ("Übung", "")]).rows.batch(np.arange(2), 0)
    model: Any = found.model
    with torch.inference_mode():
        states = model.features(torch.from_numpy(rows.ids), torch.from_numpy(rows.mask)).numpy()
    for layer in ("0", "1", "2"):
        embedder = nlptools.load(tmp_path / "elmo", compute=FP32, settings=Embed(unit="word", layers=layer))
        one, other, third = (units.vectors for units in embedder.embed_units(["the cat w1", "sat", "Übung"]))
        expected = np.zeros((2, 6, 64))
        expected[0, 1:4], expected[0, 5], expected[1, 1] = one, other[0], third[0]
        assert rows.ids.shape == (2, 7)
        assert np.allclose(states[int(layer), :, :6], expected, atol=1e-5) and not states[:, :, 6].any()


@pytest.mark.parametrize("layers", ["last", "0", "mean:all"])
def test_one_layer_or_a_fixed_mean_takes_the_place_of_the_mix(tmp_path: Path, layers: str) -> None:
    path, valid = columns(tmp_path / "a.txt", sentences(40)), columns(tmp_path / "b.txt", sentences(20, 1))
    done = train(tmp_path, path, valid, "both", layers=layers)
    assert not any("mix" in name for name in bundle.load(tmp_path / "out").weights())
    assert f1_of_predictions(tmp_path, valid) == pytest.approx(done.metrics["valid_f1"], abs=1e-9)


def test_a_mix_begins_with_that_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mix.json").write_text('{"s": [1, 2, 3], "gamma": 0.5}')
    train(
        tmp_path, columns(tmp_path / "a.txt", sentences(20)), layers=f"mix:{tmp_path / 'mix.json'}", lr=0.0, epochs=1.0
    )
    assert json.loads((tmp_path / "out/layer_mix.json").read_text()) == {"s": [1, 2, 3], "gamma": 0.5}


def test_a_mix_learns_slowly(tmp_path: Path) -> None:
    """A step of AdamW moves a number by about the rate at most, here at 3 steps of a tenth of it."""
    train(tmp_path, columns(tmp_path / "a.txt", sentences(24)), lr=0.01, epochs=1.0)
    mix = json.loads((tmp_path / "out/layer_mix.json").read_text())
    assert all(0 < abs(number) < 0.0045 for number in (*mix["s"], mix["gamma"] - 1))


@pytest.mark.sampled(law="a stopped run goes on")
@pytest.mark.parametrize("train_all", [False, True])
def test_it_stops_and_continues(tmp_path: Path, train_all: bool) -> None:
    path = columns(tmp_path / "a.txt", sentences(60))
    weights = []
    for name, steps in (("whole", None), ("parts", 5)):
        here = tmp_path / name
        here.mkdir()
        if steps:
            with stopped_at(steps):
                train(here, path, epochs=2.0, train_all=train_all)
        train(here, path, epochs=2.0, train_all=train_all)
        weights.append(bundle.load(here / "out").weights())
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


def reviews(path: Path, count: int, seed: int = 0) -> Path:
    return table(path, texts(count, seed))


def pairs(path: Path, count: int, seed: int = 0) -> Path:
    return table(path, [(f"w{i % 7} w{i % 5}", text, label) for i, (text, label) in enumerate(texts(count, seed))])


@pytest.mark.sampled(law="a model without pretraining learns a task")
@pytest.mark.parametrize(
    ("task", "write", "metric", "least", "more"),
    this_month([
        ("classify", reviews, "accuracy", 1.0, {}),
        ("pair", pairs, "accuracy", 0.95, {}),
        ("roles", propositions, "f1", 0.9, {"crf": True}),
        ("answer", questions, "f1", 0.9, {"epochs": 8.0}),
        ("choice", choices, "accuracy", 0.95, {}),
        ("coreference", gap, "f1", 0.75, {"epochs": 8.0}),
    ], 3),
)  # fmt: skip
def test_every_task_is_learned(
    tmp_path: Path, task: str, write: Any, metric: str, least: float, more: dict[str, Any]
) -> None:
    path, valid = write(tmp_path / "a.txt", 120), write(tmp_path / "b.txt", 30, 1)
    layout = {"roles": "conllu", "answer": "squad", "choice": "jsonl", "coreference": "gap"}.get(task, "table")
    done = train(tmp_path, path, valid, task=task, layout=layout, **more)
    assert done.metrics[f"valid_{metric}"] >= least
    lines = predicted(tmp_path / "out", valid, layout=layout)
    assert len(lines) == 30 * (2 if task == "roles" else 1)
    assert predicted(tmp_path / "out", valid, layout=layout, window=7, batch_tokens=40) == lines


def test_long_words_are_cut_with_a_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "a.tsv", [*texts(20), ("x" * 49, "good")])
    for features, expected in (("input", 1), ("none", 0)):
        train(tmp_path, path, task="classify", features=features, epochs=1.0, force=True)
        assert capsys.readouterr().err.count("1 word is longer than 48 bytes, the ELMo") == expected


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    path = columns(tmp_path / "a.txt", sentences(10))
    for changes, message in (
        ({"layers": "concat:all"}, "expected one vector"),
        ({"layers": "9"}, "layers 0 to 2"),
        ({"layers": "all"}, "--layers all: the head needs one vector"),
        ({"unfreeze": 1.0}, "--features cannot be combined with --unfreeze"),
        ({"features": "none", "train_all": True}, "--train-all cannot be combined"),
    ):
        with pytest.raises(UsageError, match=message):
            train(tmp_path, path, **changes)
    with pytest.raises(UsageError, match="is an ELMo: --features says"):
        finetune([str(path)], Finetune(task="tag", model=str(tmp_path / "elmo")), FinetuneTraining(output="x"), FP32)
    words_bundle(tmp_path / "lm")
    with pytest.raises(BundleError, match="not an ELMo"):
        train(tmp_path, path, model=str(tmp_path / "lm"))
