"""Translators trained from scratch: quality and cost.

    NLPTOOLS_DATA=DIR python benchmarks/translation_quality.py [--archs transformer,rnn,convolution] [--max-time 1h30m]
        [--seeds 1,2] [--into en-de|de-en] [--examples N] [--keep DIR] [-- OPTIONS of train-seq2seq]

DIR/multi30k holds Multi30k (29,000 pairs). A vocabulary of pieces common to both languages is learnt, a model of each
architecture is trained, the test sets are translated, and scored twice: as it is, and lower-cased, since what is published of
Multi30k is mostly lower-cased (and tokenized by Moses, which is another thing again).
"""

from __future__ import annotations

import time
from pathlib import Path

from side_by_side import bench, nlptools, published, read, report, trained, write

ARCHS = {
    "transformer": "--preset multi30k",
    "rnn": "--layers 1 --cell gru --hidden 320 --embedding 256 --dropout 0.4 --batch-tokens 2048 --lr 1e-3 --warmup 400"
    " --schedule cosine --min-lr 0.02 --epochs 24 --average 5",
    "convolution": "--layers 4 --hidden 256 --dropout 0.3 --epochs 40 --average 5",
}
SETS = {"val": "val", "test 2016": "test_2016_flickr"}


def main() -> None:
    with bench(__doc__, "rest*", archs=ARCHS, into="en-de", seeds="1", max_time="5h", examples=0, size=6000) as run:
        chosen, folder, place = run.options, published("multi30k"), run.folder
        source, target = chosen.into.split("-")
        for part, name in (("train", "train.tsv"), ("val", "valid.tsv")):
            sides = [read(folder / f"{part}.{language}")[: chosen.examples or None] for language in (source, target)]
            write(place / name, ["\t".join(pair) for pair in zip(*sides, strict=True)])
        pieces = place / "pieces.model"
        if not pieces.exists():
            how = ("--kind", "unigram", "--size", chosen.size, "--coverage", "1.0", "-o", pieces)
            nlptools("build-vocab", *how, folder / f"train.{source}", folder / f"train.{target}")
        tables: dict[tuple[str, str], dict[str, list[float]]] = {}
        for arch in chosen.archs:
            for seed in chosen.seeds.split(","):
                model = place / f"{arch}-{seed}"
                how = (
                    "--arch",
                    arch,
                    *ARCHS[arch].split(),
                    "-t",
                    pieces,
                    "--valid",
                    place / "valid.tsv",
                    "--seed",
                    seed,
                )
                metrics = trained(
                    model, "train-seq2seq", *how, "--max-time", chosen.max_time, *chosen.rest, place / "train.tsv"
                )
                figures = {("time of training", "minutes"): metrics["seconds"] / 60}
                for name, part in SETS.items():
                    test = [
                        write(place / f"{part}.{s}", read(folder / f"{part}.{s}")[: chosen.examples or None])
                        for s in (source, target)
                    ]
                    figures |= scores(model, f"Multi30k {chosen.into}, {name}, beam 5", *test)
                for key, value in figures.items():
                    tables.setdefault(key, {}).setdefault(f"nlptools, {arch}", []).append(value)
        for (title, unit), rows in tables.items():
            report(title, unit, rows, less=unit != "BLEU")


def scores(model: Path, title: str, source: Path, reference: Path) -> dict[tuple[str, str], float]:
    """BLEU cased and lower-cased, and the seconds of translating, loading the model included."""
    output, begin = model.with_name("output"), time.perf_counter()
    nlptools("generate", model, stdin=source, stdout=output)
    seconds = time.perf_counter() - begin
    cased, lower = (
        float(nlptools("bleu", *how, "--score-only", "--width", "2", reference, stdin=output))
        for how in ([], ["--lowercase"])
    )
    return {
        (title, "BLEU"): cased,
        (f"{title}, lower-cased", "BLEU"): lower,
        (f"{title}: time of decoding", "s"): seconds,
    }


if __name__ == "__main__":
    main()
