"""Bag-of-n-grams classifier: speed compared with fastText.

    NLPTOOLS_DATA=DIR python benchmarks/bag_speed.py [--epochs 20] [--copies 4] [--threads 2] [--rounds 3]

pip install fasttext-wheel first. DIR/sst2 holds train.tsv and dev.tsv; --copies of the training file stand one after another,
so that there is something to do. 16 dimensions, words and pairs of words, on both sides. Prints examples per second of a
pass: what a training of --epochs passes and one of a single pass differ by, so that reading, counting words and starting
cost neither side anything; and how many of the development set each gets right after 6 passes of the file as it is.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import side_by_side

PASSES = 6
SHARED: dict[str, Any] = {"dim": 16, "wordNgrams": 2, "verbose": 0}


def main() -> None:
    """Measure and report, or be one of the workers."""
    options = side_by_side.options(__doc__, epochs=20, copies=4, threads=side_by_side.CORES, rounds=3)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # before torch is imported, here and in the processes

    if options.worker:
        side, file = options.worker
        train = ours if side == "ours" else theirs
        side_by_side.serve(
            speed(lambda epochs: train(Path(file), epochs, options.threads)[0], Path(file), options.epochs)
        )
        return
    training = side_by_side.published("sst2", "train.tsv")
    print(side_by_side.machine(), f"{options.threads} threads", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        many = Path(scratch, "many.tsv")
        lines = training.read_text(encoding="utf-8").splitlines()
        many.write_text("".join(f"{line}\n" for line in lines) * options.copies, encoding="utf-8")
        more = ("--epochs", str(options.epochs), "--threads", str(options.threads))
        script = os.path.abspath(__file__)
        sides = {
            "fasttext supervised": side_by_side.Worker(script, "theirs", str(many), *more),
            "nlptools": side_by_side.Worker(script, "ours", str(many), *more),
        }
        side_by_side.compare("bag of words and pairs", "examples per second", sides, options.rounds)
        for name, train in {"fasttext supervised": theirs, "nlptools": ours}.items():
            accuracy = train(training, PASSES, options.threads)[1]
            print(f"  SST-2, dev, accuracy after {PASSES} passes: {name} {accuracy:.1%}")


def speed(train: Callable[[int], float], file: Path, epochs: int) -> Callable[[], float]:
    """Examples per second of the passes behind the first one; `train`: number of passes -> seconds."""
    examples = len(file.read_bytes().splitlines())
    return lambda: examples * (epochs - 1) / (train(epochs) - train(1))


def theirs(file: Path, epochs: int, threads: int) -> tuple[float, float]:
    """Seconds of a training, and the accuracy on dev.tsv."""
    import fasttext

    with tempfile.TemporaryDirectory() as directory:
        labelled, held_out = Path(directory, "train"), Path(directory, "dev")
        rewrite(file, labelled)
        rewrite(side_by_side.published("sst2", "dev.tsv"), held_out)
        begin = time.perf_counter()
        model = fasttext.train_supervised(str(labelled), epoch=epochs, thread=threads, lr=0.5, **SHARED)
        seconds = time.perf_counter() - begin
        return seconds, model.test(str(held_out))[1]


def rewrite(file: Path, to: Path) -> None:
    """`text TAB label` as fastText has it."""
    pairs = (line.rsplit("\t", 1) for line in file.read_text(encoding="utf-8").splitlines())
    to.write_text("".join(f"__label__{label} {text}\n" for text, label in pairs), encoding="utf-8")


def ours(file: Path, epochs: int, threads: int) -> tuple[float, float]:
    """Seconds of a training, and the accuracy on dev.tsv."""

    from nlptools import messages
    from nlptools.configs import Compute
    from nlptools.configs.finetuning import Files, Finetune, FinetuneTraining
    from nlptools.configs.tasks.words import Scratch
    from nlptools.configs.text_classifiers import PRESETS
    from nlptools.training.finetuning.finetune import finetune

    messages.settings.quiet = True
    valid = str(side_by_side.published("sst2", "dev.tsv")) if epochs == PASSES else None
    preset = {**PRESETS["bag"], "epochs": float(epochs)}
    known = {name: preset.pop(name) for name in ("dim", "dropout")}
    with tempfile.TemporaryDirectory() as directory:
        out = Path(directory, "bag")
        every = {"save_every": "1000000", "log_every": "1000000"}
        run = FinetuneTraining(output=str(out), valid=valid, **every, **preset)
        settings = Finetune(task="classify", scratch="bag")
        finetune([str(file)], settings, run, Compute(threads=threads), Files(), Scratch(**known))
        metrics = json.loads((out / "training.json").read_text(encoding="utf-8"))["metrics"]
        return float(metrics["seconds"]), float(metrics.get("valid_accuracy", 0.0))


if __name__ == "__main__":
    main()
