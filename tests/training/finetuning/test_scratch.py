"""Text classifiers without pretraining as tasks: learnt, stopped and continued, saved and opened."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import this_month

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Finetune, FinetuneTraining, Predict
from nlptools.configs.tasks.files import Files
from nlptools.configs.tasks.words import Scratch
from nlptools.configs.text_classifiers import ARCHITECTURES, PRESETS
from nlptools.errors import BundleError, DataError, InputError, UsageError
from nlptools.files import artifacts
from nlptools.inference.description import describe
from nlptools.inference.prediction import Predictor
from nlptools.models import registry
from nlptools.models.tasks import text_classifiers
from nlptools.training.engine.job import Trained
from nlptools.training.finetuning.finetune import finetune
from tests.tasks.tiny_tasks import FP32, stopped_at, table, texts

SMALL = {"dim": 16, "hidden_size": 16, "dropout": 0.1, "lr": 1e-2, "epochs": 6.0, "batch_size": 16}
BAG = {"lr": 0.1, "epochs": 6.0, "dropout": 0.0}


def train(
    tmp_path: Path, arch: str, path: Path, valid: Path | None = None, task: str = "classify", **changes: Any
) -> Trained:
    """Train into `tmp_path`/out."""
    how = {**PRESETS[arch], **SMALL, **(BAG if arch == "bag" else {}), "output": str(tmp_path / "out"), **changes}
    how |= {"valid": valid and str(valid), "save_every": how.get("save_every", "never")}

    def settings(kind: Any) -> Any:
        return kind(**{name: how.pop(name) for name in list(how) if name in kind.__dataclass_fields__})

    run, scratch, files = settings(FinetuneTraining), settings(Scratch), settings(Files)
    return finetune([str(path)], Finetune(task=task, scratch=arch, **how), run, FP32, files, scratch)


def predicted(directory: Path, lines: list[str], window: int = 8192, **changes: Any) -> list[str]:
    path = directory / "new.txt"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    made = Predictor(bundle.load(directory), Backend.detect(FP32), Predict(**changes), Files(), window)
    return [line for some in made.lines([str(path)]) for line in some]


def test_few_examples_are_trained_on_in_small_batches(tmp_path: Path) -> None:
    for examples, steps in ((40, 2), (3000, 33)):  # batches of 32, of a 32nd
        done = train(
            tmp_path / str(examples), "bag", table(tmp_path / "a.tsv", texts(examples)), batch_size=0, epochs=1.0
        )
        assert done.steps == steps


@pytest.mark.sampled(law="a model without pretraining learns a task")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_word_that_says_it_all_is_found_by_each(arch: str, tmp_path: Path) -> None:
    done = train(tmp_path, arch, table(tmp_path / "a.tsv", texts(300)), table(tmp_path / "b.tsv", texts(60, 1)))
    assert done.metrics["valid_accuracy"] == 1.0 and list(done.metrics)[-1] == "valid_accuracy"
    found = bundle.load(tmp_path / "out")
    assert found.family == registry.TEXT_CLASSIFIER and artifacts.verify(tmp_path / "out")
    assert found.config["model_type"] == "nlptools-text-classifier" and found.config["arch"] == arch
    assert found.config["id2label"] == {"0": "bad", "1": "good"}
    new = texts(40, 2)
    lines = [*(text for text, _ in new), "", "never seen", new[0][0].upper()]
    said = predicted(tmp_path / "out", lines)
    assert [line.split("\t")[0] for line in said[:40]] == [label for _, label in new]
    assert len(said) == 43 and said[42] == said[0]  # lower-cased
    # neither windows nor batches change what is said
    assert predicted(tmp_path / "out", lines, window=7, batch_tokens=10) == said
    assert predicted(tmp_path / "out", lines, probabilities=True)[0].count("\t") == 1
    assert describe(tmp_path / "out")["tokenizer"]["kind"] == "words"


@pytest.mark.sampled(law="a stopped run goes on")
@pytest.mark.parametrize("arch", ["mean", "bag", "gru"])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(arch: str, tmp_path: Path) -> None:
    path, valid = table(tmp_path / "a.tsv", texts(100)), table(tmp_path / "b.tsv", texts(30, 1))
    more: dict[str, Any] = {"epochs": 2.0}
    whole = train(tmp_path, arch, path, valid, output=str(tmp_path / "whole"), **more)
    with stopped_at(6):
        train(tmp_path, arch, path, valid, **more)
    again = train(tmp_path, arch, path, valid, **more)
    assert again.steps == whole.steps == 14 and again.metrics["valid_loss"] == whole.metrics["valid_loss"]
    one, other = bundle.load(tmp_path / "whole").weights(), bundle.load(tmp_path / "out").weights()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def pairs(count: int, seed: int = 0) -> list[tuple[str, str, str]]:
    rng, made = random.Random(seed), []
    for _ in range(count):
        a, b = rng.choice(["good", "bad"]), rng.choice(["good", "bad"])
        made.append((f"w{rng.randrange(9)} {a}", f"{b} w{rng.randrange(9)}", "same" if a == b else "other"))
    return made


@pytest.mark.sampled(law="a model without pretraining learns a task")
@pytest.mark.parametrize("arch", ["mean", "bag", "cnn", "lstm"])
def test_pairs(arch: str, tmp_path: Path) -> None:
    more = {"epochs": 30.0, "lr": 0.2} if arch == "bag" else {"epochs": 10.0}
    path = table(tmp_path / "a.tsv", pairs(200))
    done = train(tmp_path, arch, path, table(tmp_path / "b.tsv", pairs(60, 1)), "pair", **more)
    assert done.metrics["valid_accuracy"] == 1.0
    said = predicted(tmp_path / "out", ["w1 good\tbad w2", "w1 good\tgood w2", "\t"])
    assert [line.split("\t")[0] for line in said[:2]] == ["other", "same"] and len(said) == 3


@pytest.mark.parametrize("arch", this_month(["mean", "bag"], 1))
def test_numbers(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_classifiers, "WORD_DROPOUT", {})  # every word counts here
    rng = random.Random(0)
    rows = []
    for _ in range(100):
        good = rng.randrange(4)
        rows.append((" ".join(["good"] * good + ["w1"] * (4 - good)), "w2", f"{good + 10}"))
    path = table(tmp_path / "a.tsv", rows)
    done = train(
        tmp_path, arch, path, path, "regress", epochs=60.0, dropout=0.0, **({"lr": 0.3} if arch == "bag" else {})
    )
    assert done.metrics["valid_pearson"] > 0.98
    (number,) = predicted(tmp_path / "out", ["good good w1 w1\tw2"])
    assert float(number) == pytest.approx(12, abs=0.4)


def vectors(path: Path, words: dict[str, list[float]]) -> Path:
    lines = [
        f"{len(words)} {len(next(iter(words.values())))}",
        *(f"{w} {' '.join(map(str, v))}" for w, v in words.items()),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_vectors_are_where_training_begins_and_frozen_ones_stay(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [("good w1", "yes"), ("bad w1", "no")] * 40
    given = {"good": [3.0, 0, 0], "bad": [0, 3.0, 0], "fine": [2.9, 0.1, 0], "Good": [9.0, 9, 9]}
    file = vectors(tmp_path / "v.txt", given)
    path = table(tmp_path / "a.tsv", rows)
    train(tmp_path, "mean", path, vectors=str(file), freeze="all", epochs=20.0)
    assert "2 of 3 words" in capfd.readouterr().err
    found = bundle.load(tmp_path / "out")
    weight, ids = found.weights()["token_embedding.weight"], found.tokenizer.vocab.ids
    for word in ("good", "bad", "fine"):
        assert weight[ids[word]].tolist() == pytest.approx(given[word])
    assert "Good" not in ids and "w1" in ids and 0 < weight[ids["w1"]].abs().max() < 5
    # a word of the file that training has not seen is understood
    said = predicted(tmp_path / "out", ["fine", "good"])
    assert [line.split("\t")[0] for line in said] == ["yes", "yes"]
    train(tmp_path, "mean", path, vectors=str(file), epochs=2.0, force=True)
    moved = bundle.load(tmp_path / "out").weights()["token_embedding.weight"]
    assert (moved[ids["good"]] - weight[ids["good"]]).abs().max() > 1e-3
    assert torch.equal(moved[ids["fine"]], weight[ids["fine"]])


def test_a_tokenizer_with_a_vocabulary_of_its_own(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(200))
    done = train(tmp_path, "cnn", path, path, tokenizer="bytes", epochs=8.0)
    assert done.metrics["valid_accuracy"] > 0.9
    assert bundle.load(tmp_path / "out").config["vocab_size"] == 257
    assert len(predicted(tmp_path / "out", ["", "good"])) == 2


def test_ngrams_tell_what_words_do_not(tmp_path: Path) -> None:
    rng, rows = random.Random(0), []
    for _ in range(300):
        order = rng.random() < 0.5
        rows.append((f"w{rng.randrange(5)} {'a b' if order else 'b a'} w{rng.randrange(5)}", str(order)))
    path = table(tmp_path / "a.tsv", rows)
    more: dict[str, Any] = {"lr": 0.3, "epochs": 10.0}
    done = train(tmp_path, "bag", path, path, word_ngrams=2, **more)
    assert done.metrics["valid_accuracy"] == 1.0
    found = bundle.load(tmp_path / "out")
    assert found.config["num_ngrams"] == len(found.weights()["buckets"]) < 60
    assert np.all(np.diff(found.weights()["buckets"].numpy()) > 0)
    assert train(tmp_path, "bag", path, path, word_ngrams=1, force=True, **more).metrics["valid_accuracy"] < 0.8
    # unknown words are known by their characters
    rows = [(f"x{rng.randrange(1000)}{end}", end) for end in ("ing", "ed") for _ in range(200)]
    path = table(tmp_path / "c.tsv", rows)
    train(tmp_path, "bag", path, char_ngrams="2-3", force=True, **more)
    said = predicted(tmp_path / "out", ["qqing", "qqed"])
    assert [line.split("\t")[0] for line in said] == ["ing", "ed"]


def test_long_texts_are_cut_and_rare_words_unknown(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", [("good a b c d", "x"), ("bad a b c d", "y")] * 20)
    train(tmp_path, "mean", path, max_length=4, min_count=21, epochs=1.0)
    data = json.loads((tmp_path / "out" / "training.json").read_text())["data"]["train"]
    assert data["cut"] == 40 and data["tokens"] == 160
    vocab = bundle.load(tmp_path / "out").tokenizer.vocab
    assert vocab is not None and vocab.tokens == ["<pad>", "<unk>", "a", "b", "c", "d"]


def test_words_that_are_called_as_marks(tmp_path: Path) -> None:
    rows = [("<pad> <unk> good", "yes"), ("<unk> bad", "no")] * 40
    done = train(
        tmp_path, "mean", table(tmp_path / "a.tsv", rows), tmp_path / "a.tsv", tokenizer="whitespace", epochs=30.0
    )
    assert done.metrics["valid_accuracy"] == 1.0


def test_what_does_not_go_together(tmp_path: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(20))
    for arch, changes, said in (
        ("mean", {"layers": "1"}, "--layers"),
        ("mean", {"freeze": "2"}, "--freeze 2"),
        ("bag", {"freeze": "all"}, "--freeze all"),
        ("mean", {"model": "x"}, "either --model"),
        ("cnn", {"char_ngrams": "3-6"}, "--char-ngrams"),
        ("transformer", {"hidden_size": 12}, "a multiple of 8"),
        ("mean", {"task": "tag"}, "--scratch mean: expected cnn"),
        ("mean", {"task": "answer"}, "--scratch applies to --task classify, pair, regress, tag only"),
    ):
        with pytest.raises(UsageError, match=said):
            train(tmp_path, arch, path, **changes)
    with pytest.raises(UsageError, match="either --model"):
        Finetune(task="classify").check()
    with pytest.raises(InputError):
        train(tmp_path, "mean", path, vectors=str(tmp_path / "none.txt"))
    with pytest.raises(InputError, match="no such tokenizer"):
        train(tmp_path, "mean", path, tokenizer="wrods")
    with pytest.raises(DataError, match="occurs 1000 times"):
        train(tmp_path, "mean", path, min_count=1000)


def test_a_damaged_directory(tmp_path: Path) -> None:
    train(tmp_path, "bag", table(tmp_path / "a.tsv", texts(40)), epochs=1.0)
    (tmp_path / "out" / "manifest.json").unlink()
    config = tmp_path / "out" / "config.json"
    said = json.loads(config.read_text())
    for name, value in (("num_ngrams", 10**6), ("arch", "tree"), ("num_labels", 3), ("vocab_size", 3)):
        config.write_text(json.dumps({**said, name: value}))
        with pytest.raises(BundleError):
            bundle.load(tmp_path / "out")
