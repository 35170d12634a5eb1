"""Every task on top of a GPT: learnt, predicted, continued; what is done with such a directory besides."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import this_month

import nlptools
from nlptools import bundle
from nlptools.batches.encoder_rows import EncoderRows
from nlptools.batches.features import Features
from nlptools.compute.backend import Backend
from nlptools.configs.embed import Embed
from nlptools.configs.export import Export
from nlptools.configs.generation import Generate
from nlptools.configs.layers import layers
from nlptools.converters.onnx_export import export
from nlptools.errors import UsageError
from nlptools.models import registry
from nlptools.models.language.gpt import GPT, GPTConfig
from nlptools.models.tasks.with_heads import WithHeads
from nlptools.tasks import outputs
from tests.tasks.answer.test_task import questions, scores
from tests.tasks.choice.test_task import choices
from tests.tasks.classify.test_task import predicted
from tests.tasks.coreference.test_task import gap
from tests.tasks.tag.test_task import columns, sentences
from tests.tasks.tiny_tasks import FP32, gpt, stop_and_go_on, table, texts, train


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A language model where `train` looks for what it begins with."""
    return gpt(tmp_path / "encoder")


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return dict(bundle.load(directory).weights())


@pytest.mark.sampled(law="a language model learns a task")
def test_labels(tmp_path: Path, base: Path) -> None:
    done = train(tmp_path, table(tmp_path / "a.tsv", texts(200)), table(tmp_path / "b.tsv", texts(60, 1)))
    assert done.metrics["valid_accuracy"] == 1.0
    found = bundle.load(tmp_path / "out")
    assert found.arch == "transformer-tasks" and found.family == registry.TASK_DECODER
    assert found.config["architectures"] == ["GPT2ForSequenceClassification"]
    assert found.config["pad_token_id"] == found.config["eos_token_id"] == found.eos == 0
    new = texts(40, 2)
    (tmp_path / "new.txt").write_text("".join(f"{text}\n" for text, _ in new) + "\n\n")
    lines = predicted(tmp_path / "out", tmp_path / "new.txt")
    assert [line.split("\t")[0] for line in lines[:40]] == [label for _, label in new]
    assert len(lines) == 42 and lines[40] == lines[41]  # an empty text gets an answer, too
    assert predicted(tmp_path / "out", tmp_path / "new.txt", window=5, batch_tokens=10) == lines


@pytest.mark.sampled(law="a language model learns a task")
def test_pairs_and_numbers(tmp_path: Path, base: Path) -> None:
    rng, rows = random.Random(0), []
    for _ in range(300):
        a, b = rng.choice(["good", "bad"]), rng.choice(["good", "bad"])
        rows.append((f"{a} w{rng.randrange(20)}", f"w{rng.randrange(20)} {b}", "same" if a == b else "other"))
    path, valid = table(tmp_path / "a.tsv", rows[:240]), table(tmp_path / "b.tsv", rows[240:])
    done = train(tmp_path, path, valid, task="pair", epochs=6.0)
    assert done.metrics["valid_accuracy"] > 0.95
    numbers = [(text, text.replace("good", "bad"), "4.5" if label == "good" else "2.5") for text, label in texts(200)]
    path = table(tmp_path / "n.tsv", numbers)
    done = train(tmp_path, path, path, task="regress", epochs=8.0, output=str(tmp_path / "number"))
    assert done.metrics["valid_pearson"] > 0.98 and done.metrics["valid_loss"] < 0.1
    assert bundle.load(tmp_path / "number").config["problem_type"] == "regression"


@pytest.mark.sampled(law="a language model learns a task")
@pytest.mark.parametrize("crf", this_month([False, True], 1))
def test_tags(tmp_path: Path, base: Path, crf: bool) -> None:
    path, valid = columns(tmp_path / "a.txt", sentences(300, 0, 40)), columns(tmp_path / "b.txt", sentences(40, 1, 40))
    done = train(tmp_path, path, valid, task="tag", epochs=10.0, crf=crf)
    assert done.metrics["valid_f1"] > 0.95  # I-A after `good` is told by what came before
    found = bundle.load(tmp_path / "out")
    assert found.config["architectures"] == ["GPT2ForTokenClassification"]
    assert found.model.heads == (("tokens", "crf") if crf else ("tokens",))  # type: ignore[attr-defined]
    lines = predicted(tmp_path / "out", valid)
    assert predicted(tmp_path / "out", valid, window=7, batch_tokens=30) == lines


