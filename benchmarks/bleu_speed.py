"""BLEU, chrF and TER: speed and memory compared with sacrebleu.

    python benchmarks/bleu_speed.py [--jobs 13a,zh,...] [--lines N] [--rounds N]

Both sides are processes, started in turns on the same files, and must print the same. The text is CPython's help topics in
random order with words dropped and swapped, or with NLPTOOLS_DATA the WMT17 systems there; for zh, random Chinese characters as
frequent as Zipf's law says. A million lines are ours alone: memory.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import samples
from side_by_side import Command, bench, found, ours, read, write


class Work(NamedTuple):
    """Lines and systems; the options of sacrebleu, and ours where they differ."""

    title: str
    lines: int
    theirs: str = ""
    ours: str | None = None
    systems: int = 1


JOBS = {
    "few": Work("1,000 lines, 13a", 1000),
    "13a": Work("100,000 lines, 13a", 100_000),
    "intl": Work("100,000 lines, intl", 100_000, "-tok intl", "--tokenize intl"),
    "zh": Work("100,000 lines, zh", 100_000, "-tok zh", "--tokenize zh"),
    "char": Work("100,000 lines, char", 100_000, "-tok char", "--tokenize char"),
    "none": Work("100,000 lines, none", 100_000, "-tok none", "--tokenize none"),
    "interval": Work("3,004 lines, --confidence 1000", 3004, "--confidence", "--confidence 1000"),
    "bootstrap": Work("3,004 lines, paired bootstrap of 4 systems", 3004, "--paired-bs -f latex", systems=4),
    "randomization": Work(
        "3,004 lines, approximate randomization of 4 systems", 3004, "--paired-ar -f latex", systems=4
    ),
    "chrf": Work("10,000 lines, chrF++", 10_000, "-m chrf -cw 2", "-m chrf --chrf-word-order 2"),
    "ter": Work("3,004 lines, TER", 3004, "-m ter"),
    "million": Work("1,000,000 lines", 1_000_000),
    "million-interval": Work("1,000,000 lines, --confidence 1000", 1_000_000, ours="--confidence 1000"),
}


def main() -> None:
    with bench(__doc__, jobs=JOBS, lines=0) as run:
        for name in run.options.jobs:
            work = JOBS[name]
            lines = run.options.lines or work.lines
            reference, inputs = test_set(run.folder, lines, work.systems, name == "zh")
            text = "" if "latex" in work.theirs else "-f text -w 4"
            theirs = [sys.executable, "-m", "sacrebleu", reference, *work.theirs.split(), *text.split(), "-i", *inputs]
            how = (work.theirs if work.ours is None else work.ours).split()
            each = [word for path in inputs for word in ("-i", path)]
            mine = ours("bleu", reference, *how, *text.split(), "--signature", "sacrebleu", *each)
            sides = {"nlptools": Command(mine, lines, output=run.folder / "ours")}
            if not name.startswith("million"):
                sides = {"sacrebleu": Command(theirs, lines, output=run.folder / "theirs"), **sides}
            run.compare(work.title, "lines/s", sides, memory=True, check=same)


def same(results: Mapping[str, str]) -> str:
    """Whether both print the same."""
    texts = {text.split("\n----")[0] for text in results.values()}
    return "" if len(results) == 1 else "the same output" if len(texts) == 1 else "OTHER OUTPUT"


def english() -> list[str]:
    """Real lines to make test sets of."""
    systems = found("wmt17_en_de_systems")
    if systems is None:
        return [line for line in samples.help_topics() if len(line.split()) > 3]
    return [line for file in sorted(systems.glob("*.de")) for line in read(file) if line]


def test_set(folder: Path, lines: int, systems: int, chinese: bool) -> tuple[Path, list[Path]]:
    """A reference of so many lines and translations of it, each worse than the one before."""
    rng, source = random.Random(lines), english()
    characters = [chr(0x4E00 + i) for i in range(5000)]
    weights = [1 / (i + 1) for i in range(len(characters))]
    reference: list[str] = []
    outputs: list[list[str]] = [[] for _ in range(systems)]
    for _ in range(lines):
        line = "".join(rng.choices(characters, weights, k=30)) if chinese else rng.choice(source)
        reference.append(line)
        for i, output in enumerate(outputs):
            words = list(line) if chinese else line.split()
            for _ in range(1 + i + len(words) // 8):
                at = rng.randrange(len(words))
                words[at : at + 2] = reversed(words[at : at + 2])
                if len(words) > 1 and rng.random() < 0.5:
                    del words[rng.randrange(len(words))]
            output.append(("" if chinese else " ").join(words))
    paths = [write(folder / f"hyp{i}", output) for i, output in enumerate(outputs)]
    return write(folder / "ref", reference), paths


if __name__ == "__main__":
    main()
