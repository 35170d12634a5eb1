"""A translator with attention and one without: BLEU by length of the source.

    NLPTOOLS_DATA=DIR python benchmarks/attention_by_length.py [--max-time 20m] [--into en-de] [--keep DIR]
        [-- OPTIONS of train-seq2seq]

The comparison of Bahdanau, Cho & Bengio 2015 (arXiv:1409.0473, figure 2) on Multi30k: two RNNs with the same options, trained for
the same time; without attention the decoder reads the source as one vector (Cho et al. 2014). DIR/multi30k holds 29,000 pairs.
The two trainings run at the same time, so each has the same share of the machine. With --keep, the same command continues them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import records
import side_by_side
from side_by_side import nlptools

SIDES = {"nlptools, attention": "bahdanau", "nlptools, without attention": "none"}
OPTIONS = (
    "--arch rnn --cell gru --layers 1 --hidden 160 --embedding 128 --dropout 0.2 --batch-tokens 2048 --lr 3e-3 --warmup 200"
    " --threads 1"
)
DECODINGS = {"beam 5": ("--beam", "5"), "greedy": ("--beam", "0")}
LIMITS = "8,12,16,20"


def train(scratch: Path, folder: Path, sides: list[str], options: argparse.Namespace) -> None:
    """A model for each attention in SIDES, in `scratch`; all at the same time."""
    texts = [str(folder / f"train.{language}") for language in sides]
    if not (scratch / "pieces.model").exists():
        pieces = ["--kind", "unigram", "--size", "4000", "--coverage", "1.0"]
        nlptools("build-vocab", *pieces, "-o", scratch / "pieces.model", *texts)
    command = [sys.executable, "-m", "nlptools", "train-seq2seq", *OPTIONS.split(), "-t", str(scratch / "pieces.model")]
    command += ["--source", texts[0], "--target", texts[1], "--max-time", options.max_time, *options.rest]
    runs = [subprocess.Popen([*command, "--attention", a, "-o", str(scratch / a)]) for a in SIDES.values()]
    wrong = [status for run in runs if (status := run.wait()) not in (0, side_by_side.STOPPED)]
    if wrong:
        raise SystemExit(f"a training ended with status {wrong[0]}")


def scores(model: Path, folder: Path, sides: list[str], decoding: tuple[str, ...]) -> dict[str, float]:
    """BLEU of the sources of each length, and of all, on test_2016_flickr."""
    source, gold = (folder / f"test_2016_flickr.{language}" for language in sides)
    out = model.with_name(f"{model.name}.out")
    nlptools("generate", model, *decoding, stdin=source, stdout=out)
    lines = nlptools("evaluate", "-m", "bleu", "-r", gold, "--by-length", source, "--length-limits", LIMITS, out)
    return {row[0]: float(row[2]) for row in (line.split("\t") for line in lines.splitlines())}


def main() -> None:
    options = side_by_side.options(__doc__, "rest*", max_time="20m", into="en-de", keep=Path)
    folder, sides = side_by_side.published("multi30k"), options.into.split("-")
    print(side_by_side.machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        train(scratch, folder, sides, options)
        for name, decoding in DECODINGS.items():
            found = {side: scores(scratch / model, folder, sides, decoding) for side, model in SIDES.items()}
            for group in next(iter(found.values())):
                figures = {side: values[group] for side, values in found.items()}
                words = "all lengths" if group == "all" else f"{group} words"
                print(f"{name:<8} {words:<12}", *(f"{side}: {bleu:.2f}" for side, bleu in figures.items()), sep="   ")
                records.record(
                    f"Multi30k {options.into}, test_2016_flickr, {name}, sources of {words}", "BLEU", figures
                )


if __name__ == "__main__":
    main()
