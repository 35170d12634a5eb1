"""N-gram models: counting and scoring compared with KenLM.

    [NLPTOOLS_DATA=DIR] python benchmarks/ngram_speed.py [TEXT] [--order 5] [--rounds 3] [--memory 1G]

Trains on TEXT, tokens separated by spaces (default: the English novels and the Wikipedia texts in NLPTOOLS_DATA, lower-cased,
19.7M words), with modified Kneser-Ney smoothing, and scores its first 100,000 lines. Training is whole commands, from text to
the model on disk: without and with an ARPA file, and within --memory; compared with `lmplz` if it is on the path. Scoring
is compared with the Python package `kenlm`, sentence by sentence, where it is installed (neither comes with nlptools); it
reads the ARPA file
that `train-lm` has written, and the scores are compared. Both have their tables in memory: ours, which a model makes when it has
looked up half as many n-grams as it holds, are made by scoring the lines twice before. Whole commands, which load the model and
score those lines once, have a table of their own. Prints words per second of wall clock, in
turns, and the peak of resident memory of each command.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import side_by_side
from side_by_side import compare, machine, published

import nlptools
from nlptools.configs.scoring import Score

_SCORED = 100_000  # lines
_SCORINGS = 5  # rounds at least: two seconds each, and noisy


def main() -> None:
    """Measure and report."""
    options = side_by_side.options(__doc__, "/text?", order=5, rounds=3, memory="1G")
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        text = options.text or novels_and_wiki(place / "text")
        with text.open(encoding="utf-8") as stream:
            words = sum(len(line.split()) for line in stream)
        with text.open(encoding="utf-8") as stream:
            lines = [line.rstrip("\n") for line, _ in zip(stream, range(_SCORED), strict=False)]
        training(text, words, place, options.order, options.rounds, options.memory)
        scoring(lines, place, options.rounds)


def novels_and_wiki(path: Path) -> Path:
    """Write the default text to `path`."""
    with path.open("w", encoding="utf-8") as out:
        for folder in ("eltec_eng_novels", "enwiki_slice"):
            with gzip.open(published(folder, "train.txt.gz"), "rt", encoding="utf-8", newline="\n") as stream:
                out.writelines(line.lower() for line in stream)
    return path


def training(text: Path, words: int, place: Path, order: int, rounds: int, memory: str) -> None:
    """Whole commands, from text to a model on disk."""
    command = [sys.executable, "-m", "nlptools", "train-lm", "-q", "--arch", "ngram", "-t", "whitespace", "--force"]
    command += ["--order", str(order), "-o"]
    commands = {
        "nlptools, its own files": [*command, str(place / "lm")],
        "nlptools, ARPA as well": [*command, str(place / "lm"), "--arpa", str(place / "lm.arpa")],
        f"nlptools --memory {memory}": [*command, str(place / "lm-files"), "--memory", memory],
    }
    peaks: dict[str, int] = {}
    null = Path(os.devnull)
    sides = {name: whole(name, arguments, text, words, null, peaks) for name, arguments in commands.items()}
    if shutil.which("lmplz"):
        arguments = ["lmplz", "-o", str(order), "-S", "50%", "-T", str(place), "--skip_symbols"]
        sides["lmplz"] = whole("lmplz", arguments, text, words, place / "theirs.arpa", peaks)
    compare(f"{order}-grams of {words:,} words, from text to a model", "words/s", sides, rounds)
    report(peaks)
    ours, in_files = ((place / name / "model.safetensors").read_bytes() for name in ("lm", "lm-files"))
    assert ours == in_files, "a model made with little memory is different"


def whole(
    name: str, arguments: list[str], text: Path, words: int, output: Path, peaks: dict[str, int]
) -> Callable[[], float]:
    """Measures a command that reads `text` and writes `output`; `peaks` gets the most kilobytes that it has had in memory."""

    def measure() -> float:
        begin = time.perf_counter()
        with text.open("rb") as source, output.open("wb") as target:
            process = subprocess.Popen(arguments, stdin=source, stdout=target, stderr=subprocess.DEVNULL)
            while process.poll() is None:
                peaks[name] = max(peaks.get(name, 0), peak_memory(process.pid))
                time.sleep(0.02)
        if process.returncode:
            raise SystemExit(f"{arguments} ended with status {process.returncode}")
        return words / (time.perf_counter() - begin)

    return measure


def report(peaks: dict[str, int]) -> None:
    """Print the peaks of resident memory."""
    print("peak memory: " + ", ".join(f"{name}: {peak / 1024:,.0f} MB" for name, peak in peaks.items()))


def peak_memory(process: int) -> int:
    """The most kilobytes that a process has had in memory so far; 0 where /proc does not say it.

    What `wait4` reports begins with the memory of this process.
    """
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().split("\n"):
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def scoring(lines: list[str], place: Path, rounds: int) -> None:
    """Log-probabilities of lines, the model in memory."""
    words = sum(len(line.split()) for line in lines)
    ours = nlptools.load(str(place / "lm"), settings=Score())

    def timed(job: Callable[[], object]) -> Callable[[], float]:
        def measure() -> float:
            begin = time.perf_counter()
            job()
            return words / (time.perf_counter() - begin)

        return measure

    sides = {"nlptools": timed(lambda: ours.totals(lines, Score()))}
    with contextlib.suppress(ImportError):
        import kenlm

        theirs = kenlm.Model(str(place / "lm.arpa"))
        some = lines[:2000]
        expected = [theirs.score(line) for line in some]
        scores = [score / np.log(10) for score, _ in ours.totals(some, Score())]
        np.testing.assert_allclose(scores, expected, atol=1e-3)
        sides["kenlm"] = timed(lambda: [theirs.score(line) for line in lines])
    for _ in range(2):
        ours.totals(lines, Score())
    compare(f"scores of {len(lines):,} lines, {words:,} words", "words/s", sides, max(rounds, _SCORINGS))
    text, peaks = place / "scored", dict[str, int]()
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "nlptools", "score", "-q", str(place / "lm"), "--per"]
    names = {f"nlptools score --per {per}": [*command, per] for per in ("line", "total")}
    commands = {name: whole(name, arguments, text, words, Path(os.devnull), peaks) for name, arguments in names.items()}
    compare(f"whole commands: scores of {words:,} words, with loading", "words/s", commands, rounds)
    report(peaks)


if __name__ == "__main__":
    main()
