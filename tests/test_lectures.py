"""The scripts of examples/lectures run at toy size on generated corpora, and write their figures and tables."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, environment

from tests.test_readme import unknown

LECTURES = ROOT / "examples/lectures"
# script -> the files that it writes, each with some text of it, or the beginning of a picture
WRITES: dict[str, dict[str, bytes]] = {
    "word_map": {"word_map.png": b"\x89PNG"},
    "analogies": {"analogies.txt": b"king - man + woman\t"},
    "language_models": {"language_models.tsv": b"5-gram\t", "language_models.svg": b"<?xml"},
    "bleu_by_hand": {"bleu_by_hand.txt": b"the old man reads a book in the park"},
    "attention_map": {"attention_map.png": b"\x89PNG"},
    "position_map": {"position_map.png": b"\x89PNG"},
    "elmo_gains": {"elmo_gains.tsv": b"none\t", "elmo_layers.svg": b"<?xml"},
    "layer_choices": {"layer_choices.tsv": b"concat:-4:\t"},
    "masked_filling": {"masked_filling.txt": b"[MASK]"},
    "electra": {"electra.tsv": b"electra\t"},
    "few_shot": {"few_shot.txt": b"cheese => fromage"},
    "reward_and_preference": {"reward_and_preference.tsv": b"reward\t"},
}
WORDS = [
    "king",
    "queen",
    "man",
    "woman",
    "paris",
    "france",
    "rome",
    "italy",
    "big",
    "bigger",
    "small",
    "smaller",
    "one",
    "two",
]
WORDS += ["the", "a", "in", "and", "river", "ran"]


def sentences(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randrange(4, 10))) + " ." for _ in range(count)]


def corpora(folder: Path) -> Path:
    """Files with the names and layouts of the corpora that the scripts read."""
    text = "".join(f"{line}\n" for line in sentences(400, 0))
    files = {
        "enwiki_slice/train.txt.gz": text.replace("king .\n", "king .\n\n"),  # several documents
        "ptb/ptb.train.txt": text,
        "ptb/ptb.valid.txt": "".join(f" {line} \n" for line in sentences(20, 1)),
        "analogies/questions-words.txt": ": capitals\nparis france rome italy\nrome italy paris france\n",
        "multi30k/train.en": text,
        "multi30k/train.de": "".join(f"{line[::-1]}\n" for line in sentences(400, 0)),
    }
    for part, count in (("train", 60), ("testa", 20)):
        tagged = [[f"{word} N I-NP {'I-PER' if word == 'king' else 'O'}" for word in line.split()]
                  for line in sentences(count, 2)]  # fmt: skip
        files[f"conll2003/eng.{part}"] = "".join("\n".join(rows) + "\n\n" for rows in tagged)
    for part, count in (("train", 60), ("dev", 20)):
        files[f"sst2/{part}.tsv"] = "".join(f"{line}\t{int('king' in line)}\n" for line in sentences(count, 3))
    pairs = [
        {"chosen": f"\n\nHuman: {a}\n\nAssistant: {b} king", "rejected": f"\n\nHuman: {a}\n\nAssistant: {b} river"}
        for a, b in zip(sentences(40, 4), sentences(40, 5), strict=True)
    ]
    files["hh_rlhf/harmless-base.first2000.jsonl.gz"] = "".join(json.dumps(pair) + "\n" for pair in pairs)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    return folder


@pytest.fixture
def lecture(tmp_path: Path, fork_server: list[str]) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs a script on the corpora at toy size; its output is in `tmp_path`/out."""
    for package in ("matplotlib", "sklearn"):
        pytest.importorskip(package)
    program = tmp_path / "bin/nlptools"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(fork_server)} "$@"\n')
    program.chmod(0o755)
    data = corpora(tmp_path / "data")
    env = environment(NLPTOOLS_DATA=str(data), BUDGET="1", PATH=f"{program.parent}:{os.environ['PATH']}")
    return lambda name: subprocess.run(
        [str(LECTURES / name), "out"], cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )


def check(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        assert content in (folder / name).read_bytes(), name


@pytest.mark.parametrize("script", ["analogies", "bleu_by_hand", "few_shot"])
def test_quick_scripts(tmp_path: Path, lecture: Callable[..., subprocess.CompletedProcess[str]], script: str) -> None:
    done = lecture(script)
    assert done.returncode == 0, done.stderr
    check(tmp_path / "out", WRITES[script])


@pytest.mark.slow
def test_run_makes_every_figure(tmp_path: Path, lecture: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = lecture("run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[-1] for line in done.stdout.splitlines()] == [*WRITES]
    for files in WRITES.values():
        check(tmp_path / "out", files)
    rows = [line.split("\t") for line in (tmp_path / "out/language_models.tsv").read_text().splitlines()]
    assert len(rows) == 8 and all(float(value) > 1 for _, value in rows)


def test_the_page_names_every_figure() -> None:
    page = (LECTURES / "README.md").read_text(encoding="utf-8")
    for script, files in WRITES.items():
        assert f"({script})" in page and all(name in page for name in files)
    for link in re.findall(r"\]\(([^)]+)\)", page):
        assert (LECTURES / link).is_file(), link
    assert {path.name for path in LECTURES.iterdir() if os.access(path, os.X_OK) and path.is_file()} == {*WRITES, "run"}


def test_commands_have_their_options() -> None:
    for script in WRITES:
        assert unknown((LECTURES / script).read_text(encoding="utf-8")) == [], script
