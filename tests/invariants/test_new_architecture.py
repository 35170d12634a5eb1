"""An architecture that is one file and one row (`toy_language_model`) works with every command for language models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Run
from starlette.testclient import TestClient

from nlptools import bundle
from nlptools.configs import Compute
from nlptools.configs.serve import Serve
from nlptools.files import artifacts
from nlptools.serving.app import application
from nlptools.serving.service import Service
from nlptools.serving.worker import Worker
from tests.running import rows
from tests.tasks.reward.test_task import preferences
from tests.tasks.tiny_tasks import table
from tests.tiny_bundles import words_bundle
from tests.training.preferences.toys import lines

SMALL = ("--threads", 1, "-q", "--save-every", "never", "--batch-size", 8, "--lr", 0.02)
TRAIN = ("train-lm", "--arch", "toy", "-t", "vocab.tsv", "--hidden", 16, "--context", 8, "--batch-size", 2, "--lr", 0.03,
         "--steps", 40, "--dropout", 0.1, "--threads", 1, "-q", "--valid", "valid.txt", "train.txt", "-o")  # fmt: skip
PROMPTS = "w1 w2\nw7\n"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A directory of the toy architecture, without training."""
    return words_bundle(tmp_path / "base", "toy")


def done(call: Run, *command: object, stdin: str = "") -> list[str]:
    """The lines that a command writes."""
    finished = call(*command, stdin=stdin)
    assert finished.code == 0, finished.err
    return finished.lines


def test_it_trains_stops_and_continues(call: Run, tmp_path: Path) -> None:
    words, rng = [f"w{i}" for i in range(20)], np.random.default_rng(0)
    for name, count in (("train.txt", 60), ("valid.txt", 10)):
        texts = [" ".join(words[i] for i in (np.arange(6) + rng.integers(0, 20)) % 20) for _ in range(count)]
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    (tmp_path / "vocab.tsv").write_text("<unk>\t0\n</s>\t0\n" + "".join(f"{word}\t1\n" for word in words))
    assert "toy             Recurrent network with one layer" in call("train-lm", "--help").text
    assert "--spread X" in call("train-lm", "--arch", "toy", "--help").text
    assert "--spread applies to --arch toy only" in call("train-lm", "-t", "words", "-o", "x", "--spread", "1").err
    done(call, *TRAIN, "whole")
    stopped = call(*TRAIN, "parts", "--max-time", "0.01")
    assert stopped.code == 75, stopped.err
    done(call, *TRAIN, "parts")
    weights = [artifacts.load_weights(tmp_path / name) for name in ("whole", "parts")]
    assert all(bool((tensor == weights[1][name]).all()) for name, tensor in weights[0].items())
    config = json.loads((tmp_path / "whole/config.json").read_text())
    assert (config["model_type"], config["architectures"], config["hidden_size"]) == ("nlptools-toy", ["Toy"], 16)
    record = json.loads((tmp_path / "whole/training.json").read_text())
    total = json.loads("\n".join(done(call, "score", "whole", "--per", "total", "valid.txt")))
    assert total["loss"] == pytest.approx(record["metrics"]["valid_loss"], rel=1e-5) and total["loss"] < 2.6
    done(call, *TRAIN, "more", "--init", "whole", "--lr", 0)


def test_it_scores(call: Run, base: Path) -> None:
    per = {each: done(call, "score", base, "--per", each, stdin=PROMPTS) for each in ("line", "token", "word")}
    total = json.loads("\n".join(done(call, "score", base, "--per", "total", stdin=PROMPTS)))
    assert sum(float(line.split("\t")[0]) for line in per["line"]) == pytest.approx(total["log_probability"], rel=1e-4)
    assert len(per["line"]) == 2 and len(per["token"]) >= 2 and len(per["word"]) >= 3


def test_it_chooses(call: Run, base: Path, tmp_path: Path) -> None:
    lines(tmp_path / "items.jsonl", [{"context": "w1 w2", "choices": ["w3", "w4 w5 .", "w1"], "answer": 1}])
    [answer] = done(call, "score", base, "--choices", tmp_path / "items.jsonl")
    scored = json.loads(answer)
    tokens = done(call, "score", base, "--per", "token", "--to", "jsonl", "--no-eos", "--text", "w1 w2 w4 w5 .")
    assert scored["log_probability"][1] == pytest.approx(sum(json.loads(tokens[0])["log_probability"][-3:]), abs=1e-4)
    assert scored["best"]["sum"] == int(np.argmax(scored["log_probability"]))


def test_it_generates(call: Run, base: Path) -> None:
    for options in (("--temperature", 0), ("--beam", 3), ("--top-p", 0.9, "--seed", 1)):
        assert len(done(call, "generate", base, "--max-new-tokens", 3, *options, stdin=PROMPTS)) == 2


def test_it_embeds(call: Run, base: Path) -> None:
    vectors = done(call, "embed", base, "--to", "tsv", "--layers", "concat:all", stdin=PROMPTS)
    assert np.array([line.split("\t")[1:] for line in vectors], np.float32).shape == (2, 64)


