"""The scripts under examples/ run, on data as small as they can be."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, environment

from tests.tasks.tiny_tasks import encoder, texts
from tests.test_readme import unknown

MNLI = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse"
WORDS = {"good": "entailment", "bad": "neutral", "w0": "contradiction"}


def write(path: Path, header: str, rows: list[list[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [*([header.replace(" ", "\t")] if header else []), *map("\t".join, rows)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def glue(path: Path) -> None:
    """CoLA, MNLI and the diagnostic set as they are published; the label is a word that stands in the text."""
    for seed, part in enumerate(("train", "dev")):
        rows = [["x", str(int(label == "good")), "", text] for text, label in texts(400 if seed == 0 else 40, seed)]
        write(path / "CoLA" / f"{part}.tsv", "", rows)
    write(path / "CoLA/test.tsv", "index sentence", [[str(i), text] for i, (text, _) in enumerate(texts(9, 2))])
    for seed, part in enumerate(("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")):
        # a label of training is seen in every set
        rows = [[str(i), *7 * ["-"], *sides] for i, sides in enumerate(pairs(400 if seed == 0 else 30, seed))]
        columns = f"{MNLI} sentence1 sentence2"
        if part.startswith("test"):
            write(path / "MNLI" / f"{part}.tsv", columns, [row[:10] for row in rows])
        else:
            more = ["l1"] if part == "train" else ["l1", "l2", "l3", "l4", "l5"]
            named = {"train": "label1"}.get(part, "label1 label2 label3 label4 label5")
            rows = [[*row[:10], *more, row[10]] for row in rows]
            write(path / "MNLI" / f"{part}.tsv", f"{columns} {named} gold_label", rows)
    rows = [[str(i), *sides[:2]] for i, sides in enumerate(pairs(7, 9))]
    write(path / "diagnostic/diagnostic.tsv", "index sentence1 sentence2", rows)


def pairs(count: int, seed: int) -> list[list[str]]:
    made = texts(count, seed, tuple(WORDS))
    return [[text, "w1 w2", WORDS[word]] for text, word in made]


def test_glue_starts() -> None:
    """What it imports exists, also in a month whose suite does not run it to the end."""
    command = [sys.executable, str(ROOT / "examples/glue"), "--help"]
    assert "usage:" in subprocess.run(command, env=environment(), capture_output=True, text=True, check=True).stdout


@pytest.mark.sampled(law="examples run")
def test_glue(tmp_path: Path) -> None:
    encoder(tmp_path / "encoder")
    glue(tmp_path / "GLUE")
    script = [sys.executable, str(ROOT / "examples/glue"), "GLUE", "-m", "encoder", "-o", "out"]
    done = subprocess.run(
        [*script, "--lr", "3e-3", "--epochs", "4", "--batch-size", "16", "--threads", "1"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    header, *rows = (line.split("\t") for line in done.stdout.split("\n")[:-1])
    assert header == ["task", "examples", "seconds", "metric", "score"]
    told = [["cola", "matthews"], ["mnli", "accuracy"], ["mnli-mm", "accuracy"]]
    assert [[row[0], row[3]] for row in rows] == told and all(float(row[4]) > 60 for row in rows)
    sent = {path.name: path.read_text().split("\n")[:-1] for path in (tmp_path / "out/submission").iterdir()}
    assert {name: len(lines) for name, lines in sent.items()} == {
        "CoLA.tsv": 10,
        "MNLI-m.tsv": 31,
        "MNLI-mm.tsv": 31,
        "AX.tsv": 8,
    }
    assert all(lines[0] == "index\tprediction" and lines[1].startswith("0\t") for lines in sent.values())
    assert [line.split("\t")[1] for line in sent["CoLA.tsv"][1:]] == [str(int(w == "good")) for _, w in texts(9, 2)]
    done = subprocess.run([*script, "--task", "rte"], cwd=tmp_path, env=environment(), capture_output=True, text=True)
    assert done.returncode == 2 and "has no folder of a task" in done.stderr


def test_commands_of_the_first_hour() -> None:
    """They have options that exist; the script itself needs corpora."""
    script = (ROOT / "examples/first_hour.sh").read_text(encoding="utf-8")
    commands = re.findall(r"^try '(.*?)'$", script, re.MULTILINE | re.DOTALL)
    assert len(commands) == 40
    for command in commands:
        assert unknown(command) == [], command


def test_the_first_hour_goes_on_after_a_failure(tmp_path: Path) -> None:
    script = str(ROOT / "examples/first_hour.sh")
    commands = "".join(f"try '{command}'\n" for command in ("true", "echo no >&2; exit 65", "yes | head -n 1"))
    text = Path(script).read_text(encoding="utf-8")
    start, end = text.index("echo '--- a practitioner"), text.index("printf '%d of %d")
    (tmp_path / "hour.sh").write_text(text[:start] + commands + text[end:], encoding="utf-8")
    done = subprocess.run(
        ["bash", "hour.sh", "out"], cwd=tmp_path, env=environment(NLPTOOLS_DATA="."), capture_output=True, text=True
    )
    first, second, reason, third, count = done.stdout.split("\n")[:-1]
    assert done.returncode == 1 and (first[:2], second[:4], third[:2]) == ("OK", "FAIL", "OK")
    assert reason.split() == ["status", "65:", "no"] and count.startswith("2 of 3 commands succeeded")
