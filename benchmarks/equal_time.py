"""Language models: perplexity after equal training time.

    NLPTOOLS_DATA=DIR python benchmarks/equal_time.py [characters|ptb|elmo] [--minutes N] [--keep DIR] [--side "NAME=OPTIONS" ...]

Each side first trains some steps to see how long one takes, and then as many steps as fit into the time, its learning rate
falling to the end of them.

characters: of tinyshakespeare, the last tenth held out, a Transformer-XL and an LSTM, each with the width, rate, dropout and
batch that were the best of several in this time on one core with AMX. ptb: the same on the words of the Penn Treebank, the best
of 11 Transformer-XLs and 7 LSTMs, chosen on the text that is reported. For longer times both need more dropout; the figures of
10 minutes are those of `--minutes 10 --side "transformer-xl=--preset small-transformer-xl"
--side "lstm=--preset lstm-hour --dropout 0.15"`. All of them carry their state over the text, in training and in scoring.

elmo: words and punctuation (`-t words`) of enwiki_slice, the mean of the forward and backward perplexity compared with an
LSTM, with one vocabulary of 30,000; other words are one unknown word, which is predicted and counts as any other. The LSTM
carries its
state from line to line, and so sees more than the ELMo, which reads each line by itself. The ELMo trains with a sampled softmax,
and is measured with the whole one.

--side: other sides, with options of train-lm. Sides that --keep has are not trained again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import tempfile
from pathlib import Path
from typing import NamedTuple

import records
from side_by_side import machine, nlptools, published, unfinished

_PROBE = 40  # steps that are timed; the first half of them, which fills memory for the first time, does not count
_MUON = "--optimizer muon --lr 1e-2"


class Job(NamedTuple):
    """A text and the models that are trained on it."""

    title: str
    minutes: float
    carry: bool  # the text is one stream for all sides
    sides: dict[str, str]  # options of train-lm


JOBS = {
    "characters": Job(
        "perplexity of the characters of tinyshakespeare",
        3,
        True,
        {
            "transformer-xl": f"--arch transformer-xl --hidden 128 --heads 2 --pre-norm --context 64 --batch-size 16 {_MUON}",
            "lstm": f"--arch lstm --layers 2 --hidden 256 --dropout 0.05 --context 64 --batch-size 32 {_MUON}",
        },
    ),
    "ptb": Job(
        "perplexity of the words of the Penn Treebank",
        5,
        True,
        {
            "transformer-xl": "--preset small-transformer-xl --dropout 0 --lr 6e-3",
            "lstm": "--preset lstm-hour --hidden 256 --dropout 0.05",
        },
    ),
    "elmo": Job(
        "perplexity of the words of enwiki_slice",
        45,
        False,
        {
            "elmo": "--preset elmo-small --lr 4e-3 --sampled 4096",
            "lstm": "--arch lstm --layers 2 --hidden 512 --context 64 --batch-size 32 --dropout 0.1 --lr 1e-3 --carry",
        },
    ),
}


def main() -> None:
    """Train all sides and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("job", nargs="?", choices=JOBS, default="characters")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--side", action="append", default=[], metavar="NAME=OPTIONS")
    options = parser.parse_args()
    job = JOBS[options.job]
    minutes = job.minutes if options.minutes is None else options.minutes
    sides = dict(side.split("=", 1) for side in options.side) or job.sides
    print(machine())
    with tempfile.TemporaryDirectory() as scratch:
        place = (options.keep or Path(scratch)) / options.job
        place.mkdir(parents=True, exist_ok=True)
        texts = prepared(options.job, place)
        rows = {name: trained(place / name, how, job, texts, minutes) for name, how in sides.items()}
    report(job, minutes, rows)


def prepared(name: str, place: Path) -> list[str | Path]:
    """Write the texts and the vocabulary; returns what follows the options of train-lm: vocabulary, held-out text, text."""
    train, valid, vocabulary = place / "train.txt", place / "valid.txt", place / "vocabulary.tsv"
    splitting = {"characters": "char", "ptb": "whitespace", "elmo": "words"}[name]
    if name == "characters":
        text = published("tinyshakespeare", "input.txt").read_text(encoding="utf-8")
        cut = text.index("\n", len(text) * 9 // 10) + 1
        train.write_text(text[:cut], encoding="utf-8")
        valid.write_text(text[cut:], encoding="utf-8")
    elif name == "ptb":
        train, valid = published("ptb", "ptb.train.txt"), published("ptb", "ptb.valid.txt")
    else:
        train.write_bytes(gzip.decompress(published("enwiki_slice", "train.txt.gz").read_bytes()))
        valid = published("enwiki_slice", "valid.txt")
    if not vocabulary.exists():
        size = ("--size", 30000) if name == "elmo" else ()
        nlptools("build-vocab", "-q", "-t", splitting, *size, "-o", vocabulary, train)
    return ["-t", splitting, "--vocab", vocabulary, "--valid", valid, train]


def trained(folder: Path, how: str, job: Job, texts: list[str | Path], minutes: float) -> dict[str, float]:
    """The figures of a side."""
    carry = ["--carry"] if job.carry or "--carry" in how.split() else []
    document = ["--document", "file"] if "char" in texts[:2] else []
    common = ("train-lm", "-q", *how.replace("--carry", "").split(), *document, *carry)
    if unfinished(folder):
        probe = folder.with_name(f"{folder.name}-probe")
        never = ("--save-every", "never", "--log-every", _PROBE // 2)
        if not (probe / "log.jsonl").is_file():
            nlptools(*common, "--steps", _PROBE, *never, "--valid-every", "never", "-o", probe, *texts)
        rows = [json.loads(line) for line in (probe / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        steps = [row for row in rows if row["kind"] == "train"]
        speed = steps[-1]["tokens_per_second"]
        tokens = json.loads((probe / "training.json").read_text(encoding="utf-8"))["metrics"]["tokens"] / _PROBE
        number = max(1, math.floor(minutes * 60 * speed / tokens))
        nlptools(*common, "--steps", number, *never, "--valid-every", max(1, number // 4), "-o", folder, *texts)
    metrics = json.loads((folder / "training.json").read_text(encoding="utf-8"))["metrics"]
    total = json.loads(nlptools("score", folder, "--per", "total", *carry, texts[-2]))
    return {
        "perplexity": total["perplexity"],
        "minutes": metrics["seconds"] / 60,
        "tokens": float(metrics["tokens"]),
    }


def report(job: Job, minutes: float, rows: dict[str, dict[str, float]]) -> None:
    """Print a table and record the perplexities."""
    print(f"\n{job.title}, {minutes:g} minutes\n{'':<20}{'perplexity':>12}{'minutes':>10}{'tokens':>14}")
    for name, row in rows.items():
        print(f"{name:<20}{row['perplexity']:>12.3f}{row['minutes']:>10.1f}{row['tokens']:>14,.0f}")
    figures = {f"nlptools {name}": row["perplexity"] for name, row in rows.items()}
    records.record(f"{job.title}, {minutes:g} minutes", "perplexity", figures, less=True)


if __name__ == "__main__":
    main()
