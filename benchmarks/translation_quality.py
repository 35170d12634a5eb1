"""Translators trained from scratch: quality and cost.

    NLPTOOLS_DATA=DIR python benchmarks/translation_quality.py [--arch transformer,rnn,convolution] [--max-time 1h30m]
        [--seeds 1,2] [--into en-de|de-en] [--keep DIR] [-- OPTIONS of train-seq2seq]

DIR/multi30k holds Multi30k (29,000 pairs). A vocabulary of pieces common to both languages is learnt, a model of each
architecture is trained, the test sets are translated, and scored twice: as it is, and lower-cased, since
what is published of Multi30k is mostly lower-cased (and tokenized by Moses, which is another thing again).
--keep holds what is made, and a run that was stopped by --max-time goes on when the same command is given again.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import records
import side_by_side
from side_by_side import nlptools

# options of each architecture: the preset is one of Transformers
ARCHITECTURES = {
    "transformer": "--preset multi30k",
    "rnn": "--layers 1 --cell gru --hidden 320 --embedding 256 --dropout 0.4 --batch-tokens 2048 --lr 1e-3 --warmup 400"
    " --schedule cosine --min-lr 0.02 --epochs 24 --average 5",
    "convolution": "--layers 4 --hidden 256 --dropout 0.3 --epochs 40 --average 5",
}
SETS = {"val": "val", "test 2016": "test_2016_flickr"}


def join(folder: Path, part: str, source: str, target: str, out: Path) -> None:
    """Two files side by side as `source TAB target`, escaped as TSV is."""
    from nlptools.files.line_records import escape

    sides = [(folder / f"{part}.{language}").read_text(encoding="utf-8") for language in (source, target)]
    rows = zip(*(side.removesuffix("\n").split("\n") for side in sides), strict=True)
    out.write_text("".join("\t".join(map(escape, row)) + "\n" for row in rows), encoding="utf-8")


def prepare(folder: Path, scratch: Path, source: str, target: str) -> float:
    """train.tsv, valid.tsv and the vocabulary; seconds that learning it took, 0 when it was there."""
    for part, name in (("train", "train.tsv"), ("val", "valid.tsv")):
        join(folder, part, source, target, scratch / name)
    if (scratch / "pieces.model").exists():
        return 0.0
    texts = [str(folder / f"train.{language}") for language in (source, target)]
    vocabulary = ("--kind", "unigram", "--size", "6000", "--coverage", "1.0", "-o", str(scratch / "pieces.model"))
    return side_by_side.seconds(lambda: nlptools("build-vocab", *vocabulary, *texts))


def train(arch: str, seed: int, scratch: Path, options: argparse.Namespace) -> tuple[Path, float]:
    """The model's directory, and the seconds that this took."""
    model = scratch / f"{arch}-{seed}"
    limit = ["--max-time", options.max_time] if options.max_time else []
    seconds = side_by_side.seconds(
        lambda: nlptools(
            "train-seq2seq", "--arch", arch, *ARCHITECTURES[arch].split(), "--tokenizer", str(scratch / "pieces.model"),
            "--valid", str(scratch / "valid.tsv"), "--seed", str(seed), *limit, *options.rest, "-o", str(model),
            str(scratch / "train.tsv"),
        )
    )  # fmt: skip
    return model, seconds


def score(model: Path, folder: Path, source: str, target: str) -> dict[str, tuple[float, float, float]]:
    """Of each test set: BLEU cased and lower-cased, and the seconds of translating, loading the model included."""
    found = {}
    for name, part in SETS.items():
        reference, output = str(folder / f"{part}.{target}"), model.with_name(f"{model.name}.{part}.{target}")
        begin = time.perf_counter()
        nlptools("generate", str(model), stdin=folder / f"{part}.{source}", stdout=output)
        seconds = time.perf_counter() - begin
        cased, lower = (
            float(nlptools("bleu", *extra, "--score-only", "--width", "2", reference, stdin=output))
            for extra in ([], ["--lowercase"])
        )
        found[name] = (cased, lower, seconds)
    return found


def trained(model: Path) -> str:
    """What the training record tells of its end."""
    path = model / "training.json"
    record = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return json.dumps(record["metrics"]) if record.get("metrics") else ""


def main() -> None:
    options = side_by_side.options(
        __doc__, "rest*", arch=",".join(ARCHITECTURES), into="en-de", seeds="1", max_time=str, keep=Path
    )
    wrong = set(options.arch.split(",")) - ARCHITECTURES.keys()
    if wrong:
        raise SystemExit(f"unknown architecture {', '.join(sorted(wrong))}, expected {', '.join(ARCHITECTURES)}")
    folder = side_by_side.published("multi30k")
    source, target = options.into.split("-")
    print(side_by_side.machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        print(f"  vocabulary: {prepare(folder, scratch, source, target):.0f} s")
        table = [
            f"{'Multi30k ' + options.into:<20} {'seed':>4} {'training':>10}  "
            + "  ".join(f"{n + ': BLEU, lc, s':>24}" for n in SETS)
        ]
        for arch in options.arch.split(","):
            for seed in map(int, options.seeds.split(",")):
                model, seconds = train(arch, seed, scratch, options)
                scores = score(model, folder, source, target)
                cells = "  ".join(
                    f"{f'{cased:.2f}  {lower:.2f}  {took:.1f}':>24}" for cased, lower, took in scores.values()
                )
                table.append(f"{arch:<20} {seed:>4} {seconds / 60:>8.1f} m  {cells}")
                name = f"nlptools, {arch}"
                for part, (cased, lower, took) in scores.items():
                    title = f"Multi30k {options.into}, {part}, beam 5"
                    records.record(title, "BLEU", {name: cased})
                    records.record(f"{title}, lower-cased", "BLEU", {name: lower})
                    records.record(f"{title}: time of decoding", "s", {name: took}, less=True)
                records.record("time of training", "minutes", {name: seconds / 60}, less=True)
                print(trained(model), table[-1], sep="\n", flush=True)
    print("", *table, sep="\n")


if __name__ == "__main__":
    main()
