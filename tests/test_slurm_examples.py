"""The scripts of examples/slurm, with stand-ins for SLURM's programs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, environment
from tiny_bundles import words_bundle

from tests.test_clusters import Cluster

SCRIPTS = ROOT / "examples/slurm"
TASKS = 3


def job(cluster: Cluster, script: str, **values: object) -> subprocess.CompletedProcess[str]:
    """A batch script with these variables, as SLURM runs it."""
    programs = os.pathsep.join([str(cluster.place / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    settings = {name: str(value) for name, value in values.items()}
    return subprocess.run(
        ["bash", str(SCRIPTS / script)],
        cwd=cluster.place,
        env=environment(**settings, PATH=programs),
        capture_output=True,
        text=True,
        timeout=240,
    )


def array(cluster: Cluster, script: str, tasks: list[int], **values: object) -> list[str]:
    """What some tasks of an array from 1 to TASKS say; they succeed."""
    bounds = {"SLURM_ARRAY_TASK_MIN": 1, "SLURM_ARRAY_TASK_MAX": TASKS, "SLURM_ARRAY_TASK_STEP": 1}
    bounds |= {"SLURM_ARRAY_TASK_COUNT": TASKS}
    done = [job(cluster, script, **bounds, SLURM_ARRAY_TASK_ID=task, **values) for task in tasks]
    assert [each.returncode for each in done] == [0] * len(tasks), done
    return [each.stderr for each in done]


def test_an_array_tokenizes_and_its_parts_are_merged(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    (tmp_path / "corpus.txt").write_text("".join(f"a b {'c ' * (n % 5)}\n" for n in range(40)) + "\nd e")
    settings = {"CORPUS": "corpus.txt", "TOKENIZER": "vocab.tsv", "OUT": "tokens"}
    merging = {"CORPUS": "corpus.txt", "PARTS": "tokens", "RESULT": "tokens.txt"}
    array(cluster, "tokenize.sh", [1, 3], **settings)
    early = job(cluster, "merge.sh", **merging)
    assert early.returncode == 65 and "corpus.txt has 42: a task has not ended" in early.stderr
    assert not (tmp_path / "tokens.txt").exists()
    array(cluster, "tokenize.sh", [2], **settings)
    parts = [tmp_path / f"tokens/{task:05d}.txt" for task in range(1, TASKS + 1)]
    whole = b"".join(part.read_bytes() for part in parts)
    # a task that was stopped in the middle of a line is queued again
    parts[1].write_bytes(parts[1].read_bytes()[:-7])
    assert "continuing after" in array(cluster, "tokenize.sh", [2], **settings)[0]
    done = job(cluster, "merge.sh", **merging)
    assert done.returncode == 0 and (tmp_path / "tokens.txt").read_bytes() == whole, done.stderr
    alone = subprocess.run(
        [sys.executable, "-m", "nlptools", "tokenize", "-t", "vocab.tsv", "corpus.txt"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
    )
    assert alone.stdout == whole and whole.count(b"\n") == 42


@pytest.mark.slow
def test_an_array_embeds(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    words_bundle(tmp_path / "model")
    (tmp_path / "corpus.txt").write_text("".join(f"w{n} w2\n" for n in range(1, 11)))
    settings = {"CORPUS": "corpus.txt", "MODEL": "model", "OUT": "vectors"}
    array(cluster, "embed.sh", [1, 2, 3], **settings)
    done = job(cluster, "merge.sh", CORPUS="corpus.txt", PARTS="vectors", RESULT="all.jsonl")
    assert done.returncode == 0 and (tmp_path / "all.jsonl").read_text().count("\n") == 10, done.stderr


@pytest.mark.slow
def test_training_is_queued_again_until_it_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"CORPUS": "corpus.txt", "TOKENIZER": "vocab.tsv", "OUT": "lm"}.items():
        monkeypatch.setenv(name, value)
    cluster, script = Cluster(tmp_path), (SCRIPTS / "train.sh").read_text()
    first = cluster.submit(script)
    cluster.stop_after_a_step(first)
    out, err = first.communicate(timeout=120)
    assert out.startswith("scontrol requeue ") and first.returncode == 0, err
    done = cluster.steps()
    second = cluster.submit(script, STEPS=done + 2)
    out, err = second.communicate(timeout=120)
    assert (out, second.returncode, cluster.steps()) == ("", 0, done + 2), err
    broken = cluster.submit(script, LR="-1")
    assert broken.communicate(timeout=120)[0] == "" and broken.returncode == 2, "an error is not queued again"
