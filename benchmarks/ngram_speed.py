"""N-gram models: counting, smoothing and scoring, beside KenLM.

    [NLPTOOLS_DATA=DIR] python benchmarks/ngram_speed.py [TEXT] [--order 5] [--rounds 3]

Trains on TEXT, tokens separated by spaces (default: the training text of the Penn Treebank in NLPTOOLS_DATA), with modified
Kneser-Ney smoothing, and scores the text. Training is beside `lmplz` where it is on the path; scoring is beside the Python
package `kenlm`, sentence by sentence, where it is installed (neither comes with nlptools); it reads the ARPA file that `train-lm`
has written, and the scores are compared. Prints words per second of wall clock, whole commands for training, in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from side_by_side import compare, machine, published

import nlptools
from nlptools.configs.scoring import Score


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", nargs="?", type=Path)
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    text = options.text or published("ptb", "ptb.train.txt")
    lines = text.read_text(encoding="utf-8").split("\n")[:-1]
    words = sum(len(line.split()) for line in lines)
    print(machine())
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        training(text, words, place, options.order, options.rounds)
        scoring(lines, words, place, options.rounds)


def training(text: Path, words: int, place: Path, order: int, rounds: int) -> None:
    """Whole commands, from text to a model on disk."""
    command = [sys.executable, "-m", "nlptools", "train-lm", "-q", "--arch", "ngram", "-t", "whitespace", "--force"]
    command += ["--order", str(order), "-o", str(place / "lm")]

    def timed(arguments: list[str], output: Path | None = None) -> Callable[[], float]:
        def measure() -> float:
            begin = time.perf_counter()
            with text.open("rb") as source, contextlib.ExitStack() as stack:
                target = stack.enter_context(output.open("wb")) if output else None
                subprocess.run(arguments, stdin=source, stdout=target, stderr=subprocess.DEVNULL, check=True)
            return words / (time.perf_counter() - begin)

        return measure

    sides = {
        "nlptools, its own files": timed(command),
        "nlptools, ARPA as well": timed([*command, "--arpa", str(place / "lm.arpa")]),
    }
    if shutil.which("lmplz"):
        memory = ["-S", "50%", "-T", str(place), "--skip_symbols"]
        sides["lmplz"] = timed(["lmplz", "-o", str(order), *memory], place / "theirs.arpa")
    compare(f"{order}-grams of {words:,} words, from text to a model", "words/s", sides, rounds)


def scoring(lines: list[str], words: int, place: Path, rounds: int) -> None:
    """Log-probabilities of all lines, the model in memory."""
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
    compare(f"scores of {len(lines):,} lines, {words:,} words", "words/s", sides, rounds)


if __name__ == "__main__":
    main()
