"""ELMo features: gains over the same network.

    NLPTOOLS_DATA=DIR python benchmarks/elmo_gains.py --model ELMO [--task ner,sst,sick,roles,qamr,gap,layers]
        [--seeds 1] [--keep DIR] [--vectors FILE] [-- OPTIONS of finetune]

ELMO is a directory of train-lm --arch elmo. DIR holds published files in conll2003, sst2, sick, up_ewt_srl, qamr and gap;
where there is one file, its last tenth is held out. Each network is trained by `finetune --features none` and `--features
input`, everything else alike, and measured on the held-out file: absolute gain, and gain as a share of the errors of the
baseline. layers: named entities with the learned mix, and with the last layer alone. --vectors: word vectors for both sides.
--keep DIR keeps the models, and one that DIR has already is not trained again.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import records
from finetuning_quality import arguments, parsed
from side_by_side import machine, nlptools, published, unfinished
from tasks_beside_baselines import Files, gap_files, qamr_files, role_files, sick_files, sst_files


def entity_files(scratch: Path) -> Files:
    """CoNLL-2003's train and testa."""
    return published("conll2003", "eng.train"), published("conll2003", "eng.testa")


class Job(NamedTuple):
    """A task: its options, the number that counts, its files, and the options of both sides."""

    title: str
    options: str
    measure: str
    files: Callable[[Path], Files]
    sides: tuple[str, str] = ("--features none", "--features input")


JOBS = {
    "ner": Job("CoNLL-2003, testa, F1", "--task tag --crf", "f1", entity_files),
    "sst": Job("SST-2, dev, accuracy", "--task classify", "accuracy", sst_files),
    "sick": Job(
        "SICK, entailment, trial, accuracy", "--task pair --label-column entailment_judgment", "accuracy", sick_files
    ),
    "roles": Job("semantic roles, a tenth, F1", "--task roles --crf", "f1", role_files),
    "qamr": Job("QAMR, a tenth, F1", "--task answer", "f1", qamr_files),
    "gap": Job("GAP, a tenth, F1", "--task coreference", "f1", gap_files),
    "layers": Job(
        "CoNLL-2003, last layer beside the mix, F1",
        "--task tag --crf --features input",
        "f1",
        entity_files,
        ("--layers last", "--layers mix"),
    ),
}


def main() -> None:
    """Train, measure, print a table that grows."""
    parser = arguments(__doc__, "1")
    parser.add_argument("--vectors", type=Path)
    options = parsed(parser, JOBS)
    print(machine(), flush=True)
    rest = [*options.rest, *(["--vectors", str(options.vectors)] if options.vectors else [])]
    table = [f"{'':<44}{'without':>9}{'with':>9}{'gain':>8}{'of errors':>11}  seeds"]
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        for name in options.task.split(","):
            job, seeds = JOBS[name], options.seeds.split(",")
            files = job.files(scratch)
            values = [
                [measured(f"{name}-{side}", job, how, seed, files, scratch, options.model, rest) for seed in seeds]
                for side, how in zip(("without", "with"), job.sides, strict=True)
            ]
            without, beside = map(statistics.mean, values)
            gain = beside - without
            share = 100 * gain / max(1e-9, 100 - without)
            each = " ".join(f"{a:.1f}>{b:.1f}" for a, b in zip(*values, strict=True))
            table.append(f"{job.title:<44}{without:>9.1f}{beside:>9.1f}{gain:>+8.1f}{share:>+10.1f}%  {each}")
            print(table[0], table[-1], sep="\n", flush=True)
            sides = {f"nlptools, {job.sides[0]}": without, f"nlptools, {job.sides[1]}": beside}
            records.record(job.title, "percent", sides, rounds=len(seeds))
    print("", *table, sep="\n")


def measured(
    name: str, job: Job, how: str, seed: str, files: Files, scratch: Path, elmo: Path, rest: list[str]
) -> float:
    """Train once, unless it is done: the number of the best epoch, in percent."""
    out = scratch / f"{name}-{seed}"
    if unfinished(out):
        command = ("finetune", "-q", "-m", elmo, *job.options.split(), *how.split(), "--seed", seed, *rest)
        nlptools(*command, "--valid", files[1], "-o", out, files[0])
    found = float(json.loads((out / "training.json").read_text(encoding="utf-8"))["metrics"][f"valid_{job.measure}"])
    return found if job.options.startswith("--task answer") else 100 * found  # SQuAD's are percent already


if __name__ == "__main__":
    main()
