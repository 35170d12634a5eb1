"""Nearest words: speed compared with gensim.

    python benchmarks/neighbors_speed.py [--words 100000] [--dimensions 300] [--queries 1000] [--threads 2] [--rounds 3]
        [--directory DIR] [--part NAME]

Random vectors in word2vec's binary file, which is made in --directory (default: a temporary one; 4 bytes a number, so
3,600 MB for --words 3000000) and removed at the end. Parts:

    command   a process that reads the file, finds the 10 nearest words of each query, and writes them; gensim's loads
              the file with load_word2vec_format and asks most_similar for one word after the other, as it is used
    one       the same with one query
    memory    the search alone, the table loaded and lengths known; compared with a bare matrix product of queries and rows, with
              no choice among its numbers

Prints queries per second of wall clock, in turns; the answers of the commands must be the same words.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import side_by_side

PARTS = ("command", "one", "memory")
_GENSIM = """
import sys
from gensim.models import KeyedVectors
vectors = KeyedVectors.load_word2vec_format(sys.argv[1], binary=True)
for line in sys.stdin:
    found = vectors.most_similar(line.rstrip("\\n"), topn=10)
    print(line.rstrip("\\n"), *(f"{word}\\t{score:.4f}" for word, score in found), sep="\\t")
"""


def main() -> None:
    """Measure and report."""
    options = side_by_side.options(
        __doc__, words=100_000, dimensions=300, queries=1000, threads=2, rounds=3, directory=str, part=[]
    )
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(options.threads)  # before numpy is imported, here and in the processes
    import gensim

    import nlptools

    print(side_by_side.machine())
    print(f"gensim {gensim.__version__}, nlptools {nlptools.__version__}, {options.threads} threads")
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        path = Path(directory, "vectors.bin")
        write_vectors(path, options.words, options.dimensions)
        for part in options.part or PARTS:
            sides, count = (in_memory if part == "memory" else whole_commands)(path, options, part)
            measures = {name: speed(job, count) for name, job in sides.items()}
            title = (
                f"{part}: 10 nearest of {options.words:,} words of {options.dimensions} dimensions, {count:,} queries"
            )
            side_by_side.compare(title, "queries per second", measures, options.rounds)


def speed(job: Callable[[], object], count: int) -> Callable[[], float]:
    """A measure of `count` queries in one run of the job."""

    return lambda: count / side_by_side.seconds(job)


def write_vectors(path: Path, words: int, dimensions: int) -> None:
    """Random vectors of many lengths in Google's layout: no newline after a record."""
    import numpy as np

    from nlptools.vectors.files import word2vec
    from nlptools.vectors.rows import ArrayRows
    from nlptools.vectors.table import Vectors

    rng = np.random.default_rng(0)
    rows = rng.standard_normal((words, dimensions), dtype=np.float32)
    rows *= rng.uniform(0.5, 3, (words, 1)).astype(np.float32)  # lengths
    names = [f"w{i}" + "x" * (i * 7 % 9) for i in range(words)]
    word2vec.save(Vectors(names, ArrayRows(rows)), str(path))


def some_words(path: Path, count: int) -> list[str]:
    """Words from all over the vocabulary."""
    from nlptools.vectors.files.formats import load

    words = load(path).words.list()
    return [words[i * 7919 % len(words)] for i in range(count)]


def whole_commands(path: Path, options: argparse.Namespace, part: str) -> tuple[dict[str, Callable[[], object]], int]:
    """Both sides as processes; a first run compares their answers and warms the cache of the system."""
    queries = some_words(path, 1 if part == "one" else options.queries)
    text = "".join(f"{word}\n" for word in queries)

    def run(*command: str) -> str:
        return subprocess.run(
            [sys.executable, *command], input=text, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def theirs() -> str:
        return run("-c", _GENSIM, str(path))

    def ours() -> str:
        return run("-m", "nlptools", "neighbors", str(path))

    words = [[line.split("\t")[::2] for line in side().split("\n")] for side in (theirs, ours)]
    differ = sum(one != two for one, two in zip(*words))
    print(f"\n{part}: {len(queries) - differ:,} of {len(queries):,} answers are the same words in the same order")
    return {"gensim": theirs, "nlptools": ours}, len(queries)


def in_memory(path: Path, options: argparse.Namespace, part: str) -> tuple[dict[str, Callable[[], object]], int]:
    """The search alone."""
    import numpy as np
    from gensim.models import KeyedVectors

    from nlptools.vectors.files.formats import load
    from nlptools.vectors.nearest import neighbors

    queries = some_words(path, options.queries)
    theirs = KeyedVectors.load_word2vec_format(str(path), binary=True)
    theirs.fill_norms()
    ours = load(path)
    neighbors(ours, queries)
    directions = np.stack([ours[word] for word in queries])

    def one_by_one() -> object:
        return [theirs.most_similar(word, topn=10) for word in queries]

    def product() -> None:
        scores = np.empty((len(directions), 1024), np.float32)
        for _, rows in ours.blocks(check=False, most=1024):
            np.matmul(directions, rows.T, out=scores[:, : len(rows)])

    sides = {"gensim, one by one": one_by_one, "bare matrix product": product}
    return {**sides, "nlptools": lambda: neighbors(ours, queries)}, len(queries)


if __name__ == "__main__":
    main()
