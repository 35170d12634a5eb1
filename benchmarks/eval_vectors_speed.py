"""Analogies: speed compared with gensim.

    python benchmarks/eval_vectors_speed.py [--words 30000] [--dimensions 100] [--questions 2000] [--method add]
        [--vectors FILE] [--rounds 3] [--threads N]

The questions are those of word2vec's questions-words.txt where NLPTOOLS_DATA names a folder that has it in `analogies/`,
else made up: 900 words in 14 sections. gensim is asked `--questions` of them, spread over the file, because it takes
milliseconds for each (0: all). The vectors are random, or those of FILE. Both sides have the vectors in memory and read
the questions from a file; with 3CosMul, which gensim's evaluation does not have, it still answers by 3CosAdd.
Prints questions per second.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import side_by_side


def main() -> None:
    """Measure and report."""
    options = side_by_side.options(
        __doc__, words=30_000, dimensions=100, questions=2000, method="add", vectors=str, rounds=3, threads=1
    )
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)  # before numpy is imported
    compare(options)


def compare(options: argparse.Namespace) -> None:
    """Both sides on the same vectors and questions."""
    import gensim
    import numpy

    from nlptools.configs.eval_vectors import EvalVectors
    from nlptools.vectors import evaluation
    from nlptools.vectors.files import formats
    from nlptools.vectors.table import Vectors

    lines = questions()
    if options.vectors:
        loaded = formats.load(options.vectors)
        words, rows = loaded.words[: options.words], loaded.rows.read(0, options.words)
    else:
        words, rows = made_up(lines, options.words, options.dimensions)
    ours_table, theirs_table = Vectors(words, rows), gensim.models.KeyedVectors(rows.shape[1])
    theirs_table.add_vectors(words, rows)
    with tempfile.TemporaryDirectory() as directory:
        whole, some = Path(directory, "whole.txt"), Path(directory, "some.txt")
        whole.write_text("\n".join(lines) + "\n", encoding="utf-8")
        count = sum(line[0] != ":" for line in lines)
        step = max(1, count // options.questions) if options.questions else 1
        fewer = [line for i, line in enumerate(lines) if line[0] == ":" or i % step == 0]
        some.write_text("\n".join(fewer) + "\n", encoding="utf-8")
        asked = sum(line[0] != ":" for line in fewer)

        def ours(path: Path = whole) -> object:
            settings = EvalVectors(analogies=(str(path),), restrict=options.words, method=options.method)
            return evaluation.evaluate(ours_table, settings)[-1].correct

        def theirs() -> object:
            return len(theirs_table.evaluate_word_analogies(str(some), restrict_vocab=options.words)[1][-1]["correct"])

        print(
            side_by_side.machine()
            + f"; gensim {gensim.__version__}, numpy {numpy.__version__}, {options.threads} threads"
        )
        print(f"solved of the same {asked:,} questions: gensim {theirs()}, nlptools {ours(some)} ({options.method})")
        sides = {
            f"gensim, {asked:,} questions": lambda: asked / side_by_side.seconds(theirs),
            f"nlptools, the same {asked:,}": lambda: asked / side_by_side.seconds(lambda: ours(some)),
        }
        title = f"analogies, {len(words):,} words x {rows.shape[1]}"
        side_by_side.compare(title, "questions per second", sides, options.rounds)
        every: dict[str, side_by_side.Measure] = {"nlptools": lambda: count / side_by_side.seconds(ours)}
        side_by_side.compare(f"{title}: all {count:,} questions", "questions per second", every, options.rounds)


def made_up(lines: list[str], count: int, dimensions: int) -> tuple[list[str], Any]:
    """Random vectors in which the second word of a pair is the first, moved by the relation of its section, and noise."""
    import numpy as np

    rng = np.random.default_rng(0)
    relation = rng.standard_normal(dimensions)
    rows: dict[str, Any] = {}
    for line in lines:
        if line.startswith(":"):
            relation = rng.standard_normal(dimensions)
            continue
        words = line.lower().split()
        for one, other in (words[:2], words[2:]):
            start = rows.setdefault(one, rng.standard_normal(dimensions))
            rows.setdefault(other, start + relation + rng.standard_normal(dimensions))
    names = [*rows, *(f"word{i}" for i in range(count - len(rows)))][:count]
    table = [rows[name] if name in rows else rng.standard_normal(dimensions) for name in names]
    order = rng.permutation(len(names))
    return [names[i] for i in order], np.array(table, np.float32)[order]


def questions() -> list[str]:
    """The lines of a file of analogies."""

    path = side_by_side.found("analogies", "questions-words.txt")
    if path is not None:
        return path.read_text(encoding="utf-8").strip().split("\n")
    lines = []
    for section in range(14):
        lines.append(f": section {section}")
        pairs = [(f"s{section}a{i}", f"s{section}b{i}") for i in range(32)]
        lines += [" ".join((*one, *other)) for one in pairs for other in pairs if one != other]
    return lines


if __name__ == "__main__":
    main()
