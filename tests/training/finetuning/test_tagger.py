"""Taggers without pretraining as a task: learned, stopped and continued, saved and opened."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import this_month

from nlptools import bundle
from nlptools.configs.finetuning import Finetune, FinetuneTraining
from nlptools.configs.tasks.files import Files
from nlptools.configs.tasks.words import Scratch
from nlptools.configs.word_taggers import ARCHITECTURES, PRESETS
from nlptools.errors import BundleError, DataError, InputError, UsageError
from nlptools.files import artifacts
from nlptools.inference.description import describe
from nlptools.metrics import spans
from nlptools.metrics.tags import read_tags
from nlptools.models import registry
from nlptools.training.engine.job import Trained
from nlptools.training.finetuning.finetune import finetune
from tests.tasks.tiny_tags import columns, predicted, sentences
from tests.tasks.tiny_tasks import FP32, stopped_at

SMALL = {"dim": 16, "hidden_size": 16, "char_dim": 8, "dropout": 0.1, "lr": 1e-2, "epochs": 4.0, "batch_size": 8}


def train(tmp_path: Path, path: Path, valid: Path | None = None, arch: str = "lstm", **changes: Any) -> Trained:
    """Train into `tmp_path`/out."""
    how = {**PRESETS[f"tag {arch}"], **SMALL, "output": str(tmp_path / "out"), "task": "tag", **changes}
    how |= {"valid": valid and str(valid), "save_every": "never"}

    def settings(kind: Any) -> Any:
        return kind(**{name: how.pop(name) for name in list(how) if name in kind.__dataclass_fields__})

    run, scratch, files = settings(FinetuneTraining), settings(Scratch), settings(Files)
    return finetune([str(path)], Finetune(scratch=arch, **how), run, FP32, files, scratch)


def config(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = bundle.load(directory).config
    return found


EACH_WITH_A_CRF = [(arch, True) for arch in ARCHITECTURES]
WITHOUT = this_month([(arch, False) for arch in ARCHITECTURES], 1)


@pytest.mark.sampled(law="a model without pretraining learns a task")
@pytest.mark.parametrize(("arch", "crf"), [*EACH_WITH_A_CRF, *WITHOUT])
def test_spans_are_learned_by_each(arch: str, crf: bool, tmp_path: Path) -> None:
    path, valid = columns(tmp_path / "a.txt", sentences(200)), columns(tmp_path / "b.txt", sentences(40, 1))
    # the word before is what a Transformer finds last; labels word by word have an F1 of about 0.5
    slow, least = ({"hidden_size": 32, "lr": 3e-3}, 0.7) if arch == "transformer" else ({}, 0.97)
    done = train(tmp_path, path, valid, arch, crf=crf, **slow)
    assert done.metrics["valid_f1"] > least and list(done.metrics)[-1] == "valid_f1" and "words" in done.metrics
    found = bundle.load(tmp_path / "out")
    assert found.family == registry.WORD_TAGGER and artifacts.verify(tmp_path / "out")
    assert found.config["model_type"] == "nlptools-word-tagger" and found.config["arch"] == arch
    assert found.config["crf"] == crf and found.heads == (("tokens", "crf") if crf else ("tokens",))
    assert found.config["id2label"] == {"0": "O", "1": "B-A", "2": "I-A", "3": "B-B", "4": "I-B"}
    # what `predict` writes has the F1 of the validation; neither windows nor batches change it
    lines = predicted(tmp_path / "out", valid, columns=True)
    assert predicted(tmp_path / "out", valid, columns=True, window=7, batch_tokens=10) == lines
    (tmp_path / "tagged").write_text("".join(f"{line}\n" for line in lines))
    numbers = spans.entities(*read_tags([tmp_path / "tagged"]), "conlleval").values()
    assert numbers["f1"] == pytest.approx(done.metrics["valid_f1"], abs=1e-9)
    (tmp_path / "c.txt").write_text("w1 good w2\n\nbad\nnever seen\n")
    said = predicted(tmp_path / "out", tmp_path / "c.txt", layout="lines")
    assert said[1:3] == ["", "B-B"] and len(said[3].split()) == 2
    assert said[0] == "O B-A I-A" or arch == "transformer"


def endings(count: int, seed: int = 0) -> list[list[tuple[str, str]]]:
    """Words of random letters; only their first letter and their ending tell the tag."""
    rng, made = random.Random(seed), []
    for _ in range(count):
        rows = []
        for _ in range(rng.randrange(1, 6)):
            stem, ending = "".join(rng.choices("klmnop", k=4)), rng.choice(["ing", "ed"])
            capital = rng.random() < 0.5
            rows.append(((stem.title() if capital else stem) + ending, f"{ending}{capital}"))
        made.append(rows)
    return made


@pytest.mark.sampled(law="a model without pretraining learns a task")
def test_the_spelling_of_unknown_words_tells_their_tags(tmp_path: Path) -> None:
    path, valid = columns(tmp_path / "a.txt", endings(150)), columns(tmp_path / "b.txt", endings(40, 1))
    for characters, right in (("cnn", True), ("lstm", True), ("none", False)):
        done = train(tmp_path, path, valid, characters=characters, epochs=6.0, force=True)
        assert (done.metrics["valid_accuracy"] > 0.95) == right, characters
        assert bool(config(tmp_path / "out")["alphabet"]) == right
    assert done.metrics["valid_accuracy"] < 0.7


@pytest.mark.sampled(law="a model without pretraining learns a task")
def test_words_that_share_no_character_are_learned(tmp_path: Path) -> None:
    """Each word is a character: that of a place name is learned by those around it, as a word and as a spelling."""
    rows = [
        [(c, tag) for c, tag in zip(text, tags.split(), strict=True)]
        for text, tags in (("私は神戸へ", "O O B-P I-P O"), ("神社の前で", "O O O O O"), ("명동에서", "B-P I-P O O"))
    ]
    path = columns(tmp_path / "a.txt", rows * 12)
    for arch, characters in (("lstm", "cnn"), ("cnn", "cnn"), ("lstm", "lstm")):
        done = train(tmp_path, path, path, arch, characters=characters, epochs=15.0, force=True)
        assert done.metrics["valid_f1"] == 1, (arch, characters)
        assert set(config(tmp_path / "out")["alphabet"]) == {word for row in rows for word, _ in row}


def test_an_alphabet_without_a_character_works(tmp_path: Path) -> None:
    """Every word occurs once, and shares no character with another."""
    path = columns(tmp_path / "a.txt", [[("ab", "X"), ("c", "Y"), ("defg", "X")], [("한", "Y")], [("Ж", "X")]])
    for characters in ("cnn", "lstm"):  # a loss that is not finite in each step would end in an error
        train(tmp_path, path, characters=characters, force=True)
        assert config(tmp_path / "out")["alphabet"] == ""
        assert len(predicted(tmp_path / "out", path, columns=True)) == 8


@pytest.mark.sampled(law="a stopped run goes on")
@pytest.mark.parametrize("arch", ["lstm", "cnn"])
def test_a_stopped_run_goes_on_as_if_it_had_not_been(arch: str, tmp_path: Path) -> None:
    path, valid = columns(tmp_path / "a.txt", sentences(60)), columns(tmp_path / "b.txt", sentences(20, 1))
    more: dict[str, Any] = {"epochs": 2.0, "crf": True, "arch": arch}
    whole = train(tmp_path, path, valid, output=str(tmp_path / "whole"), **more)
    with stopped_at(6):
        train(tmp_path, path, valid, **more)
    again = train(tmp_path, path, valid, **more)
    assert again.steps == whole.steps == 16 and again.metrics["valid_loss"] == whole.metrics["valid_loss"]
    one, other = bundle.load(tmp_path / "whole").weights(), bundle.load(tmp_path / "out").weights()
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    with pytest.raises(Exception, match="characters"):
        train(tmp_path, path, valid, characters="none", **more)


def vectors(path: Path, words: dict[str, list[float]]) -> str:
    lines = [f"{len(words)} 2", *(f"{word} {' '.join(map(str, vector))}" for word, vector in words.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_words_of_the_vector_file_are_known(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = columns(tmp_path / "a.txt", [[("good", "YES"), ("w1", "O")], [("Bad", "NO"), ("w2", "O")]] * 30)
    given = {"good": [3.0, 0], "bad": [0, 3.0], "fine": [2.9, 0.1], "evil": [0.1, 2.9], "Fine": [9.0, 9.0]}
    file = vectors(tmp_path / "v.txt", given)
    more: dict[str, Any] = {"vectors": file, "characters": "none", "epochs": 10.0, "force": True}
    train(tmp_path, path, freeze="all", **more)
    assert "2 of 4 words of the training texts have one; 1 word with capitals skipped" in capfd.readouterr().err
    found = bundle.load(tmp_path / "out")
    ids, sizes, weights = found.tokenizer.vocab.ids, found.config, found.weights()
    assert list(ids) == ["<pad>", "<unk>", "bad", "good", "w1", "w2", "fine", "evil"]
    assert (sizes["vocab_size"], sizes["trained"], sizes["rare"], sizes["embedding_size"]) == (8, 6, 6, 2)
    assert weights["words.weight"][ids["bad"]].tolist() == [0, 3]
    assert weights["more_words.weight"].tolist() == [pytest.approx(given["fine"]), pytest.approx(given["evil"])]
    (tmp_path / "b.txt").write_text("Fine w1\nevil w2\n")
    assert predicted(tmp_path / "out", tmp_path / "b.txt", layout="lines") == ["YES O", "NO O"]
    # vectors that are trained move, those that training lacks do not
    train(tmp_path, path, max_vectors=3, **more)
    found = bundle.load(tmp_path / "out")
    assert found.weights()["words.weight"][ids["bad"]].tolist() != [0, 3]
    assert found.weights()["more_words.weight"].tolist() == [pytest.approx(given["fine"])]
    # with capitals: a word's own vector, else that of its lower-case form
    train(tmp_path, path, lowercase=False, freeze="all", **more)
    found = bundle.load(tmp_path / "out")
    ids, weights = found.tokenizer.vocab.ids, found.weights()
    assert "Bad" in ids and weights["words.weight"][ids["Bad"]].tolist() == [0, 3] and "Fine" in ids


def test_a_word_that_occurs_once_and_has_no_vector_is_rare(tmp_path: Path) -> None:
    path = columns(tmp_path / "a.txt", [[("a", "X"), ("a", "X"), ("once", "Y"), ("good", "X")]])
    train(tmp_path, path, epochs=1.0)
    assert (config(tmp_path / "out")["trained"], config(tmp_path / "out")["rare"]) == (5, 3)
    train(tmp_path, path, epochs=1.0, vectors=vectors(tmp_path / "v.txt", {"good": [1.0, 2]}), force=True)
    assert (config(tmp_path / "out")["trained"], config(tmp_path / "out")["rare"]) == (5, 4)
    train(tmp_path, path, epochs=1.0, min_count=2, force=True)
    assert (config(tmp_path / "out")["trained"], config(tmp_path / "out")["rare"]) == (3, 3)


def test_sentences_longer_than_a_row_and_words_longer_than_any(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [*sentences(60), [("x" * 5000, "O"), ("good", "B-A"), ("w1", "I-A")]]
    train(tmp_path, columns(tmp_path / "a.txt", rows), crf=True, max_length=4)
    assert "1 word is longer than 64 characters" in capfd.readouterr().err
    assert config(tmp_path / "out")["nlptools"]["task"]["max_length"] == 4
    long = columns(tmp_path / "b.txt", [sentences(1, 5, 3)[0] * 60, sentences(1, 6)[0]])
    lines = predicted(tmp_path / "out", long, columns=True)
    assert [line.rsplit(" ", 1)[0] for line in lines if line] == [line for line in long.read_text().split("\n") if line]


def test_several_seeds_and_a_description(tmp_path: Path) -> None:
    path, valid = columns(tmp_path / "a.txt", sentences(60)), columns(tmp_path / "b.txt", sentences(20, 1))
    done = train(tmp_path, path, valid, seeds=2, epochs=1.0)
    assert set(done.metrics["repeats"]["runs"]) == {"seed-1", "seed-2"}
    assert describe(tmp_path / "out")["tokenizer"]["kind"] == "whitespace"


@pytest.mark.parametrize(
    ("arch", "changes", "message"),
    [
        ("mean", {}, "--scratch mean: expected cnn, lstm, gru, rnn, transformer with --task tag"),
        ("lstm", {"task": "roles"}, "--scratch applies to --task classify, pair, regress, tag only"),
        ("lstm", {"task": "classify"}, "--characters applies to --task tag only"),
        ("lstm", {"tokenizer": "whitespace"}, "--tokenizer applies to --task classify, pair, regress only"),
        ("lstm", {"char_ngrams": "3-6"}, "--char-ngrams applies to --"),
        ("lstm", {"layers": "1"}, "--layers"),
        ("lstm", {"freeze": "2"}, "--freeze 2"),
        ("lstm", {"characters": "lstm", "char_dim": 7}, "--char-dim 7: expected an even number"),
        ("transformer", {"hidden_size": 12}, "a multiple of 8"),
    ],
)
def test_what_does_not_go_together(arch: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = columns(tmp_path / "a.txt", sentences(5))
    presets = {} if arch in ARCHITECTURES else {"characters": None}
    with pytest.raises(UsageError, match=message):
        how = {**SMALL, **PRESETS.get(f"tag {arch}", {}), **presets, **changes, "output": str(tmp_path / "out")}
        task = how.pop("task", "tag")

        def settings(kind: Any) -> Any:
            return kind(**{name: how.pop(name) for name in list(how) if name in kind.__dataclass_fields__})

        run, scratch = settings(FinetuneTraining), settings(Scratch)
        finetune([str(path)], Finetune(task=task, scratch=arch, **how), run, FP32, Files(), scratch)


def test_bad_input_is_refused_as_for_encoders(tmp_path: Path) -> None:
    for text, message in (
        ("word\n\n", r"a\.txt:1: 1 column, expected a word and a tag"),
        ("a O\nb\n\n", r"a\.txt:2: 1 column, expected 2"),
        ("\n\n", "no examples to train on"),
        ("a O\nb O\n\n", "only one class: every tag is 'O'"),
    ):
        (tmp_path / "a.txt").write_text(text)
        with pytest.raises(DataError, match=message):
            train(tmp_path, tmp_path / "a.txt")
    path = columns(tmp_path / "a.txt", sentences(5))
    with pytest.raises(DataError, match="occurs 1000 times"):
        train(tmp_path, path, min_count=1000)
    with pytest.raises(InputError):
        train(tmp_path, path, vectors=str(tmp_path / "none.txt"))
    with pytest.raises(DataError, match="the tag 'B-C' was not seen in training"):
        train(tmp_path, path, columns(tmp_path / "b.txt", [[("w1", "B-C")]]))


def test_a_damaged_directory(tmp_path: Path) -> None:
    train(tmp_path, columns(tmp_path / "a.txt", sentences(10)), epochs=1.0)
    (tmp_path / "out" / "manifest.json").unlink()
    path = tmp_path / "out" / "config.json"
    good = json.loads(path.read_text())
    for name, value in (("trained", 10**6), ("arch", "tree"), ("alphabet", "ab"), ("vocab_size", 3), ("crf", True)):
        path.write_text(json.dumps({**good, name: value}))
        with pytest.raises(BundleError):
            bundle.load(tmp_path / "out")
    path.write_text(json.dumps({**good, "unk": 2}))
    with pytest.raises(BundleError, match="another unknown word"):
        predicted(tmp_path / "out", tmp_path / "a.txt")
