"""Bag-of-n-grams classifier: speed and accuracy compared with fastText.

    NLPTOOLS_DATA=DIR python benchmarks/bag_speed.py [--epochs 20] [--copies 4] [--threads 2] [--rounds 3]

DIR/sst2 holds train.tsv and dev.tsv; --copies of the training file stand one after another, so that there is something to do.
16 dimensions, words and pairs of words, on both sides. Examples per second of a pass: what a training of --epochs passes and
one of a single pass differ by, so that reading, counting words and starting cost neither side anything. Accuracy is that of the
development set after 6 passes of the file as it is.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from side_by_side import Job, Speed, bench, published, read, report, separate, write

PASSES = 6
Train = Callable[[Path, int, int], tuple[float, float]]  # file, passes, threads -> seconds, accuracy


def main() -> None:
    with bench(__doc__, epochs=20, copies=4) as run:
        chosen, training = run.options, published("sst2", "train.tsv")
        many = write(run.folder / "many.tsv", read(training) * chosen.copies)
        trains: dict[str, Train] = {"fasttext supervised": theirs, "nlptools": ours}
        sides = {
            f"{name}, {n} thread{'s'[: n > 1]}": separate(passes, train, many, chosen.epochs, n)
            for n in sorted({1, chosen.threads}) for name, train in trains.items()
        }  # fmt: skip
        run.compare("bag of words and pairs", "examples per second", sides)
        accuracies = {name: [100 * train(training, PASSES, chosen.threads)[1]] for name, train in trains.items()}
        report(f"SST-2, dev, accuracy after {PASSES} passes", "percent", accuracies)


def passes(train: Train, file: Path, epochs: int, threads: int) -> Job:
    """Examples per second of the passes after the first one."""
    examples = len(read(file))

    def job() -> Speed:
        first, _ = train(file, 1, threads)
        return Speed(examples * (epochs - 1) / (train(file, epochs, threads)[0] - first))

    return job


def theirs(file: Path, epochs: int, threads: int) -> tuple[float, float]:
    """A training by fastText."""
    import fasttext

    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for name, source in (("train", file), ("dev", published("sst2", "dev.tsv"))):
            pairs = (line.rsplit("\t", 1) for line in read(source))
            paths.append(str(write(Path(directory, name), [f"__label__{label} {text}" for text, label in pairs])))
        shared: dict[str, Any] = {"dim": 16, "wordNgrams": 2, "verbose": 0}
        begin = time.perf_counter()
        model = fasttext.train_supervised(paths[0], epoch=epochs, thread=threads, lr=0.5, **shared)
        return time.perf_counter() - begin, model.test(paths[1])[1]


def ours(file: Path, epochs: int, threads: int) -> tuple[float, float]:
    """A training by `finetune`."""
    from nlptools import messages
    from nlptools.configs import Compute
    from nlptools.configs.finetuning import Finetune, FinetuneTraining
    from nlptools.configs.tasks.files import Files
    from nlptools.configs.tasks.words import Scratch
    from nlptools.configs.text_classifiers import PRESETS
    from nlptools.training.finetuning.finetune import finetune

    messages.settings.quiet = True
    valid = str(published("sst2", "dev.tsv")) if epochs == PASSES else None
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