def roles(path: Path, count: int, seed: int = 0) -> Path:
    """CoNLL-U with a predicate, w1 or w2: `good` and `bad` change their roles with it, wherever it stands."""
    rng, lines = random.Random(seed), []
    for _ in range(count):
        words = ["good", "bad", "w1", "w2", f"w{rng.randrange(3, 20)}"]
        rng.shuffle(words)
        chosen = rng.choice(["w1", "w2"])
        of = {"good": "ARG0", "bad": "ARG1"} if chosen == "w1" else {"good": "ARG1", "bad": "ARG0"}
        for number, word in enumerate(words, 1):
            role = "V" if word == chosen else of.get(word, "_")
            sense = "w.01" if word == chosen else "_"
            lines.append("\t".join([str(number), word, word, "X", "_", "_", "0", "_", "_", "_", sense, role]))
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.sampled(law="a language model learns a task")
def test_roles_know_their_predicate(tmp_path: Path, base: Path) -> None:
    done = train(
        tmp_path, roles(tmp_path / "a.conllu", 300), roles(tmp_path / "b.conllu", 50, 1), task="roles", epochs=6.0
    )
    assert done.metrics["valid_f1"] > 0.95


@pytest.mark.sampled(law="a language model learns a task")
def test_answers_and_none(tmp_path: Path, base: Path) -> None:
    how: dict[str, Any] = {"task": "answer", "epochs": 6.0, "lr": 4e-3, "stride": 8}
    path, valid = (
        questions(tmp_path / "a.json", 300, impossible=0.3),
        questions(tmp_path / "b.json", 60, 1, impossible=0.3),
    )
    done = train(tmp_path, path, valid, **how)
    assert done.metrics["valid_f1"] > 90
    assert scores(tmp_path / "out", valid, "2.0")["f1"] == pytest.approx(done.metrics["valid_f1"], abs=1e-9)
    assert bundle.load(tmp_path / "out").config["architectures"] == ["GPT2ForQuestionAnswering"]
    lines = predicted(tmp_path / "out", valid)
    assert "" in lines and predicted(tmp_path / "out", valid, window=7, batch_tokens=50) == lines


@pytest.mark.sampled(law="a language model learns a task")
def test_yes_and_places(tmp_path: Path, base: Path) -> None:
    how: dict[str, Any] = {"task": "answer", "epochs": 6.0, "lr": 4e-3, "stride": 8}
    path, valid = questions(tmp_path / "a.json", 300, yes=True), questions(tmp_path / "b.json", 60, 1, yes=True)
    train(tmp_path, path, valid, **how)
    lines = predicted(tmp_path / "out", valid)
    assert 10 < lines.count("yes") < 50 and sum(line.startswith("w") for line in lines) > 10
    assert train(tmp_path, path, valid, **how, force=True).metrics["valid_f1"] > 90


@pytest.mark.sampled(law="a language model learns a task")
def test_endings(tmp_path: Path, base: Path) -> None:
    done = train(tmp_path, choices(tmp_path / "a.jsonl", 300), choices(tmp_path / "b.jsonl", 50, 1), task="choice")
    assert done.metrics["valid_accuracy"] > 0.95
    assert bundle.load(tmp_path / "out").config["architectures"] == ["GPT2Model"]
    lines = predicted(tmp_path / "out", tmp_path / "b.jsonl")
    assert predicted(tmp_path / "out", tmp_path / "b.jsonl", window=3, batch_tokens=10) == lines


@pytest.mark.sampled(law="a language model learns a task")
def test_pronouns(tmp_path: Path, base: Path) -> None:
    how: dict[str, Any] = {"task": "coreference", "epochs": 4.0, "lr": 4e-3}
    done = train(tmp_path, gap(tmp_path / "a.tsv", 400), gap(tmp_path / "b.tsv", 60, 1), **how)
    assert done.metrics["valid_f1"] > 0.9
    lines = predicted(tmp_path / "out", tmp_path / "b.tsv")
    assert predicted(tmp_path / "out", tmp_path / "b.tsv", window=7, batch_tokens=40) == lines


@pytest.mark.sampled(law="a stopped run goes on")
def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    gpt(tmp_path / "encoder", embedding_dropout=0.1, hidden_dropout=0.1, attention_dropout=0.1)
    stop_and_go_on(tmp_path)


