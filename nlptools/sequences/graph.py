"""Graphs from edge lists, as sorted arrays.

Nodes are numbered in order of first occurrence. The edges of a node are consecutive in the arrays, sorted by target.
Shapes: N nodes, E edges (an undirected edge counts in both directions).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.arrays import Doubles, Ints, Longs
from nlptools.errors import DataError, display
from nlptools.files.layout_names import named_layout
from nlptools.files.line_records import csv_fields
from nlptools.files.streams import LineBlock

# names of the two columns of nodes in a first line; a node of this name has no edge to the other
_HEADERS = {("source", "target"), ("from", "to"), ("start", "end"), ("node1", "node2"), ("src", "dst")}


@dataclass(frozen=True)
class Graph:
    """A graph with positive weights of edges.

    Attributes:
        names: of the nodes (N,).
        starts: (N + 1,); the edges of node v are those from starts[v] to starts[v + 1].
        targets: the node that each edge leads to (E,), increasing within a node.
        weights: (E,), or None if all are 1.
    """

    names: Sequence[str]
    starts: Longs
    targets: Ints
    weights: Doubles | None = None

    @cached_property
    def degrees(self) -> Longs:
        """Number of edges of each node (N,)."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        """Number of nodes."""
        return len(self.names)

    def keys(self) -> Longs:
        """Each edge as one integer, source times N plus target (E,), sorted for binary search."""
        return np.repeat(np.arange(len(self)) * len(self), self.degrees) + self.targets


def read(blocks: Iterable[LineBlock], weighted: bool = False, directed: bool = False) -> Graph:
    """The graph of lines `u v [weight]`, separated by spaces or tabs, in .csv files by commas.

    Args:
        blocks: lines; empty ones and those that begin with # are skipped.
        weighted: the third field, or 1 if there is none, is the weight; the weights of repeated edges are added.
            Otherwise all edges weigh 1, repeated or not.
        directed: edges lead only from u to v.

    Raises:
        DataError: a line has too few or too many fields, a weight is negative or not finite, or there are no edges.
    """
    ids: defaultdict[str, int] = defaultdict(None)
    ids.default_factory = ids.__len__
    ends: list[Ints] = []
    weights: list[Doubles] = []
    ignored = 0
    for block in blocks:
        nodes, texts = _regular(block) or _any(block)
        ends.append(np.fromiter(map(ids.__getitem__, nodes), np.int32, len(nodes)).reshape(-1, 2))
        if weighted:
            weights.append(_weights(block, texts) if any(texts) else np.ones(len(texts)))
        else:
            ignored += len(texts) - texts.count("")
    if ignored:
        messages.warn(f"the weights of {messages.counted(ignored, 'line')} are not used (--weighted does)")
    pairs = np.concatenate(ends) if ends else np.zeros((0, 2), np.int32)
    if not len(pairs):
        raise DataError("no edges: expected lines of two nodes")
    return build(list(ids), pairs[:, 0], pairs[:, 1], np.concatenate(weights) if weighted else None, directed)


def build(
    names: Sequence[str],
    first: NDArray[np.integer],
    second: NDArray[np.integer],
    weights: Doubles | None = None,
    directed: bool = False,
) -> Graph:
    """The graph with edges from nodes `first` (M,) to nodes `second` (M,).

    An edge from a node to itself is one edge, in an undirected graph too. Edges with the weight 0 are dropped.

    Raises:
        DataError: the weights of a node do not have a finite sum.
    """
    size = len(names)
    keys = first.astype(np.int64) * size + second
    if not directed:
        other = first != second
        keys = np.concatenate([keys, second[other].astype(np.int64) * size + first[other]])
        weights = None if weights is None else np.concatenate([weights, weights[other]])
    if weights is None:
        keys = np.sort(keys)  # np.unique hashes, which takes forty times as long
        keys = keys[np.flatnonzero(np.diff(keys, prepend=-1))]
    else:
        order = np.argsort(keys, kind="stable")
        keys, weights = keys[order], weights[order]
        places = np.flatnonzero(np.diff(keys, prepend=-1))
        with np.errstate(over="ignore"):
            keys, weights = keys[places], np.add.reduceat(weights, places)
        keys, weights = keys[weights > 0], weights[weights > 0]
    sources, targets = np.divmod(keys, size)
    starts = np.searchsorted(sources, np.arange(size + 1))
    if weights is not None:
        sums = np.bincount(sources, weights, size)
        if not np.isfinite(sums).all():
            name = names[int(np.flatnonzero(~np.isfinite(sums))[0])]
            raise DataError(f"the weights of node {name!r} do not have a finite sum")
    return Graph(names, starts, targets.astype(np.int32), weights)


def _regular(block: LineBlock) -> tuple[list[str], list[str]] | None:
    """As `_any`, in a tenth of the time, if all lines have the same number of fields, with one space between; else None."""
    if named_layout(block.path) == "csv" or (
        block.start == 1 and block.lines and _is_header(_fields(block.lines[0], False), 1)
    ):
        return None
    text = " ".join(block.lines).replace("\t", " ")
    blanks = {line.count(" ") + line.count("\t") for line in block.lines}
    parts = text.split(" ")
    if "#" in text or blanks not in ({1}, {2}) or "" in parts:
        return None
    if blanks == {1}:
        return parts, [""] * len(block.lines)
    weights = parts[2::3]
    del parts[2::3]
    return parts, weights


def _any(block: LineBlock) -> tuple[list[str], list[str]]:
    """The nodes of the edges of a block, two each, and the weights, "" if there is none. Raises DataError."""
    nodes: list[str] = []
    weights: list[str] = []
    commas = named_layout(block.path) == "csv"
    for place, line in enumerate(block.lines):
        row = _fields(line, commas)
        if _is_header(row, block.start + place):
            messages.note(f"{display(block.path)}: the first line names the columns")
            row = []
        if len(row) not in (0, 2, 3):
            raise DataError(
                f"expected two nodes and optionally a weight, found {line[:80]!r}",
                path=block.path,
                line=block.start + place,
                hint="fields between commas need a file name that ends with .csv" if "," in line else None,
            )
        if any(" " in node or "\t" in node for node in row[:2]):
            message = f"a node with a space, which separates the nodes of a walk: {line[:80]!r}"
            raise DataError(message, path=block.path, line=block.start + place)
        nodes.extend(row[:2])
        weights.extend(row[2:] or [""] if row else [])
    return nodes, weights


def _fields(line: str, commas: bool) -> list[str]:
    """The fields of a line, between commas or between spaces and tabs; a comment has none."""
    if commas:
        parts = csv_fields(line)
    else:
        parts = [part for part in line.replace("\t", " ").split(" ") if part]
    return [] if parts and parts[0].startswith("#") else parts


def _is_header(row: Sequence[str], line: int) -> bool:
    """Whether a row names the columns, as Gephi and Neo4j write them."""
    return line == 1 and tuple(name.lower().lstrip(":").removesuffix("_id") for name in row[:2]) in _HEADERS


def _weights(block: LineBlock, texts: list[str]) -> Doubles:
    """The weights of the edges of a block. Raises DataError."""
    try:
        weights = np.array([float(text or "1") for text in texts], np.float64)
    except ValueError:
        weights = np.array([np.nan])
    if not (np.isfinite(weights) & (weights >= 0)).all() or any("_" in text for text in texts):
        commas = named_layout(block.path) == "csv"
        for place, line in enumerate(block.lines):
            row = _fields(line, commas)
            if len(row) == 3 and not _is_weight(row[2]):
                raise DataError(
                    f"not a weight: {row[2][:40]!r}, expected a finite number of at least 0",
                    path=block.path,
                    line=block.start + place,
                )
    return weights


def _is_weight(text: str) -> bool:
    try:
        return 0 <= float(text) < float("inf") and "_" not in text
    except ValueError:
        return False
