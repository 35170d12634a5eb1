"""A translator with attention and one without: BLEU by length of the source.

    NLPTOOLS_DATA=DIR python benchmarks/attention_by_length.py [--max-time 20m] [--into en-de] [--keep DIR]
        [-- OPTIONS of train-seq2seq]

The comparison of Bahdanau, Cho & Bengio 2015 (arXiv:1409.0473, figure 2) on Multi30k: two RNNs with the same options, trained for
the same time; without attention the decoder reads the source as one vector (Cho et al. 2014). DIR/multi30k holds 29,000 pairs.
The two trainings run at the same time, so each has the same share of the machine. With --keep, the same command continues them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from side_by_side import STOPPED, Bench, bench, nlptools, ours, published, report

SIDES = {"nlptools, attention": "bahdanau", "nlptools, without attention": "none"}
OPTIONS = (
    "--arch rnn --cell gru --layers 1 --hidden 160 --embedding 128 --dropout 0.2 --batch-tokens 2048 --lr 3e-3 --warmup 200"
    " --threads 1"
)
DECODINGS = {"beam 5": ("--beam", "5"), "greedy": ("--beam", "1")}
LIMITS = "8,12,16,20"


def train(run: Bench, folder: Path, sides: list[str]) -> None:
    """A model for each attention in SIDES; all at the same time."""
    texts, pieces = [folder / f"train.{language}" for language in sides], run.folder / "pieces.model"
    if not pieces.exists():
        nlptools("build-vocab", "--kind", "unigram", "--size", "4000", "--coverage", "1.0", "-o", pieces, *texts)
    how = (
        *OPTIONS.split(),
        "-t",
        pieces,
        "--source",
        texts[0],
        "--target",
        texts[1],
        "--max-time",
        run.options.max_time,
    )
    commands = [
        ours("train-seq2seq", *how, *run.options.rest, "--attention", a, "-o", run.folder / a) for a in SIDES.values()
    ]
    started = [subprocess.Popen(command) for command in commands]
    wrong = [status for process in started if (status := process.wait()) not in (0, STOPPED)]
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
    with bench(__doc__, "rest*", max_time="20m", into="en-de") as run:
        folder, sides = published("multi30k"), run.options.into.split("-")
        train(run, folder, sides)
        for name, decoding in DECODINGS.items():
            found = {side: scores(run.folder / model, folder, sides, decoding) for side, model in SIDES.items()}
            for group in next(iter(found.values())):
                words = "all lengths" if group == "all" else f"{group} words"
                title = f"Multi30k {run.options.into}, test_2016_flickr, {name}, sources of {words}"
                report(title, "BLEU", {side: [values[group]] for side, values in found.items()})


if __name__ == "__main__":
    main()
