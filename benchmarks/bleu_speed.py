"""BLEU, chrF and TER: speed and memory compared with sacrebleu.

    python benchmarks/bleu_speed.py [JOB ...] [--rounds N] [--huge]

Both sides are processes, started in turns on the same files, and must print the same. The text is CPython's
documentation (pydoc topics) in random order with words dropped and swapped, or with NLPTOOLS_DATA the WMT17 systems there;
for zh, random Chinese characters as frequent as Zipf's law says. --huge adds a million lines (ours alone: memory).
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import records
import side_by_side

JOBS: dict[str, tuple[int, list[str], list[str]]] = {  # lines; options of sacrebleu, and of ours
    "1,000 lines, 13a": (1000, [], []),
    "100,000 lines, 13a": (100_000, [], []),
    "100,000 lines, intl": (100_000, ["-tok", "intl"], ["--tokenize", "intl"]),
    "100,000 lines, zh": (100_000, ["-tok", "zh"], ["--tokenize", "zh"]),
    "100,000 lines, char": (100_000, ["-tok", "char"], ["--tokenize", "char"]),
    "100,000 lines, none": (100_000, ["-tok", "none"], ["--tokenize", "none"]),
    "3,004 lines, --confidence 1000": (3004, ["--confidence"], ["--confidence", "1000"]),
    "3,004 lines, paired bootstrap of 4 systems": (
        3004,
        ["--paired-bs", "-f", "latex"],
        ["--paired-bs", "-f", "latex"],
    ),
    "3,004 lines, approximate randomization of 4 systems": (
        3004,
        ["--paired-ar", "-f", "latex"],
        ["--paired-ar", "-f", "latex"],
    ),
    "10,000 lines, chrF++": (10_000, ["-m", "chrf", "-cw", "2"], ["-m", "chrf", "--chrf-word-order", "2"]),
    "3,004 lines, TER": (3004, ["-m", "ter"], ["-m", "ter"]),
}


def english() -> list[str]:
    """Real lines to make test sets of."""
    systems = side_by_side.found("wmt17_en_de_systems")
    if systems is not None:
        files = sorted(systems.glob("*.de"))
        return [line for file in files for line in file.read_text(encoding="utf-8").split("\n") if line]
    from pydoc_data.topics import topics

    return [line.strip() for text in topics.values() for line in text.split("\n") if len(line.split()) > 3]


def test_set(folder: str, lines: int, systems: int, kind: str) -> tuple[str, list[str]]:
    """(reference, translations) as files in `folder`."""
    write_set(Path(folder), lines, systems, kind == "zh")
    return f"{folder}/ref", [f"{folder}/hyp{i}" for i in range(systems)]


def write_set(folder: Path, lines: int, systems: int, chinese: bool) -> None:
    """A reference of so many lines and translations of it, each worse than the one before."""
    rng = random.Random(lines)
    source = english()
    characters = [chr(0x4E00 + i) for i in range(5000)]
    weights = [1 / (i + 1) for i in range(len(characters))]
    reference = folder / "ref"
    outputs = [folder / f"hyp{i}" for i in range(systems)]
    with reference.open("w", encoding="utf-8") as ref:
        files = [path.open("w", encoding="utf-8") for path in outputs]
        for _ in range(lines):
            line = "".join(rng.choices(characters, weights, k=30)) if chinese else rng.choice(source)
            ref.write(line + "\n")
            for i, file in enumerate(files):
                words = list(line) if chinese else line.split()
                for _ in range(1 + i + len(words) // 8):
                    at = rng.randrange(len(words))
                    words[at : at + 2] = reversed(words[at : at + 2])
                    if len(words) > 1 and rng.random() < 0.5:
                        del words[rng.randrange(len(words))]
                file.write(("" if chinese else " ").join(words) + "\n")
        for file in files:
            file.close()


# Linux counts the memory that the parent has when it starts a child as the child's; so a process that holds next to
# nothing starts the command, and times it.
STARTER = """
import json, os, sys, time
begin = time.perf_counter()
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
actions = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
_, status, usage = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=actions), 0)
print(json.dumps([status, time.perf_counter() - begin, usage.ru_maxrss]))
"""


class Process:
    """A command as one side: lines per second of its wall clock; remembers the most memory it took."""

    def __init__(self, command: list[str], lines: int, out: Path) -> None:
        self.command, self.lines, self.out = command, lines, out
        self.megabytes = 0.0

    def __call__(self) -> float:
        told = subprocess.run(
            [sys.executable, "-S", "-c", STARTER, str(self.out), *self.command], stdout=subprocess.PIPE, check=True
        ).stdout
        status, seconds, kilobytes = json.loads(told)
        if status:
            raise SystemExit(f"failed: {' '.join(self.command)}")
        self.megabytes = max(self.megabytes, kilobytes / 1024)
        return float(self.lines / seconds)


def measure(job: str, rounds: int) -> None:
    """One row of the table."""
    lines, theirs, ours = JOBS[job]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        systems = 4 if "4 systems" in job else 1
        reference, inputs = test_set(name, lines, systems, "zh" if "zh" in job else "text")
        python = sys.executable
        text = [] if "latex" in theirs else ["-f", "text", "-w", "4"]
        sides: dict[str, Callable[[], float]] = {
            "sacrebleu": Process([python, "-m", "sacrebleu", reference, *theirs, *text, "-i", *inputs], lines, folder / "1"),
            "nlptools": Process(
                [python, "-m", "nlptools", "bleu", reference, *ours, *text, "--signature", "sacrebleu"]
                + [word for path in inputs for word in ("-i", path)],
                lines,
                folder / "2",
            ),
        }  # fmt: skip
        side_by_side.compare(job, "lines/s", sides, rounds)
        printed = [(folder / number).read_text(encoding="utf-8").split("\n----")[0] for number in "12"]
        memory = ", ".join(f"{side} {process.megabytes:,.0f} MB" for side, process in sides.items())  # type: ignore[attr-defined]
        most = {side: process.megabytes for side, process in sides.items()}  # type: ignore[attr-defined]
        records.record(f"{job}: peak memory", "MB", most, less=True, rounds=rounds)
        print(f"  peak memory: {memory}; the same output: {'yes' if printed[0] == printed[1] else 'NO'}", flush=True)


def huge(options: list[str]) -> None:
    """Our memory on a million lines."""
    with tempfile.TemporaryDirectory() as name:
        reference, (hypotheses,) = test_set(name, 1_000_000, 1, "text")
        command = [sys.executable, "-m", "nlptools", "bleu", reference, "-i", hypotheses, *options]
        process = Process(command, 1_000_000, Path(name) / "out")
        speed = process()
        records.record(
            f"1,000,000 lines {' '.join(options)}: peak memory", "MB", {"nlptools": process.megabytes}, less=True
        )
        print(f"\n1,000,000 lines {' '.join(options)}: {1e6 / speed:.1f} s, {process.megabytes:,.0f} MB", flush=True)


def main() -> None:
    arguments = side_by_side.options(__doc__, "jobs*", rounds=3, huge=False)
    print(side_by_side.machine())
    for job in JOBS:
        if not arguments.jobs or any(part in job for part in arguments.jobs):
            measure(job, arguments.rounds)
    if arguments.huge:
        huge([])
        huge(["--confidence", "1000"])


if __name__ == "__main__":
    main()
