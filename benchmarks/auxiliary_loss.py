"""GPT-1's auxiliary language-model loss: fine-tuning with it and without.

    NLPTOOLS_DATA=DIR python benchmarks/auxiliary_loss.py [--tasks cola,sst2] [--seeds 1,2,3] [--epochs 3] [--gpt DIR]
        [--examples N] [--lines N] [--keep DIR] [-- OPTIONS of train-lm]

The ablation of Radford et al. 2018 (table 5): the loss of the task plus 0.5 times the loss of the language model on the examples,
compared with the loss of the task alone. A small GPT is trained once, on DIR/enwiki_slice, unless --gpt names a directory of
`train-lm`; each side starts from it, once per seed. --examples: only the first N of each file; --lines: only these of
enwiki_slice. Figures are of the best
epoch on the development set.
"""

from __future__ import annotations

import gzip
import json
import statistics
from pathlib import Path

import baselines
from side_by_side import Bench, bench, nlptools, published, report, trained, write

GPT = "--layers 4 --hidden 192 --heads 4 --context 128 --batch-size 32 --lr 2e-3 --warmup 200 --steps 3000"
TASKS = {  # the folder, the files, the options, the metric
    "cola": ("CoLA, in-domain dev, Matthews", "in_domain_train.tsv", "in_domain_dev.tsv", "glue/cola", "matthews"),
    "sst2": ("SST-2, dev, accuracy", "train.tsv", "dev.tsv", "classify", "accuracy"),
}
SIDES = {"nlptools, without": "0", "nlptools, --lm-weight 0.5": "0.5"}


def main() -> None:
    with bench(
        __doc__, "rest*", tasks=TASKS, seeds="1,2,3", epochs="3", gpt=Path, examples=0, pieces=8000, lines=0
    ) as run:
        gpt = run.options.gpt or pretrained(run)
        tokens = json.loads((gpt / "training.json").read_text(encoding="utf-8"))["metrics"]["tokens"]
        size = f"{run.options.examples:,} examples, " if run.options.examples else ""
        setting = f"{size}{run.options.epochs} epochs, GPT of {tokens / 1e6:.1f}M tokens"
        for name in run.options.tasks:
            title, *names, task, measure = TASKS[name]
            files = published(name, names[0]), published(name, names[1])
            train, valid = baselines.shortened(files, run.folder, run.options.examples)
            found: dict[str, list[float]] = {}
            for side, weight in SIDES.items():
                for seed in run.options.seeds.split(","):
                    how = ("--task", task, "-m", gpt, "--lm-weight", weight, "--epochs", run.options.epochs)
                    folder = run.folder / f"{name}-{weight}-{seed}"
                    metrics = trained(folder, "finetune", *how, "--seed", seed, "--valid", valid, train)
                    found.setdefault(side, []).append(100 * metrics[f"valid_{measure}"])
            report(f"{title}; {setting}", "percent", found, check=spread(found))


def pretrained(run: Bench) -> Path:
    """The directory of a small GPT."""
    pieces, text = run.folder / "pieces.model", published("enwiki_slice", "train.txt.gz")
    if run.options.lines:
        lines = gzip.decompress(text.read_bytes()).decode().split("\n")
        text = write(run.folder / "train.txt", lines[: run.options.lines])
    if not pieces.exists():
        how = ("--kind", "unigram", "--size", run.options.pieces, "--max-lines", 20_000)
        nlptools("build-vocab", *how, "-o", pieces, text)
    trained(run.folder / "gpt", "train-lm", "-t", pieces, *GPT.split(), *run.options.rest, text)
    return run.folder / "gpt"


def spread(found: dict[str, list[float]]) -> str:
    """The standard deviation of each side over the seeds."""
    if min(map(len, found.values())) < 2:
        return ""
    each = [f"{statistics.stdev(values):.1f} ({name.removeprefix('nlptools, ')})" for name, values in found.items()]
    return f"standard deviation over the seeds: {', '.join(each)}"


if __name__ == "__main__":
    main()
