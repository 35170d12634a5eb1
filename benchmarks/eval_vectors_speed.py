"""Analogies: speed compared with gensim.

    python benchmarks/eval_vectors_speed.py [--words 30000] [--dimensions 100] [--questions 2000] [--method add]
        [--vectors FILE] [--rounds 3] [--threads N]

The questions are those of word2vec's questions-words.txt where NLPTOOLS_DATA names a folder that has it in `analogies/`, else
made up: 900 words in 14 sections. gensim is asked `--questions` of them, spread over the file, because it takes milliseconds
for each. The vectors are random, or those of FILE. Both sides have the vectors in memory and read the questions from a file;
with 3CosMul, which gensim's evaluation does not have, it still answers by 3CosAdd.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from side_by_side import bench, found, read, write

from nlptools.configs.eval_vectors import EvalVectors
from nlptools.vectors import evaluation
from nlptools.vectors.files import formats
from nlptools.vectors.table import Vectors


def main() -> None:
    with bench(__doc__, words=30_000, dimensions=100, questions=2000, method="add", vectors=str, threads=1) as run:
        from gensim.models import KeyedVectors

        chosen, lines = run.options, questions()
        if chosen.vectors:
            loaded = formats.load(chosen.vectors)
            words, rows = loaded.words[: chosen.words], loaded.rows.read(0, chosen.words)
        else:
            words, rows = made_up(lines, chosen.words, chosen.dimensions)
        count = sum(line[0] != ":" for line in lines)
        step = max(1, count // chosen.questions)
        fewer = [line for i, line in enumerate(lines) if line[0] == ":" or i % step == 0]
        whole, some = write(run.folder / "whole.txt", lines), write(run.folder / "some.txt", fewer)
        asked, table = sum(line[0] != ":" for line in fewer), Vectors(words, rows)

        vectors = KeyedVectors(rows.shape[1])
        vectors.add_vectors(words, rows)

        def theirs() -> tuple[int, int]:
            return asked, len(vectors.evaluate_word_analogies(str(some), restrict_vocab=chosen.words)[1][-1]["correct"])

        def ours(path: Any, number: int) -> tuple[int, int]:
            settings = EvalVectors(analogies=(str(path),), restrict=chosen.words, method=chosen.method)
            return number, evaluation.evaluate(table, settings)[-1].correct

        title = f"analogies, {len(words):,} words x {rows.shape[1]}"
        sides = {f"gensim, {asked:,} questions": theirs, f"nlptools, the same {asked:,}": lambda: ours(some, asked)}
        run.compare(title, "questions per second", sides, check=solved)
        every = {"nlptools": lambda: ours(whole, count)}
        run.compare(f"{title}: all {count:,} questions", "questions per second", every)


def solved(results: Mapping[str, int]) -> str:
    """How many questions each solves."""
    theirs, ours = results.values()
    return (
        f"both solve the same {ours:,} questions" if theirs == ours else f"gensim solves {theirs:,}, nlptools {ours:,}"
    )


def made_up(lines: list[str], count: int, dimensions: int) -> tuple[list[str], Any]:
    """Random vectors in which the second word of a pair is the first, moved by the relation of its section, and noise."""
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
    path = found("analogies", "questions-words.txt")
    if path is not None:
        return read(path)
    lines = []
    for section in range(14):
        lines.append(f": section {section}")
        pairs = [(f"s{section}a{i}", f"s{section}b{i}") for i in range(32)]
        lines += [" ".join((*one, *other)) for one in pairs for other in pairs if one != other]
    return lines


if __name__ == "__main__":
    main()
