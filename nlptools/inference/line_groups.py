"""Clusters and near-duplicates of lines, by their vectors: `cluster` and `dedupe`.

Typical words: those with the largest parts of the Kullback-Leibler divergence of the words of a cluster from all words.
Shapes: N lines, D dimensions, K clusters.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.arrays import Array, Floats, Longs
from nlptools.configs import Compute
from nlptools.configs.clustering import Cluster
from nlptools.configs.embed import Embed
from nlptools.errors import DataError
from nlptools.files import atomic
from nlptools.files.streams import LineBlock
from nlptools.inference.embedding.lines import prepared
from nlptools.inference.loading import load
from nlptools.vectors.files import npy
from nlptools.vectors.files.array_writer import ArrayWriter
from nlptools.vectors.kmeans import Clusters, kmeans
from nlptools.vectors.rows import unit

_ROWS = 1024  # vectors that are compared together
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


@dataclass(frozen=True)
class LineVectors:
    """Lines and their vectors (N, D) of length 1, perhaps memory-mapped."""

    lines: list[str]
    rows: Array


@contextlib.contextmanager
def line_vectors(
    blocks: Iterable[LineBlock], model: str | None, vectors: str | None, compute: Compute, errors: str = "strict"
) -> Iterator[LineVectors]:
    """All lines and their vectors: by a model, into a temporary file, or the rows of an array.

    Raises:
        DataError: no lines, or another number of rows. And the errors of `load` and of the file of vectors.
    """
    if vectors is not None:
        lines = [line for block in blocks for line in block.lines]
        rows = npy.load_array(vectors)
        if len(rows) != len(lines):
            raise DataError(f"{len(rows):,} vectors, but {len(lines):,} lines", path=vectors)
        yield LineVectors(lines, unit(rows))
        return
    assert model is not None
    embedder = load(model, settings=Embed(), compute=compute, errors=errors)
    lines = []
    with atomic.scratch_directory("nlptools-cluster-") as place:
        name = str(place / "lines.npy")
        with ArrayWriter(name, "npy", embedder.dimensions, keep_lines=False) as writer:
            for texts, ready in prepared(embedder, blocks):
                writer.write(unit(embedder.embed(texts, ready)), texts)
                lines += texts
        embedder.finish()
        yield LineVectors(lines, np.load(name, mmap_mode="r") if lines else np.zeros((0, 1), np.float32))


# -- clusters ---------------------------------------------------------------------------------------------------------


def cluster(found: LineVectors, settings: Cluster, seed: int) -> Clusters:
    """The clusters of the lines. Raises DataError without lines."""
    if not found.lines:
        raise DataError("no lines to cluster")
    return kmeans(found.rows, settings.clusters, seed, settings.iterations)


@dataclass(frozen=True)
class ClusterSummary:
    """A cluster: its number of lines, its typical words, and its central lines."""

    label: int
    size: int
    words: list[str]
    lines: list[str]


def summaries(lines: Sequence[str], clusters: Clusters, words: int, central: int) -> Iterator[ClusterSummary]:
    """A summary of each cluster. Equal lines are central once."""
    count = int(clusters.labels.max()) + 1
    typical = typical_words(lines, clusters.labels, words) if words else [[] for _ in range(count)]
    for label in range(count):
        rows = np.flatnonzero(clusters.labels == label)
        order = rows[np.argsort(-clusters.cosines[rows], kind="stable")]
        different = dict.fromkeys(lines[row] for row in order)
        yield ClusterSummary(label, len(rows), typical[label], list(different)[:central])


def typical_words(lines: Sequence[str], labels: Longs, most: int) -> list[list[str]]:
    """For each cluster the words with the highest p ln(p / q), where p is the frequency in the cluster and q in all clusters.
    Words of a single line come last, and words that are no more frequent than elsewhere are left out.
    """
    counts = [Counter[str]() for _ in range(int(labels.max()) + 1)]
    number_of_lines = Counter[str]()
    for line, label in zip(lines, labels.tolist(), strict=True):
        found = [word.lower() for word in _WORD.findall(line)]
        counts[label].update(found)
        number_of_lines.update(set(found))
    total = Counter[str]()
    for each in counts:
        total.update(each)
    everything = total.total()
    out = []
    for each in counts:
        size = max(1, each.total())
        lifts = {word: count / size * everything / total[word] for word, count in each.items()}
        weights = {word: each[word] * math.log(lift) for word, lift in lifts.items() if lift > 1 or len(counts) == 1}
        order = sorted(weights, key=lambda word: (number_of_lines[word] == 1, -weights[word], word))
        out.append(order[:most])
    return out


# -- near-duplicates --------------------------------------------------------------------------------------------------


class VectorDuplicates:
    """Vectors that have been seen and were no duplicates, compared exactly; memory grows with them."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self._parts: list[Floats] = []
        self._numbers: list[list[int]] = []

    def add(self, rows: Floats, numbers: Sequence[int]) -> list[int]:
        """For each row of length 1 (N, D), in order, the number of the first earlier row with a cosine of at least the
        threshold. A row without one is kept, and its own number is returned.
        """
        out = list(numbers)
        for part, kept in zip(self._parts, self._numbers, strict=True):
            reached = rows @ part.T >= self.threshold
            for row in np.flatnonzero(reached.any(1)).tolist():
                if out[row] == numbers[row]:
                    out[row] = kept[int(reached[row].argmax())]
        own = rows @ rows.T >= self.threshold
        new: list[int] = []
        for row in range(len(rows)):
            if out[row] != numbers[row]:
                continue
            first = next((other for other in new if own[row, other]), None)
            if first is None:
                new.append(row)
            else:
                out[row] = numbers[first]
        if new:
            self._parts.append(rows[new])
            self._numbers.append([numbers[row] for row in new])
        return out


def vector_duplicates(
    blocks: Iterable[LineBlock],
    model: str | None,
    vectors: str | None,
    threshold: float,
    compute: Compute,
    errors: str = "strict",
) -> Iterator[tuple[str, int]]:
    """Each line and the number, from 1, of the first line with a similar vector, perhaps its own. Raises as `line_vectors`."""
    index, before = VectorDuplicates(threshold), 0
    if model is None:
        with line_vectors(blocks, None, vectors, compute, errors) as found:
            for start in range(0, len(found.lines), _ROWS):
                part = found.lines[start : start + _ROWS]
                numbers = range(start + 1, start + 1 + len(part))
                yield from zip(part, index.add(np.asarray(found.rows[start : start + _ROWS]), numbers), strict=True)
        return
    embedder = load(model, settings=Embed(), compute=compute, errors=errors)
    for texts, ready in prepared(embedder, blocks, _ROWS):
        numbers = range(before + 1, before + 1 + len(texts))
        yield from zip(texts, index.add(unit(embedder.embed(texts, ready)), numbers), strict=True)
        before += len(texts)
    embedder.finish()
