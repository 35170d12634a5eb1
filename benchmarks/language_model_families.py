"""Language models: all architectures on one corpus.

    [NLPTOOLS_DATA=DIR] python benchmarks/language_model_families.py [FAMILY...] [--keep DIR] [--share X] [--list]

Trains each family on the training text of the Penn Treebank (Mikolov's split, 10,000 words, `<unk>` an ordinary word) with the
shipped command and the options below, all neural models by Muon, and scores the validation text. Perplexity is per token, the end
of each line counted. Families whose state runs over the text (recurrent ones, Transformer-XL) carry it from line to line in
training and in scoring.
FAMILY: only these rows; each is recorded when it is measured, so that the table can grow in several runs. --share 0.1 trains each
for a tenth of its epochs, to try the script. --keep DIR keeps the models, and a family that DIR has already is not trained again.
"""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import NamedTuple

import records
import side_by_side
from safetensors import safe_open
from side_by_side import machine, nlptools, published, seconds, unfinished

TITLE = "language models of the Penn Treebank"


class Family(NamedTuple):
    """How a row is trained."""

    options: str  # of train-lm
    epochs: float  # 0: counted in one pass
    carries: bool = False  # the state runs over the lines


MUON = "--optimizer muon --lr 4e-3"
WINDOWS = f"--layers 4 --hidden 256 --heads 4 --context 128 --dropout 0.3 --batch-size 16 {MUON}"
STATES = (
    "--layers 2 --hidden 400 --output-bias --dropout 0.25 --context 35 --batch-size 64 --beta2 0.99 --clip 0.5"
    " --optimizer muon"
)
FAMILIES = {
    "5-grams, modified Kneser-Ney": Family("--arch ngram --order 5", 0),
    "5-grams, Witten-Bell": Family("--arch ngram --order 5 --smoothing witten-bell", 0),
    "feed-forward (bengio)": Family("--preset bengio", 4),
    "feed-forward (nplm)": Family("--preset nplm", 4),
    "RNN": Family(f"--arch rnn {STATES} --lr 4e-3", 6, True),
    "GRU": Family(f"--arch gru {STATES} --lr 1e-2", 6, True),
    "LSTM (lstm-hour)": Family("--preset lstm-hour", 6, True),
    "convolution": Family(f"--arch convolution --layers 6 --kernel 4 --hidden 256 --dropout 0.2 {MUON}", 6, True),
    "Transformer, as GPT-2": Family(WINDOWS, 8),
    "Transformer, as LLaMA": Family(f"--arch modern {WINDOWS}", 8),
    "Transformer-XL (small-transformer-xl)": Family("--preset small-transformer-xl", 4, True),
}


def main() -> None:
    """Train, measure and report."""
    options = side_by_side.options(__doc__, "family*", keep=Path, share=1.0, list=False)
    if options.list:
        for name, family in FAMILIES.items():
            print(f"{name:<34} {family.options} --epochs {family.epochs:g}")
        return
    train, valid = published("ptb", "ptb.train.txt"), published("ptb", "ptb.valid.txt")
    print(machine())
    figures: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        place = options.keep or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        vocabulary = place / "ptb.tsv"
        if not vocabulary.exists():
            nlptools("build-vocab", "-t", "whitespace", "-o", vocabulary, train)
        for name in options.family or FAMILIES:
            side = f"nlptools {name}"
            figures[side] = measured(name, place, vocabulary, train, valid, options.share)
            for column, figure in figures[side].items():
                less = column in ("perplexity", "parameters", "seconds of training")
                records.record(TITLE, column, {side: figure}, less=less)
    report(figures)


def measured(name: str, place: Path, vocabulary: Path, train: Path, valid: Path, share: float) -> dict[str, float]:
    """The figures of a family, by unit."""
    family = FAMILIES[name]
    folder = place / "".join(c if c.isalnum() else "-" for c in name)
    words = len(train.read_text(encoding="utf-8").split())
    if unfinished(folder):
        epochs = ["--epochs", f"{family.epochs * share:g}"] if family.epochs else []
        epochs += ["--carry"] if family.carries else []
        nlptools(
            *("train-lm", "-q", "-t", "whitespace", "--vocab", vocabulary, "--valid", valid, *family.options.split()),
            *(*epochs, "-o", folder, train),
        )
    metrics = json.loads((folder / "training.json").read_text(encoding="utf-8"))["metrics"]
    carry = ["--carry"] if family.carries else []
    total = json.loads(nlptools("score", folder, "--per", "total", *carry, valid))
    whole = seconds(lambda: nlptools("score", folder, *carry, valid, stdout=place / "scores"))
    passes = max(1.0, family.epochs * share)
    return {
        "perplexity": total["perplexity"],
        "parameters": float(numbers_in(folder / "model.safetensors")),
        "seconds of training": metrics["seconds"],
        "words/s of training": passes * words / metrics["seconds"],
        "words/s of scoring, whole command": total["words"] / whole,
    }


def numbers_in(path: Path) -> int:
    """How many numbers the weights, or the tables of an n-gram model, have."""
    with safe_open(path, "np") as file:
        return sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 - no mapping


def report(figures: dict[str, dict[str, float]]) -> None:
    """Print one table."""
    columns = list(next(iter(figures.values())))
    print(f"\n{'':<40}" + "".join(f"{column.split(',')[0]:>22}" for column in columns))
    for name, row in figures.items():
        print(f"{name:<40}" + "".join(f"{row[column]:>22,.2f}" for column in columns))


if __name__ == "__main__":
    main()
