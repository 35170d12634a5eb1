"""Optimizers and architectures: tokens needed for a loss.

    NLPTOOLS_DATA=DIR python benchmarks/optimizers.py [--sides transformer-adamw,...] [--steps N] [--size "OPTIONS"]
        [--lr X,X] [--keep DIR]

DIR/enwiki_slice (train.txt.gz, valid.txt) is articles of Wikipedia. A vocabulary of 8,000 pieces, then `train-lm` with the
options below for each side, with the same batches in the same order. A side is an architecture and an optimizer; with several
learning rates each side is trained with all of them, and its best one counts. Printed are the losses at the same steps, and the
share of the tokens after which each side has the final loss of the first one. Sides in --keep are not trained again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import records
import side_by_side
from side_by_side import machine, nlptools, published, unfinished

TITLE = "held-out loss of a language model on equal tokens of enwiki_slice"
SIDES = "transformer-adamw,transformer-muon,modern-adamw,modern-muon"
SIZE = "--layers 6 --hidden 384 --heads 6 --context 256 --batch-size 16"

Curve = dict[int, float]  # held-out loss by step


def main() -> None:
    """Train all sides and report."""
    options = side_by_side.options(
        __doc__, sides=SIDES, steps=2000, validations=20, size=SIZE, lr="1e-3", vocabulary=8000, lines=400, keep=Path
    )
    print(machine())
    with tempfile.TemporaryDirectory() as scratch:
        place = options.keep or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        curves = {}
        for side in options.sides.split(","):
            rates = {rate: curve(side, rate, options, place) for rate in options.lr.split(",")}
            best = min(rates, key=lambda rate: last(rates[rate]))
            curves[f"nlptools {side}, lr {best}"] = rates[best]
    report(curves, f"{TITLE}: {options.size}, {options.steps} steps")


def curve(side: str, rate: str, options: argparse.Namespace, place: Path) -> Curve:
    """The held-out losses of a side."""
    text, valid = published("enwiki_slice", "train.txt.gz"), place / "valid.txt"
    pieces, out = place / "pieces.model", place / f"{side}-{rate}"
    if not valid.exists():
        lines = published("enwiki_slice", "valid.txt").read_text(encoding="utf-8").split("\n")
        valid.write_text("\n".join(lines[: options.lines]) + "\n", encoding="utf-8")
    if not pieces.exists():
        nlptools("build-vocab", "--kind", "bpe", "--size", options.vocabulary, "-o", pieces, text)
    if unfinished(out):
        arch, optimizer = side.rsplit("-", 1)
        every = max(1, options.steps // options.validations)
        nlptools(
            *("train-lm", "-q", "-t", pieces, "--document", "paragraph", "--arch", arch, "--optimizer", optimizer),
            *(*options.size.split(), "--lr", rate, "--steps", options.steps, "--valid", valid, "--valid-every", every),
            *("--save-every", "never", "-o", out, text),
        )
    rows = map(json.loads, (out / "log.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["step"]: row["loss"] for row in rows if row["kind"] == "valid"}


def last(losses: Curve) -> float:
    """The loss after the last step."""
    return losses[max(losses)]


def reached(losses: Curve, goal: float) -> float | None:
    """The step at which the loss falls to `goal`, between two validations in proportion; None: it never does."""
    before: tuple[int, float] | None = None
    for step, loss in sorted(losses.items()):
        if loss <= goal:
            return float(step) if before is None else step - (step - before[0]) * (goal - loss) / (before[1] - loss)
        before = step, loss
    return None


def report(curves: dict[str, Curve], title: str) -> None:
    """Print the curves and what share of the tokens each side needs; record the last losses and these shares."""
    names = list(curves)
    steps = sorted(set.intersection(*(set(losses) for losses in curves.values())))
    print(f"\n{'step':>8}" + "".join(f"{name.removeprefix('nlptools '):>34}" for name in names))
    for step in steps:
        print(f"{step:>8}" + "".join(f"{curves[name][step]:>34.4f}" for name in names))
    first = curves[names[0]]
    needed = {names[0]: float(max(first))}
    for name in names[1:]:
        step = reached(curves[name], last(first))
        share = "never" if step is None else f"after 1/{max(first) / step:.2f} of its tokens"
        print(f"{name}: the final loss of {names[0].removeprefix('nlptools ')} {share}")
        if step is not None:
            needed[name] = step
    records.record(title, "nats per token", {name: last(losses) for name, losses in curves.items()}, less=True)
    records.record(title, f"steps to the final loss of {names[0].removeprefix('nlptools ')}", needed, less=True)


if __name__ == "__main__":
    main()
