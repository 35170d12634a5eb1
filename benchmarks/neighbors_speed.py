"""Nearest words: speed compared with gensim.

    python benchmarks/neighbors_speed.py [--parts command,one] [--words 100000] [--dimensions 300] [--queries 1000]
        [--threads 2] [--rounds 3]

Random vectors in word2vec's binary file (4 bytes a number, so 3,600 MB for --words 3000000). Parts:

    command   a process that reads the file, finds the 10 nearest words of each query, and writes them; gensim's loads
              the file with load_word2vec_format and asks most_similar for one word after the other, as it is used
    one       the same with one query
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from side_by_side import Command, bench, ours, write

PARTS = ("command", "one")
_GENSIM = """
import sys
from gensim.models import KeyedVectors
vectors = KeyedVectors.load_word2vec_format(sys.argv[1], binary=True)
for line in sys.stdin:
    found = vectors.most_similar(line.rstrip("\\n"), topn=10)
    print(line.rstrip("\\n"), *(f"{word}\\t{score:.4f}" for word, score in found), sep="\\t")
"""


def main() -> None:
    with bench(__doc__, parts=PARTS, words=100_000, dimensions=300, queries=1000) as run:
        chosen, path = run.options, run.folder / "vectors.bin"
        words = write_vectors(path, chosen.words, chosen.dimensions)
        for part in chosen.parts:
            count = 1 if part == "one" else chosen.queries
            queries = write(run.folder / part, [words[i * 7919 % len(words)] for i in range(count)])
            title = f"{part}: 10 nearest of {chosen.words:,} words of {chosen.dimensions} dimensions, {count:,} queries"
            commands = {"gensim": [sys.executable, "-c", _GENSIM, path], "nlptools": ours("neighbors", path)}
            outputs = {n: Command(words, count, queries, run.folder / f"{n}.out") for n, words in commands.items()}
            run.compare(title, "queries per second", outputs, check=same)


def same(results: Mapping[str, str]) -> str:
    """How many answers are the same words in the same order."""
    answers = [[line.split("\t")[::2] for line in text.strip().split("\n")] for text in results.values()]
    equal = sum(one == two for one, two in zip(*answers, strict=True))
    return f"{equal:,} of {len(answers[0]):,} answers are the same words in the same order"


def write_vectors(path: Path, count: int, dimensions: int, array: Path | None = None) -> list[str]:
    """Random vectors of many lengths in Google's layout, without a newline after a record; returns the words.

    `array`: where to write them once more, as NumPy does.
    """
    from nlptools.vectors.files import word2vec
    from nlptools.vectors.rows import ArrayRows
    from nlptools.vectors.table import Vectors

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((count, dimensions), dtype=np.float32)
    rows *= rng.uniform(0.5, 3, (count, 1)).astype(np.float32)  # lengths
    words = [f"w{i}" + "x" * (i * 7 % 9) for i in range(count)]
    if array is not None:
        np.save(array, rows)
    word2vec.save(Vectors(words, ArrayRows(rows)), str(path))
    return words


if __name__ == "__main__":
    main()
