"""Phrases of lines and walks over edges that are in memory, for programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from nlptools.configs.sequences import MIN_COUNT, THRESHOLDS
from nlptools.errors import DataError, UsageError
from nlptools.files.streams import Block
from nlptools.sequences import graph
from nlptools.sequences import walks as drawing
from nlptools.sequences.phrases import Rule, learn_and_join

_LINES = 4096  # in a block


def phrases(
    lines: Iterable[str],
    *,
    scoring: str = "default",
    threshold: float | None = None,
    min_count: int = MIN_COUNT,
    delimiter: str = "_",
    connectors: Iterable[str] = (),
    passes: int = 1,
) -> Iterator[str]:
    """The lines with the words of phrases joined, `new_york`, as `nlptools phrases` writes them.

    Args:
        lines: tokens separated by spaces. All are read before the first comes back; they wait in a temporary file.
        scoring: default, npmi or word2phrase.
        threshold: pairs that score above this are joined; None: 10, 0.5 or 100, as the scoring has it.
        min_count: pairs must occur this often; the default scoring subtracts it.
        connectors: words that may stand inside a phrase, but not at its ends.
        passes: how often to learn and join: two make phrases of up to four words.

    Raises:
        UsageError: a value that makes no sense, or a line with a newline in it.
        DataError: no words.
    """
    if passes < 1:
        raise UsageError(f"passes={passes}: expected at least 1")
    if scoring in THRESHOLDS and threshold is None:
        threshold = THRESHOLDS[scoring]
    rule = Rule(scoring, threshold or 0.0, min_count, delimiter, tuple(connectors))
    return _joined(lines, rule, passes)


def _joined(lines: Iterable[str], rule: Rule, passes: int) -> Iterator[str]:
    rest = ""
    for text in learn_and_join(_blocks(lines), rule, passes):
        *whole, rest = (rest + text).split("\n")
        yield from whole


def _blocks(lines: Iterable[str]) -> Iterator[Block]:
    kept: list[str] = []
    start = 1
    for number, line in enumerate(lines, 1):
        if "\n" in line:
            raise UsageError(f"line {number:,} holds a newline: {line[:40]!r}")
        kept.append(line)
        if len(kept) == _LINES:
            yield Block("lines", start, kept)
            kept, start = [], number + 1
    if kept:
        yield Block("lines", start, kept)


def walks(
    edges: Iterable[tuple[str, str] | tuple[str, str, float]],
    *,
    p: float = 1.0,
    q: float = 1.0,
    length: int = 80,
    rounds: int = 10,
    directed: bool = False,
    seed: int = 1,
    threads: int = 0,
) -> Iterator[list[str]]:
    """Random walks over a graph, the names of their nodes: those that `nlptools walks` writes.

    Args:
        edges: two nodes each, and perhaps a weight; if one has a weight, those without one weigh 1, and the weights of
            an edge that comes again add up.
        p: return parameter of node2vec: the higher, the rarer a step back.
        q: its in-out parameter: above 1 walks stay near where they come from. Both at 1 are DeepWalk.
        length: nodes in a walk.
        rounds: walks from each node.
        threads: 0: as many as this process has cores; changes nothing in the walks.

    Raises:
        UsageError: a parameter that makes no sense.
        DataError: no edges, or a weight that is negative or no finite number.
    """
    drawing.check(p, q)
    if length < 1 or rounds < 1 or seed < 0 or threads < 0:
        raise UsageError(
            f"length={length}, rounds={rounds}, seed={seed}, threads={threads}: expected at least 1, 1, 0, 0"
        )
    return _walks(_graph(edges, directed), p, q, length, rounds, seed, threads)


def _walks(
    made: graph.Graph, p: float, q: float, length: int, rounds: int, seed: int, threads: int
) -> Iterator[list[str]]:
    names = np.array([*made.names, ""], object)
    for nodes, lengths in drawing.walks(made, p, q, length, rounds, seed, threads):
        for row, count in zip(names[nodes].tolist(), lengths.tolist(), strict=True):
            yield row[:count]


def _graph(edges: Iterable[tuple[str, str] | tuple[str, str, float]], directed: bool) -> graph.Graph:
    ids: dict[str, int] = {}
    ends: list[int] = []
    weights: list[float] = []
    weighted = False
    for number, edge in enumerate(edges, 1):
        ends += [ids.setdefault(edge[0], len(ids)), ids.setdefault(edge[1], len(ids))]
        weight = edge[2] if len(edge) == 3 else 1.0
        weighted = weighted or len(edge) == 3
        if not (math.isfinite(weight) and weight >= 0):
            raise DataError(f"edge {number:,}: expected a finite weight of 0 or more, found {weight}")
        weights.append(weight)
    if not ends:
        raise DataError("no edges: expected pairs of nodes")
    pairs = np.array(ends, np.int32).reshape(-1, 2)
    return graph.build(list(ids), pairs[:, 0], pairs[:, 1], np.array(weights) if weighted else None, directed)
