"""Taggers without pretraining: quality.

    NLPTOOLS_DATA=DIR python benchmarks/tagger_quality.py [--scratch lstm] [--characters cnn] [--seeds 1] [--minutes 15]
        [--vectors FILE] [--examples N] [--keep DIR] [-- OPTIONS of finetune]

DIR holds published files in conll2003 and enwiki_slice. Word vectors are trained on the text of enwiki_slice (lower-cased,
100 dimensions) unless --vectors names a file. The tagger, with a conditional random field, trains on eng.train; --minutes is
the time for it and for the vectors. eng.testa chooses the epoch and is measured, so this is a development score. The F1 is that
of `predict --columns | evaluate -m entity-f1`, which computes it as conlleval does.
--scratch, --characters and --seeds take several values between commas. --examples: only the first N sentences and N lines of
the text, to see whether everything works. --keep holds what is made; what is there already is not made again.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

import records
import side_by_side
from finetuning_quality import first
from side_by_side import nlptools, published

TITLE = "CoNLL-2003, testa, F1, without pretraining"
ASKED = 86.0


def arguments() -> argparse.Namespace:
    """The options."""
    return side_by_side.options(
        __doc__, "rest*", scratch="lstm", characters="cnn", seeds="1", minutes=15.0, vectors=Path, examples=0, keep=Path
    )


def main() -> None:
    """Train, measure, print a line per run and a table."""
    options = arguments()
    print(side_by_side.machine(), flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        scratch = options.keep or Path(temporary)
        scratch.mkdir(parents=True, exist_ok=True)
        files = published("conll2003", "eng.train"), published("conll2003", "eng.testa")
        if options.examples:
            files = shortened(files[0], scratch, options.examples), shortened(files[1], scratch, options.examples)
        begin = time.monotonic()
        vectors = options.vectors or trained_vectors(scratch, options.examples)
        seconds = time.monotonic() - begin
        print(f"word vectors: {seconds:.0f} s", flush=True)
        table = [f"{TITLE:<44}{'F1':>8}{'asked':>8}{'minutes':>9}  seeds"]
        for arch, characters in itertools.product(options.scratch.split(","), options.characters.split(",")):
            title = f"--scratch {arch} --characters {characters}"
            named = [(f"{arch}-{characters}-{seed}", arch, characters, seed) for seed in options.seeds.split(",")]
            runs = [run(*names, files, vectors, seconds, scratch, options) for names in named]
            values, minutes = ([row[i] for row in runs] for i in range(2))
            seeds = " ".join(f"{value:.2f}" for value in values)
            table.append(f"{title:<44}{statistics.mean(values):>8.2f}{ASKED:>8}{max(minutes):>9.1f}  {seeds}")
            print(table[0], table[-1], sep="\n", flush=True)
            side = f"nlptools, {title}"
            ranges = {side: (min(values), max(values))}
            records.record(TITLE, "percent", {side: statistics.mean(values)}, ranges=ranges, rounds=len(runs))
    print("", *table, sep="\n")


def shortened(path: Path, scratch: Path, examples: int) -> Path:
    """The first sentences of a file."""
    out = scratch / path.name
    out.write_bytes(first(path.read_bytes(), examples, b"\n\n"))
    return out


def trained_vectors(scratch: Path, examples: int) -> Path:
    """The file of vectors of the words of enwiki_slice."""
    text, tokens, vectors = published("enwiki_slice", "train.txt.gz"), scratch / "tokens.txt", scratch / "vectors.bin"
    if examples:
        with gzip.open(text, "rt", encoding="utf-8") as lines:
            text = scratch / "text.txt"
            text.write_text("".join(itertools.islice(lines, examples)), encoding="utf-8")
    if not vectors.is_file():
        nlptools("tokenize", "--tokenizer", "words", "--lowercase", "--force", "-o", tokens, text)
        nlptools("train-w2v", "--epochs", 3, "--dim", 100, "--force", "-o", vectors, tokens)
        tokens.unlink()
    return vectors


def run(
    name: str,
    arch: str,
    characters: str,
    seed: str,
    files: tuple[Path, Path],
    vectors: Path,
    seconds: float,
    scratch: Path,
    options: argparse.Namespace,
) -> tuple[float, float]:
    """Train and measure once: F1 in percent, and the minutes of vectors and tagger together."""
    out = scratch / name
    begin = time.monotonic()
    if not (out / "manifest.json").is_file():
        left = max(1, int(options.minutes * 60 - seconds))
        how = ["--scratch", arch, "--characters", characters, "--crf", "--seed", seed, "--vectors", vectors]
        how += ["--valid", files[1], "--max-time", f"{left}s", *options.rest]
        nlptools("finetune", "--task", "tag", *how, "-o", out, files[0])
    took = time.monotonic() - begin
    tagged = scratch / f"{name}.tagged"
    nlptools("predict", "--columns", out, files[1], stdout=tagged)
    rows = map(json.loads, nlptools("evaluate", "-m", "entity-f1", "--to", "jsonl", tagged).splitlines())
    (value,) = (100 * row["value"] for row in rows if row["name"] == "entity-f1:f1")
    print(f"{name}: F1 {value:.2f}, {(seconds + took) / 60:.1f} minutes with the vectors", flush=True)
    return value, (seconds + took) / 60


if __name__ == "__main__":
    main()
