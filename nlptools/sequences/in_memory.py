"""Phrases in lines and walks over edges in memory, for programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain, count, islice

import numpy as np

from nlptools.configs.sequences import MIN_COUNT, THRESHOLDS
from nlptools.errors import DataError, UsageError
from nlptools.files.streams import LineBlock
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
        lines: tokens separated by spaces. All are read before the first result; they are kept in a temporary file.
        scoring: default, npmi or word2phrase.
        threshold: pairs with higher scores are joined; None: 10 (default), 0.5 (npmi) or 100 (word2phrase).
        min_count: the least frequency of a phrase; the default scoring subtracts it.
        connectors: words that may be inside a phrase, but not at its ends.
        passes: number of times to learn and join: two find phrases of up to four words.

    Raises:
        UsageError: an invalid value, or a line that contains a newline.
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


def _blocks(lines: Iterable[str]) -> Iterator[LineBlock]:
    left = iter(lines)
    for start in count(1, _LINES):
        block = LineBlock("lines", start, list(islice(left, _LINES)))
        for number, line in enumerate(block.lines, start):
            if "\n" in line:
                raise UsageError(f"line {number:,} contains a newline: {line[:40]!r}")
        if not block.lines:
            return
        yield block


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
    """Random walks over a graph as lists of names of nodes, the same as `nlptools walks` writes.

    Args:
        edges: two nodes each, and optionally a weight. If any edge has one, the others weigh 1, and the weights of
            repeated edges are added.
        p: return parameter of node2vec: high values make steps back rare.
        q: its in-out parameter: above 1, walks stay near. p = q = 1: DeepWalk.
        length: number of nodes in a walk.
        rounds: number of walks from each node.
        threads: 0: one per core of this process. The walks do not depend on it.

    Raises:
        UsageError: an invalid parameter.
        DataError: no edges, or a weight that is negative or not finite.
    """
    drawing.check(p, q)
    if length < 1 or rounds < 1 or seed < 0 or threads < 0:
        raise UsageError(
            f"length={length}, rounds={rounds}, seed={seed}, threads={threads}: expected at least 1, 1, 0, 0"
        )
    network = _graph(edges, directed)
    chunks = drawing.walks(network, p, q, length, rounds, seed, threads)
    return chain.from_iterable(drawing.names(network, chunks))


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
