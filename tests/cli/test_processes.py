"""Training commands in two processes: each stops, goes on, or refuses; some end with the weights of one, except for rounding."""

from __future__ import annotations

import random
import shlex
from pathlib import Path

import faulty_command
import pytest
from conftest import this_month
from running import ended, processes, rows
from tiny_bundles import words_bundle
from toy_trainers import TASKS, TRAINERS, data

from nlptools.files import artifacts
from nlptools.files.artifacts import load_tensors

COLORS, ANIMALS = ("red", "green", "blue"), ("cat", "dog", "bird")


def write_data(place: Path) -> None:
    draw = random.Random(1)
    texts = [(draw.choice(COLORS), *draw.choices(ANIMALS, k=draw.randint(1, 4))) for _ in range(21)]
    (place / "labels.tsv").write_text("".join(f"{' '.join(words)}\t{words[0]}\n" for words in texts))
    tagged = ["".join(f"{word} {'B-C' if word in COLORS else 'O'}\n" for word in words) for words in texts]
    (place / "tags.txt").write_text("\n".join(tagged))


def same(place: Path, fork_server: list[str], *command: object) -> None:
    """Train with a command in one process and in two, and compare."""
    outputs = []
    for name, count in {"one": 1, "two": 2}.items():
        words = (*command, "--device", "cpu", "--threads", 1, "--force", "-o", name)
        outputs.append(ended(processes(count, place, *words, command=fork_server))[0][1])
    assert "in 2 processes on 1 machine" in outputs[1] and "processes" not in outputs[0], outputs[1]
    one, two = (load_tensors(place / name / "model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    for (
        name,
        tensor,
    ) in one.items():  # Adam divides by the size of gradients, so noise in tiny ones can move single weights
        assert float((two[name].double() - tensor).abs().mean()) < 1e-5, (command, name)


@pytest.mark.sampled(law="several processes train")
def test_finetune_without_pretraining(tmp_path: Path, fork_server: list[str]) -> None:
    """Of networks that draw no random unknown words in training."""
    write_data(tmp_path)
    joint = ("--global-batch", 8, "--batch-size", 3, "--epochs", 2, "--valid")
    sgd = ("--optimizer", "sgd", "--lr", 0.1, "--weight-decay", 0)
    classify = ("finetune", "--task", "classify", *joint, "labels.tsv", "labels.tsv", "--scratch")
    same(tmp_path, fork_server, *classify, "bag", "--word-ngrams", 2, "--dim", 8, "--dropout", 0)
    same(tmp_path, fork_server, *classify, "logistic")
    tag = ("finetune", "--task", "tag", *joint, "tags.txt", "tags.txt", "--scratch", "lstm")
    same(tmp_path, fork_server, *tag, "--hidden-size", 8, "--dim", 8, "--char-dim", 4, "--dropout", 0, *sgd)


@pytest.mark.sampled(law="several processes train")
@pytest.mark.parametrize("algorithm", this_month(["ppo", "grpo"], 1))
def test_train_ppo(tmp_path: Path, fork_server: list[str], algorithm: str) -> None:
    """Each process draws samples for its part of the prompts; the reward command runs in the main process alone."""
    words_bundle(tmp_path / "policy")
    prompts = ["the cat", "a", "the dog sat", "on the mat", "it"]
    (tmp_path / "prompts.txt").write_text("".join(f"{prompt}\n" for prompt in prompts))
    (tmp_path / "reward.py").write_text(
        "import json, sys\nopen('calls', 'a').write('x')\n"
        "for line in sys.stdin: print(len(json.loads(line)['completion']) % 7)\n"
    )
    how = ("--algorithm", algorithm, "--max-new-tokens", 4, "--rollouts", 5, "--batch-size", 3, "--passes", 2)
    rate = ("--epochs", 2, "--lr", "1e-3", "--precision", "fp32")
    command = ("train-ppo", "--policy", "policy", "--reward", "python reward.py", *how, *rate)
    same(tmp_path, fork_server, *command, "prompts.txt")
    assert (tmp_path / "calls").read_text() == "x" * 4, "two rollouts in one process, and two in two"
    assert [row["reward"] for row in rows(tmp_path / "one", "train")] == [
        row["reward"] for row in rows(tmp_path / "two", "train")
    ]


ALONE = ("train-lm ngram", "train-w2v glove", "distill-static")  # in one process


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TRAINERS, *TASKS])
def test_every_trainer(tmp_path: Path, fork_server: list[str], name: str) -> None:
    """Two processes stop with status 75 and a checkpoint, and go on to the end; or each of them refuses."""
    data(tmp_path)
    command = (*shlex.split({**TRAINERS, **TASKS}[name]), "-o", "run")
    if name in ALONE:
        for _, err in ended(processes(2, tmp_path, *command, command=fork_server), 2):
            assert "runs in one process, but 2 were started" in err
        return
    program = (faulty_command.__file__, "TERM", "step", tmp_path / "mark")
    (_, err), (_, other) = ended(processes(2, tmp_path, *program, *command, command=fork_server), 75)
    assert "in 2 processes on 1 machine" in err and "stopped by SIGTERM" in err, err
    assert "stopped by" not in other and any(artifacts.verify(each) for each in tmp_path.glob("run/checkpoints/step-*"))
    outputs = ended(processes(2, tmp_path, *command, command=fork_server))
    assert "continuing at" in outputs[0][1] and outputs[1][1] == "" and artifacts.verify(tmp_path / "run"), outputs