def test_it_is_described(call: Run, base: Path) -> None:
    assert "toy" in "\n".join(done(call, "describe", base))


def test_it_classifies(call: Run, base: Path, tmp_path: Path) -> None:
    data = table(
        tmp_path / "data.tsv", [(f"w{i} {'w1' if i % 2 else 'w2'}", "odd" if i % 2 else "even") for i in range(40)]
    )
    done(call, "finetune", "--task", "classify", "-m", base, "-o", "out", "--steps", 40, *SMALL, data)
    assert bundle.load(tmp_path / "out").arch == "toy-tasks"
    assert [line.split("\t")[0] for line in done(call, "predict", "out", stdin="w30 w1\nw31 w2\n")] == ["odd", "even"]
    done(
        call,
        "finetune",
        "--task",
        "classify",
        "-m",
        "out",
        "-o",
        "again",
        "--steps",
        2,
        "--freeze",
        "all",
        *SMALL,
        data,
    )


def aligned(call: Run, base: Path, task: str, examples: list[dict[str, object]], *more: object) -> Path:
    """The result of `finetune` on prompts and responses."""
    data = lines(base.parent / f"{task}.jsonl", examples)
    done(call, "finetune", "--task", task, "-m", base, "-o", task, "--steps", 12, *SMALL, *more, data)
    return base.parent / task


def test_it_learns_instructions(call: Run, base: Path) -> None:
    examples: list[dict[str, object]] = [{"prompt": f"w{i}", "completion": f" w{i + 1}"} for i in range(5, 20)]
    out = aligned(call, base, "instruct", examples, "--log-every", 1)
    log = rows(out, "train")
    assert log[-1]["loss"] < log[0]["loss"] - 0.5
    assert len(done(call, "generate", out, "--max-new-tokens", 3, stdin=PROMPTS)) == 2


def test_it_learns_preferences(call: Run, base: Path) -> None:
    examples = [{"prompt": f"w{i}", "chosen": " w3", "rejected": " w4"} for i in range(5, 20)]
    log = rows(aligned(call, base, "preference", examples, "--log-every", 1), "train")
    assert log[0]["loss"] == pytest.approx(np.log(2), abs=1e-4) and log[-1]["loss"] < 0.5


def test_it_learns_rewards_and_earns_them(call: Run, base: Path, tmp_path: Path) -> None:
    data = lines(tmp_path / "pairs.jsonl", preferences(40))
    done(call, "train-reward", "-m", base, "-o", "reward", "--steps", 10, *SMALL, data)
    prompts = "".join(f"w{i} w{i + 1}\n" for i in range(4, 12))
    (tmp_path / "prompts.txt").write_text(prompts)
    for reward in ("reward", "awk '{print gsub(/w3/, \"\")}'"):
        command = ("train-ppo", "--policy", base, "--reward", reward, "--steps", 6, "--rollouts", 8, "--max-new-tokens", 4,
                   "--log-every", 1, "--force", "-o", "policy", *SMALL, "prompts.txt")  # fmt: skip
        done(call, *command)
        log = rows(tmp_path / "policy", "train")
        assert log[0]["kl"] == pytest.approx(0, abs=1e-4) and log[0]["clip_fraction"] == 0
    assert bundle.load(tmp_path / "policy").arch == "toy"


def test_it_has_low_rank_adapters(call: Run, base: Path, tmp_path: Path) -> None:
    examples: list[dict[str, object]] = [{"prompt": f"w{i}", "completion": f" w{i + 1}"} for i in range(5, 20)]
    out = aligned(call, base, "instruct", examples, "--lora", 2)
    assert (out / "adapter_model.safetensors").is_file() and not (out / "model.safetensors").exists()
    before, after = (bundle.load(each).weights() for each in (base, out))
    assert [name for name in before if not bool((before[name] == after[name]).all())] == ["cell.weight"]
    refused = call("finetune", "--task", "instruct", "-m", base, "-o", "x", "--lora", 2, "--lora-targets", "attention",
                   *SMALL, tmp_path / "instruct.jsonl")  # fmt: skip
    assert refused.code == 2 and "has no attention that adapters" in refused.err


def test_it_is_served(base: Path) -> None:
    service = Service.open(str(base), Serve(), Compute(precision="fp32", threads=1, device="cpu"))
    with (
        Worker(service.compute, batch_size=8, most_waiting=16) as worker,
        TestClient(application(service, worker, Serve()), base_url="http://127.0.0.1") as client,
    ):
        answer = client.post("/v1/completions", json={"model": "base", "prompt": "w1 w2", "max_tokens": 3})
        assert answer.status_code == 200 and answer.json()["choices"], answer.text
        vectors = client.post("/v1/embeddings", json={"model": "base", "input": ["w1", "w2 w3"]}).json()
        assert [len(each["embedding"]) for each in vectors["data"]] == [32, 32]