def test_frozen_layers_stay_as_they_are(tmp_path: Path, base: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(60))
    before = {f"encoder.{name}": tensor for name, tensor in weights(base).items()}
    train(tmp_path, path, freeze="1", epochs=1.0)
    after = weights(tmp_path / "out")
    moved = {name for name, tensor in before.items() if not torch.equal(tensor, after[name])}
    assert {"encoder.norm.weight", "encoder.norm.bias"} < moved and any(".blocks.1." in name for name in moved)
    assert all(bundle.load(tmp_path / "out").model.part_of(name) >= 2 for name in moved)
    train(tmp_path, path, freeze="all", epochs=1.0, force=True)
    after = weights(tmp_path / "out")
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_seeds_folds_dropout_and_layers(tmp_path: Path, base: Path) -> None:
    path, valid = table(tmp_path / "a.tsv", texts(60)), table(tmp_path / "b.tsv", texts(20, 1))
    done = train(tmp_path, path, valid, seeds=2, epochs=1.0, encoder_dropout=0.2, layers="mean:-2:")
    assert set(done.metrics["repeats"]["runs"]) == {"seed-1", "seed-2"}
    sizes = bundle.load(tmp_path / "out").model.config  # type: ignore[attr-defined]
    assert sizes.embedding_dropout == sizes.hidden_dropout == sizes.attention_dropout == 0.2
    assert len(predicted(tmp_path / "out", valid, text_column=("1",), label_column="2")) == 20
    done = train(tmp_path, path, folds=2, epochs=1.0, output=str(tmp_path / "folds"))
    assert set(done.metrics["repeats"]["runs"]) == {"fold-1", "fold-2"}


@pytest.mark.sampled(law="a language model learns a task")
def test_it_learns_on_from_another_task(tmp_path: Path, base: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(60))
    train(tmp_path, path, epochs=1.0)
    train(tmp_path, path, epochs=1.0, model=str(tmp_path / "out"), output=str(tmp_path / "on"), lr=0.0)
    one, other = weights(tmp_path / "out"), weights(tmp_path / "on")
    assert all(
        torch.equal(tensor, other[name]) for name, tensor in one.items()
    )  # the head, too: it has the same labels
    tagged = columns(tmp_path / "a.txt", sentences(30))
    train(tmp_path, tagged, task="tag", epochs=1.0, model=str(tmp_path / "out"), output=str(tmp_path / "tags"))
    assert bundle.load(tmp_path / "tags").model.heads == ("tokens",)  # type: ignore[attr-defined]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("head", ["sequence", "tokens", "spans", "choice"])
@pytest.mark.parametrize("which", ["last", "1", "mean:-2:"])
def test_logits_are_those_of_each_row_alone_and_padding_changes_nothing(head: str, which: str) -> None:
    torch.manual_seed(0)
    model = WithHeads(GPT(GPTConfig(50, 32, 2, 4, 40, initializer_range=0.3)), (head,), 3)
    model.initialize()
    model.eval().requires_grad_(False)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 30, 20)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, 50, bounds[-1])
    made = Features(EncoderRows(ids.astype(np.int32), np.zeros(len(ids), np.uint8), bounds))
    found = outputs.logits(model, head, made, Backend.detect(FP32), layers(which), batch_tokens=64)
    batch = made.rows.batch(np.arange(20), 0)
    mask = torch.from_numpy(batch.mask)
    padded = outputs.hidden_states(model, head, layers(which), torch.from_numpy(batch.ids), mask, None)
    together = model.task_logits(head, padded).numpy()
    assert found is not None and len(found) == 20
    for i, row in enumerate(found):
        given = (torch.from_numpy(ids[bounds[i] : bounds[i + 1]])[None], None, None)
        expected = model.task_logits(head, outputs.hidden_states(model, head, layers(which), *given))[0].numpy()
        assert row.shape == expected.shape and np.allclose(row, expected, atol=1e-4)
        padded_row = together[i][: lengths[i]] if head in ("tokens", "spans") else together[i]
        assert np.allclose(padded_row, expected, atol=1e-4)


def test_what_else_is_done_with_the_directory(tmp_path: Path, base: Path) -> None:
    path = table(tmp_path / "a.tsv", texts(30))
    train(tmp_path, path, epochs=1.0, freeze="all")
    out = tmp_path / "out"
    lines = ["w1 good", "", "bad w2 w3"]
    made = [
        np.stack(list(nlptools.load(each, settings=Embed(), precision="fp32").embed(lines))) for each in (base, out)
    ]
    assert np.allclose(*made)  # the vectors of the language model, whose weights did not change
    assert type(nlptools.load(out, threads=1)).__name__ == "Predictor"
    with pytest.raises(UsageError, match="a decoder with the head of a task, which generate cannot take"):
        nlptools.load(out, settings=Generate())
    with pytest.raises(UsageError, match="export needs a BERT or an ELECTRA"):
        export(out, Export(output=str(tmp_path / "x.onnx")))
    described = nlptools.describe(out)
    assert described["model"]["architecture"] == "transformer-tasks"
