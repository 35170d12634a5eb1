"""Perplexity of n-grams, a neural model, mixtures and adaptive models on the Penn Treebank.

The target is a mixture of 5-grams with modified Kneser-Ney smoothing and an LSTM at least 6% below the better of the two on the
validation text. Weights and the cache are tuned on the first half of it, and all rows are measured on the second half.

    NLPTOOLS_DATA=... python benchmarks/mixture_perplexity.py [--neural DIR] [--steps N] [--lines N]

--neural: a trained model with the words of the training text as its vocabulary; without it, a small LSTM is trained here.
--steps: of that training. --lines: of the texts, to check that the script runs.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import records
import side_by_side
from side_by_side import nlptools

DYNAMIC = 0.1  # learning rate of dynamic evaluation
CACHE = 500  # tokens


def main() -> None:
    given = side_by_side.options(__doc__, neural=Path, steps=2000, lines=int)
    print(side_by_side.machine())
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        neural = given.neural or place / "neural"
        prepare(place, given.lines, None if given.neural else neural, given.steps)
        measure(place, neural)


def prepare(place: Path, lines: int | None, neural: Path | None, steps: int) -> None:
    """Write train.txt, tune.txt and test.txt, and train the models; a neural one only if its directory is given."""
    train, valid = (
        side_by_side.published("ptb", f"ptb.{part}.txt").read_text().split("\n")[:-1][:lines]
        for part in ("train", "valid")
    )
    half = len(valid) // 2
    for part, rows in (("train", train), ("tune", valid[:half]), ("test", valid[half:])):
        (place / f"{part}.txt").write_text("".join(row + "\n" for row in rows))
    text, vocab = place / "train.txt", place / "vocab.tsv"
    nlptools("build-vocab", "-t", "whitespace", "-o", vocab, text)
    words = ("-t", "whitespace", "--vocab", vocab)
    nlptools("train-lm", "--arch", "ngram", *words, "--order", 5, "-q", "-o", place / "kn5", text)
    if neural is not None:
        sizes = ("--layers", 1, "--hidden", 256, "--dropout", 0.3, "--context", 35, "--batch-size", 20)
        how = ("--steps", steps, "--lr", "3e-3", "--valid", place / "tune.txt", "--carry", "-q", "-o", neural)
        nlptools("train-lm", "--arch", "lstm", *words, *sizes, *how, text)


def measure(place: Path, neural: Path) -> None:
    """Print the table, and record it."""
    counts, tune = place / "kn5", ("--tune", place / "tune.txt")
    cache, dynamic = ("--cache", CACHE), ("--dynamic", DYNAMIC)
    rows = {
        "5-grams": (counts,),
        "neural, each line alone": (neural,),
        "neural": (neural, "--carry"),
        "neural + cache": (neural, *cache, *tune),
        "neural + dynamic evaluation": (neural, *dynamic),
        "neural + both": (neural, *cache, *dynamic, *tune),
        "nlptools mixture": (neural, "--with", counts, "--carry", *tune),
        "nlptools mixture + cache": (neural, "--with", counts, *cache, *tune),
        "nlptools mixture + cache + dynamic evaluation": (neural, "--with", counts, *cache, *dynamic, *tune),
    }
    found = {name: perplexity(place / "test.txt", *how) for name, how in rows.items()}
    title, unit = "Second half of the validation text of the Penn Treebank", "perplexity per token"
    print(f"\n{title} ({unit})")
    for name, value in found.items():
        print(f"  {name:<46} {value:>10,.2f}")
    better = min(found["5-grams"], found["neural"])
    print(f"the mixture is {1 - found['nlptools mixture'] / better:.1%} below the better of its models (target: 6%)")
    records.record(title, unit, found, less=True)


def perplexity(text: Path, *how: object) -> float:
    """Of a text, scored with these arguments."""
    return float(json.loads(nlptools("score", *how, "--per", "total", "--precision", "fp32", text))["perplexity"])


if __name__ == "__main__":
    main()
