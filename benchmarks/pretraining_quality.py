"""Pretraining for an hour: gains on SST-2.

    NLPTOOLS_DATA=DIR python benchmarks/pretraining_quality.py [--steps masked=7000,electra=8000] [--seeds 1,2,3]
        [--only none,bert,electra] [--keep DIR]

DIR/enwiki_slice (train.txt.gz, valid.txt) is articles of Wikipedia, documents between blank lines; DIR/sst2 (train.tsv,
dev.tsv) holds sentences and 0 or 1. The commands themselves: a WordPiece vocabulary of 12,000, `pretrain-bert --preset hour`
as BERT and as ELECTRA, and `finetune` of each, and of one without any training, once per seed. ELECTRA begins with a masked
language model of its own, `masked`, whose training is a part of its hour. The steps, those of the preset unless given, took an
hour on one core without AMX (`--dry-run` estimates them); minutes are printed. What is in --keep already is not made again, and
a training that was stopped goes on. Accuracy is given of a linear classifier on `embed`'s
vectors - the mean of all layers and tokens, the encoder as it is - and of `finetune`, where the labels teach the words as well.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path

import numpy as np
import records
import side_by_side
from layer_probe import probe
from side_by_side import nlptools, unfinished

COMMON = "--preset hour --sentences auto --log-every 200"
HOW = {
    "bert": COMMON,
    "masked": COMMON,
    "electra": f"{COMMON} --objective electra --lr 5e-4 --mask-rate 0.2",
    "none": f"{COMMON} --attention random --lr 0 --steps 1",  # a step at no rate: the encoder as it is drawn
}
BEGINS = {"electra": "masked"}  # what it goes on from
TUNING = "--task classify --epochs 3 --lr 2e-4 --batch-size 16 --encoder-dropout 0.1"
TITLES = {"none": "without pretraining", "bert": "BERT", "electra": "ELECTRA"}


def pretrained(name: str, steps: dict[str, str], data: Path, scratch: Path) -> Path:
    """The directory of an encoder."""
    pieces, out = scratch / "pieces", scratch / name
    text = data / "enwiki_slice" / "train.txt.gz"
    if not pieces.exists():
        nlptools("build-vocab", *["--kind", "wordpiece", "--size", "12000", "--lowercase"], "-o", pieces, text)
    if unfinished(out):
        how: list[str | Path] = [*HOW[name].split(), *(["--steps", steps[name]] if name in steps else [])]
        how += ["--init", pretrained(BEGINS[name], steps, data, scratch)] if name in BEGINS else []
        nlptools("pretrain-bert", "-t", pieces, *how, "--valid", data / "enwiki_slice" / "valid.txt", "-o", out, text)
    return out


def tuned(encoder: Path, seed: str, data: Path) -> float:
    """Accuracy on the development set, in percent."""
    out = encoder.parent / f"{encoder.name}-sst2-{seed}"
    if unfinished(out):
        nlptools("finetune", *TUNING.split(), "-m", encoder, "--seed", seed, "--valid", data / "sst2" / "dev.tsv", "-o", out,
                 data / "sst2" / "train.tsv")  # fmt: skip
    metrics = json.loads((out / "training.json").read_text(encoding="utf-8"))["metrics"]
    return 100 * float(metrics["valid_accuracy"])


def probed(encoder: Path, data: Path) -> float:
    """Accuracy on the development set of a linear classifier, the encoder as it is, in percent."""
    sides = []
    for name in ("train", "dev"):
        rows = [
            line.rsplit("\t", 1) for line in (data / "sst2" / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        ]
        text, out = encoder.parent / f"{name}.txt", encoder.parent / f"{encoder.name}-{name}.npy"
        text.write_text("".join(f"{sentence}\n" for sentence, _ in rows), encoding="utf-8")
        nlptools("embed", encoder, "--pooling", "mean", "--layers", "mean:all", "-q", "--force", "-o", out, text)
        sides.append((np.load(out), np.array([int(label) for _, label in rows])))
    (train, labels), (dev, gold) = sides
    return 100 * float((probe(train, labels, dev, 2) == gold).mean())


def minutes(encoder: Path) -> float:
    """How long the training took, with that of what it began with."""
    record = json.loads((encoder / "training.json").read_text(encoding="utf-8"))
    before = minutes(encoder.parent / BEGINS[encoder.name]) if encoder.name in BEGINS else 0.0
    return float(record["metrics"]["seconds"]) / 60 + before


def main() -> None:
    options = side_by_side.options(
        __doc__, steps="masked=7000,electra=8000", seeds="1,2,3", only="none,bert,electra", keep=Path
    )
    data = side_by_side.published("enwiki_slice").parent
    side_by_side.published("sst2")
    steps = dict(part.split("=", 1) for part in options.steps.split(","))
    print(side_by_side.machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        table = [f"{'SST-2, dev, accuracy':<24}{'probe':>8}{'finetune':>10}{'seeds':>24}{'minutes of pretraining':>26}"]
        for name in options.only.split(","):
            encoder = pretrained(name, steps, data, scratch)
            found = [tuned(encoder, seed, data) for seed in options.seeds.split(",")]
            each = " ".join(f"{value:.1f}" for value in found)
            values = f"{probed(encoder, data):>8.2f}{statistics.mean(found):>10.2f}{each:>24}{minutes(encoder):>26.1f}"
            table.append(f"{TITLES[name]:<24}{values}")
            probe_title = "SST-2, dev, accuracy of a linear classifier on the encoder's vectors"
            records.record(probe_title, "percent", {f"nlptools, {TITLES[name]}": probed(encoder, data)})
            ranges = {f"nlptools, {TITLES[name]}": (min(found), max(found))}
            sides = {f"nlptools, {TITLES[name]}": statistics.mean(found)}
            records.record("SST-2, dev, accuracy after fine-tuning", "percent", sides, ranges=ranges, rounds=len(found))
    print("", *table, sep="\n")


if __name__ == "__main__":
    main()
