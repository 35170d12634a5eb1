"""Pretraining for an hour: gains on SST-2.

    NLPTOOLS_DATA=DIR python benchmarks/pretraining_quality.py [--encoders none,bert,electra] [--steps masked=7000,electra=8000]
        [--seeds 1,2,3] [--keep DIR] [-- OPTIONS of pretrain-bert]

DIR/enwiki_slice (train.txt.gz, valid.txt) is articles of Wikipedia, documents between blank lines; DIR/sst2 (train.tsv,
dev.tsv) holds sentences and 0 or 1. The commands themselves: a WordPiece vocabulary of 12,000, `pretrain-bert --preset hour` as
BERT and as ELECTRA, and `finetune` of each, and of one without any training, once per seed. ELECTRA begins with a masked
language model of its own, `masked`, whose training is a part of its hour. The steps, those of the preset unless given, took an
hour on one core without AMX (`--dry-run` estimates them). Accuracy is given of a linear classifier on `embed`'s vectors - the
mean of all layers and tokens, the encoder as it is - and of `finetune`, where the labels teach the words as well.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from side_by_side import Bench, bench, nlptools, published, read, report, trained, write

COMMON = "--preset hour --sentences auto --log-every 200"
HOW = {
    "masked": COMMON,
    "bert": COMMON,
    "electra": f"{COMMON} --objective electra --lr 5e-4 --mask-rate 0.2",
    "none": f"{COMMON} --attention random --lr 0 --steps 1",  # a step at no rate: the encoder as it is drawn
}
BEGINS = {"electra": "masked"}  # what it goes on from
TUNING = ["--task", "classify", "--epochs", "3", "--lr", "2e-4", "--batch-size", "16", "--encoder-dropout", "0.1"]
ENCODERS = {"none": "without pretraining", "bert": "BERT", "electra": "ELECTRA"}
EPOCHS, BATCH, RATE = 6, 256, 2e-3  # of the linear classifier


def main() -> None:
    steps = "masked=7000,electra=8000"
    with bench(__doc__, "rest*", encoders=ENCODERS, steps=steps, seeds="1,2,3", size=12_000, examples=0) as run:
        tables: dict[str, dict[str, list[float]]] = {"probe": {}, "tuned": {}, "minutes": {}}
        files = {}
        for name in ("train", "dev"):
            files[name] = write(
                run.folder / f"{name}.tsv", read(published("sst2", f"{name}.tsv"))[: run.options.examples or None]
            )
        for name in run.options.encoders:
            encoder, seconds = pretrained(run, name)
            side = f"nlptools, {ENCODERS[name]}"
            tables["probe"][side] = [probed(run, encoder)]
            tables["minutes"][side] = [seconds / 60]
            for seed in run.options.seeds.split(","):
                how = (*TUNING, "-m", encoder, "--seed", seed, "--valid", files["dev"])
                metrics = trained(run.folder / f"{name}-sst2-{seed}", "finetune", *how, files["train"])
                tables["tuned"].setdefault(side, []).append(100 * metrics["valid_accuracy"])
        report("SST-2, dev, accuracy of a linear classifier on the encoder's vectors", "percent", tables["probe"])
        report("SST-2, dev, accuracy after fine-tuning", "percent", tables["tuned"])
        report("time of pretraining", "minutes", tables["minutes"], less=True)


def pretrained(run: Bench, name: str) -> tuple[Path, float]:
    """The directory of an encoder, and the seconds of its training and of what it began with."""
    pieces, text, before = run.folder / "pieces", published("enwiki_slice", "train.txt.gz"), 0.0
    if not pieces.exists():
        nlptools("build-vocab", "--kind", "wordpiece", "--size", run.options.size, "--lowercase", "-o", pieces, text)
    steps = dict(part.split("=", 1) for part in run.options.steps.split(","))
    how: list[object] = [*HOW[name].split(), *(["--steps", steps[name]] if name in steps else []), *run.options.rest]
    if name in BEGINS:
        first, before = pretrained(run, BEGINS[name])
        how += ["--init", first]
    how += ["--valid", published("enwiki_slice", "valid.txt")]
    return run.folder / name, before + trained(run.folder / name, "pretrain-bert", "-t", pieces, *how, text)["seconds"]


def probed(run: Bench, encoder: Path) -> float:
    """Accuracy on the development set of a linear classifier, the encoder as it is, in percent."""
    sides = []
    for name in ("train", "dev"):
        rows = [line.rsplit("\t", 1) for line in read(run.folder / f"{name}.tsv")]
        text, out = write(run.folder / "texts", [sentence for sentence, _ in rows]), run.folder / "vectors.npy"
        nlptools("embed", encoder, "--pooling", "mean", "--layers", "mean:all", "-q", "--force", "-o", out, text)
        sides.append((torch.from_numpy(np.load(out)), torch.tensor([int(label) for _, label in rows])))
    (x, y), (test, gold) = sides
    torch.manual_seed(0)
    mean, scale = x.mean(0), x.std(0) + 1e-6
    model = torch.nn.Linear(x.shape[1], 2)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, EPOCHS * -(-len(x) // BATCH))
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model((x[rows] - mean) / scale), y[rows]).backward()
            optimizer.step()
            schedule.step()
    return 100 * float((model((test - mean) / scale).argmax(1) == gold).float().mean())


if __name__ == "__main__":
    main()
