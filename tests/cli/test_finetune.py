"""finetune and predict as commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run

from tests.tasks.answer.test_task import questions
from tests.tasks.tag.test_task import columns, iob1, sentences
from tests.tasks.tiny_tasks import encoder, table, texts


@pytest.mark.sampled(law="examples run")
def test_from_examples_to_answers(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    table(tmp_path / "train.tsv", texts(300))
    table(tmp_path / "valid.tsv", texts(40, 1))
    how = ("--lr", "3e-3", "--epochs", 4, "--threads", 1, "--save-every", "never")
    done = call(
        "finetune", "--task", "classify", "-m", "encoder", "--valid", "valid.tsv", *how, "-o", "out", "train.tsv"
    )
    assert done.code == 0 and done.out == b"" and "validation accuracy 1.0000 (step " in done.err, done.err
    said = call("predict", "out", "--threads", 1, stdin="w1 good w2\n\nbad w3")
    assert said.code == 0 and [line.split("\t")[0] for line in said.lines][::2] == ["good", "bad"]
    assert len(said.lines) == 3
    slow = call("predict", "out", "--threads", 1, "--line-buffered", stdin="w1 good w2\n\nbad w3")
    assert slow.out == said.out
    given = call("predict", "out", "--threads", 1, "--text", "w1 good w2", "--text", "bad w3")
    assert given.lines == said.lines[::2]
    missing = call("predict", "out", "w1 good")
    assert missing.code == 66 and missing.err.endswith("  hint: for the text itself: --text 'w1 good'\n")
    shown = call("predict", "out", "--threads", 1, "--columns", stdin='{"text": "good", "id": 5}\n')
    assert shown.text.startswith('{"text": "good", "id": 5, "prediction": "good", "probability": ')


def test_mostly_unknown_text_needs_force(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    (tmp_path / "train.tsv").write_text("хорошо очень\tgood\nплохо весьма\tbad\n" * 20)
    args = ("finetune", "--task", "classify", "-m", "encoder", "--steps", 1, "--threads", 1, "-o", "out")
    done = call(*args, "train.tsv")
    assert done.code == 65 and "of the tokens of the training data are unknown to the tokenizer" in done.err, done.err
    done = call(*args, "--force", "train.tsv")
    assert done.code == 0 and "warning: " in done.err
    done = call("embed", "encoder", "--threads", 1, "--to", "jsonl", stdin="хорошо очень\n")
    assert done.code == 0 and "of the tokens of the text are unknown to the tokenizer" in done.err


def test_a_label_unseen_in_training_ends_the_run(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    table(tmp_path / "train.tsv", texts(30))
    table(tmp_path / "valid.tsv", [("w1 good", "good"), ("w1", "fair")])
    done = call("finetune", "--task", "classify", "-m", "encoder", "--valid", "valid.tsv", "-o", "out", "train.tsv")
    assert done.code == 65 and "valid.tsv:2: the label 'fair' was not seen in training" in done.err
    again = call(
        "finetune", "--task", "classify", "-m", "encoder", "--dry-run", "--valid", "valid.tsv", "-o", "x", "train.tsv"
    )
    assert again.code == 0 and "dry run" in again.err and not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--task", "clasify", "-m", "x"), "no such task: 'clasify'"),
        (("--task", "classify", "-m", "x", "--layers", "concat"), "not a choice of layers"),
        (("--task", "classify", "-m", "x", "--folds", "1"), "leaves nothing to train on"),
        (("--task", "classify", "-m", "x", "--class-weights", "a"), "not a weight: 'a'"),
        (
            ("--task", "regress", "-m", "x", "--class-weights", "balanced"),
            "--class-weights applies to --task classify, pair only",
        ),
    ],
)
def test_usage(call: Run, args: tuple[str, ...], told: str) -> None:
    done = call("finetune", *args, "-o", "out")
    assert done.code == 2 and told in done.err


def test_entities_from_columns_to_their_f1(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    columns(tmp_path / "eng.train", iob1(sentences(150)))
    columns(tmp_path / "eng.testa", iob1(sentences(40, 1)))
    how = ("--lr", "3e-3", "--epochs", 4, "--threads", 1, "--save-every", "never", "--crf", "--max-length", 8)
    done = call("finetune", "--task", "tag", "-m", "encoder", "--valid", "eng.testa", *how, "-o", "out", "eng.train")
    assert done.code == 0, done.err
    record = json.loads((tmp_path / "out" / "training.json").read_text())
    assert 0.2 < record["metrics"]["valid_f1"] < 1
    answered = call("predict", "out", "--threads", 1, "--columns", "eng.testa")
    scored = call("evaluate", "-m", "entity-f1", "-b", "-w", 12, stdin=answered.text)
    assert scored.code == 0 and float(scored.text.split()[0]) == pytest.approx(record["metrics"]["valid_f1"], abs=1e-9)
    said = call("predict", "out", "--threads", 1, stdin="w1 good w2\n\nbad\n")
    assert [len(line.split()) for line in said.lines] == [3, 0, 1]
    piped = call("predict", "out", "--threads", 1, "--line-buffered", "--columns", stdin="w1 x\nbad x\n\n")
    assert [len(line.split()) for line in piped.lines] == [3, 3, 0]
    wrong = call("predict", "out", "--threads", 1, stdin="w1\tw2\tw3\tw4\tw5\n")
    assert wrong.code == 65 and "<stdin>:1: 5 columns" in wrong.err and "--layout lines" in wrong.err
    wrong = call("predict", "out", "--threads", 1, stdin="\nw1 w2 w3 w4 w5\nw1 w2 w3 w4 w5\n\n")
    assert wrong.code == 65 and "<stdin>:2: 5 fields in each line: columns or sentences?" in wrong.err


@pytest.mark.sampled(law="examples run")
def test_questions_from_examples_to_official_scores(call: Run, tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    questions(tmp_path / "train.json", 100, impossible=0.3)
    questions(tmp_path / "valid.json", 30, 1, impossible=0.3)
    how = ("--lr", "3e-3", "--epochs", 2, "--threads", 1, "--save-every", "never")
    done = call(
        "finetune", "--task", "answer", "-m", "encoder", "--valid", "valid.json", *how, "-o", "out", "train.json"
    )
    assert done.code == 0 and done.out == b"" and "validation f1" in done.err, done.err
    files = ("--predictions", "p.json", "--null-odds", "odds.json")
    said = call("predict", "out", "--threads", 1, *files, "valid.json")
    assert said.code == 0 and len(said.lines) == 30, said.err
    assert call("evaluate", "-m", "squad2", "-r", "valid.json", "p.json", "--null-odds", "odds.json").code == 0
    scored = call("evaluate", "-m", "squad2", "-r", "valid.json", "p.json")
    best = json.loads((tmp_path / "out" / "training.json").read_text())["metrics"]["valid_f1"]
    assert f"squad2:f1\t{best:.4f}\t30" in scored.text
    again = call("predict", "out", "--threads", 1, "--predictions", "p.json", "valid.json")
    assert again.code == 73 and "p.json" in again.err


def test_on_top_of_a_language_model(call: Run, tmp_path: Path) -> None:
    """From text to a language model, to a classifier, to answers."""
    table(tmp_path / "train.tsv", texts(200))
    table(tmp_path / "valid.tsv", texts(40, 1))
    (tmp_path / "text.txt").write_text("".join(f"{text}\n" for text, _ in texts(60)))
    sizes = ("--layers", 2, "--hidden", 32, "--heads", 2, "--context", 64, "--steps", 4, "--threads", 1)
    assert call("build-vocab", "--special", "<unk>,</s>", "-o", "vocab.tsv", "text.txt").code == 0
    made = call("train-lm", "-t", "vocab.tsv", *sizes, "-o", "lm", "text.txt")
    assert made.code == 0, made.err
    how = ("--lr", "3e-3", "--epochs", 2, "--threads", 1, "--save-every", "never", "--encoder-dropout", "0.1")
    done = call("finetune", "--task", "classify", "-m", "lm", "--valid", "valid.tsv", *how, "-o", "out", "train.tsv")
    assert done.code == 0 and done.out == b"" and "validation accuracy" in done.err, done.err
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["GPT2ForSequenceClassification"] and config["pad_token_id"] == 1
    said = call("predict", "out", "--threads", 1, stdin="w1 good w2\n\nbad w3")
    assert said.code == 0 and {line.split("\t")[0] for line in said.lines} <= {"good", "bad"} and len(said.lines) == 3
    assert call("describe", "out").code == 0 and call("embed", "out", "--to", "jsonl", stdin="w1").code == 0
    encoder(tmp_path / "encoder")
    refused = {
        "a decoder with the head of a task, which": (
            call("generate", "out", stdin="w1"),
            call("score", "out", stdin="w1"),
        ),
        "model transformer-tasks, expected": (call("train-lm", "-t", "lm", "--init", "out", "-o", "x", "text.txt"),),
        "is no encoder with learned positions": (
            call("pretrain-bert", "-t", "encoder", "--init", "out", "-o", "x", "text.txt"),
        ),
    }
    for told, calls in refused.items():
        assert all(found.code == 2 and told in found.err and found.out == b"" for found in calls), calls
