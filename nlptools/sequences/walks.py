"""Random walks over graphs: sentences with nodes as words.

DeepWalk (Perozzi et al. 2014, "DeepWalk: online learning of social representations") takes each step to a neighbor with
probability in proportion to the weight of the edge. node2vec (Grover and Leskovec 2016, "node2vec: scalable feature
learning for networks") multiplies the weight of a step to x, after a step from t, by

    1/p   if x is t,
    1     if x is not t and there is an edge from t to x,
    1/q   otherwise.

Steps are drawn by rejection, as in KnightKing (Yang et al. 2019): propose a neighbor by weight alone, accept it with
probability factor / largest factor. With a small p, the excess probability of the way back is proposed separately, so that
acceptance stays high. A walk with too many rejections draws from the exact distribution. Nothing is stored per pair of
edges: memory is linear in edges.
All walks of a chunk take a step together. Each chunk has its own random numbers, so threads do not change the result.
Departures. In directed graphs, the factor 1 needs an edge from t to x, as in the paper (distance from t to x) and in SNAP;
the authors' Python script tests for the edge from x to t.
Shapes: N nodes, E edges, W walks, L nodes in a walk.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from nlptools.arrays import Doubles, Longs
from nlptools.environment import available_threads
from nlptools.errors import UsageError
from nlptools.sequences.graph import Graph

Nodes = NDArray[np.int32]
Flags = NDArray[np.bool_]

CHUNK = 1 << 15  # walks that are taken together
EDGES_PER_TRY = 3  # exact probabilities of so many neighbors cost as much as one proposal
EDGES_PER_ROUND = 2000  # exact probabilities of so many neighbors cost as much as the overhead of a round of proposals
_SCANS = 2  # steps along the edges of a node before a binary search
EXACT_EDGES = 1 << 20  # edges processed together for exact distributions


def check(p: float, q: float) -> None:
    """Raises UsageError unless both are between 1e-9 and 1e9."""
    for name, value in (("p", p), ("q", q)):
        if not 1e-9 <= value <= 1e9:
            raise UsageError(f"--{name} is a number from 1e-9 to 1e9, not {value:g}")


class Walker:
    """Draws walks over one graph.

    Args:
        p: return parameter. q: in-out parameter. Both 1: DeepWalk.

    Raises:
        UsageError: p or q is not a number from 1e-9 to 1e9.
    """

    def __init__(self, graph: Graph, p: float = 1.0, q: float = 1.0) -> None:
        check(p, q)
        self.graph, self.back, self.out = graph, 1 / p, 1 / q
        self.most = max(1.0, self.out)  # largest factor of a step that is not a step back
        self.second_order = (p, q) != (1, 1)
        self._keys = graph.keys() if self.second_order else np.zeros(0, np.int64)
        self._filter = _Filter(self._keys)
        self._cumulative: Doubles | None = None
        self._guide: Longs = np.zeros(0, np.int64)
        if graph.weights is not None:
            self._cumulative, self._guide = _tables(graph)
        sources = np.repeat(np.arange(len(graph)), graph.degrees)
        self._sums: Doubles = np.bincount(sources, graph.weights, len(graph)).astype(np.float64)
        if self.second_order and self.back > self.most:
            self._reverse, self._extra = self._ways_back(sources)

    def _ways_back(self, sources: Longs) -> tuple[Longs, Doubles]:
        """For each edge, the edge that leads back (E,), and the share of proposals that take it directly (E,).

        That share covers the part of 1/p above the largest factor of other steps; it is 0 if no edge leads back.
        """
        graph = self.graph
        wanted = graph.targets * np.int64(len(graph)) + sources
        order = np.argsort(wanted, kind="stable")  # searching for numbers in order is kind to the cache
        places = np.empty(len(wanted), np.int64)
        places[order] = np.minimum(np.searchsorted(self._keys, wanted[order]), len(self._keys) - 1)
        weights = np.ones(len(places)) if graph.weights is None else graph.weights[places]
        weights = np.where(self._keys[places] == wanted, weights, 0.0) / np.maximum(self._sums[graph.targets], 1e-300)
        mass = (self.back - self.most) * weights
        return places, np.asarray(mass / (mass + self.most))

    def walk(self, starts: Longs, length: int, rng: np.random.Generator) -> tuple[Nodes, Longs]:
        """Walks from `starts` (W,): nodes (W, length) and the number of nodes of each walk (W,).

        A walk ends early at a node without outgoing edges.
        """
        walks = np.zeros((length, len(starts)), np.int32)
        lengths = np.ones(len(starts), np.int64)
        walks[0] = starts
        edges = np.zeros(len(starts), np.int64)  # the last edge of each walk
        going = np.arange(len(starts))
        for step in range(1, length):
            alive = self.graph.degrees[walks[step - 1, going]] > 0
            if not alive.all():
                going = going[alive]
            if not len(going):
                break
            here = walks[step - 1, going].astype(np.int64)
            if step == 1 or not self.second_order:
                taken = self._propose(here, rng)
            else:
                taken = self._step(walks[step - 2, going].astype(np.int64), here, edges[going], rng)
            edges[going] = taken
            walks[step, going] = self.graph.targets[taken]
            lengths[going] += 1
        return walks.T, lengths

    def _propose(self, here: Longs, rng: np.random.Generator) -> Longs:
        """An edge from each node (W,), by weight alone."""
        graph = self.graph
        draws = rng.random(len(here))
        places = graph.starts[here] + (draws * graph.degrees[here]).astype(np.int64)
        if self._cumulative is not None:
            draws += here
            places = self._guide[places]
            waiting = np.flatnonzero(self._cumulative[places] <= draws)
            for _ in range(_SCANS):
                places[waiting] += 1
                waiting = waiting[self._cumulative[places[waiting]] <= draws[waiting]]
            places[waiting] = np.searchsorted(self._cumulative, draws[waiting], side="right")
        # rounding must not select an edge of the next node
        return np.minimum(np.maximum(places, graph.starts[here]), graph.starts[here + 1] - 1)

    def _step(self, before: Longs, here: Longs, came: Longs, rng: np.random.Generator) -> Longs:
        """The next edge of walks (W,) with the previous nodes `before` (W,) and the last edges `came` (W,)."""
        taken = np.empty(len(here), np.int64)
        waiting = np.arange(len(here))
        tries = 0
        while len(waiting):
            proposed = self._propose(here[waiting], rng)
            draws = rng.random(len(waiting)) * self.most
            if self.back > self.most:
                back = np.flatnonzero(rng.random(len(waiting)) < self._extra[came[waiting]])
                proposed[back], draws[back] = self._reverse[came[waiting[back]]], 0.0
            accepted = self._accepts(before[waiting], self.graph.targets[proposed].astype(np.int64), draws)
            taken[waiting[accepted]] = proposed[accepted]
            waiting = waiting[~accepted]
            tries += 1
            # stop when proposals have cost as much as the exact distribution: at most twice the cheaper of both
            degrees = self.graph.degrees[here[waiting]]
            enough = degrees <= EDGES_PER_TRY * tries
            enough |= bool(degrees.sum() <= EDGES_PER_ROUND * tries)
            done = waiting[enough]
            if len(done):
                taken[done] = self._exact(before[done], here[done], rng)
                waiting = waiting[~enough]
        return taken

    def _accepts(self, before: Longs, proposed: Longs, draws: Doubles) -> Flags:
        """Whether the factor of each proposal (W,) exceeds its draw. Edges are searched only where they matter."""
        accepted: Flags = draws < min(1.0, self.out)
        unsure = np.flatnonzero(~accepted & (draws < self.most))
        near = self._has_edge(before[unsure], proposed[unsure])
        accepted[unsure] = draws[unsure] < np.where(near, 1.0, self.out)
        back = np.flatnonzero(before == proposed)
        accepted[back] = draws[back] < self.back
        return accepted

    def _exact(self, before: Longs, here: Longs, rng: np.random.Generator) -> Longs:
        """The next edge of walks (W,), drawn from the exact distribution over the neighbors of each."""
        degrees = self.graph.degrees[here]
        taken = np.empty(len(here), np.int64)
        group = np.cumsum(degrees) // EXACT_EDGES
        cuts = [*np.flatnonzero(np.diff(group, prepend=-1)).tolist(), len(here)]
        for start, end in pairwise(cuts):
            taken[start:end] = self._exact_part(before[start:end], here[start:end], rng)
        return taken

    def _exact_part(self, before: Longs, here: Longs, rng: np.random.Generator) -> Longs:
        graph, degrees = self.graph, self.graph.degrees[here]
        ends = np.cumsum(degrees)
        firsts = ends - degrees
        edges = np.arange(ends[-1]) + np.repeat(graph.starts[here] - firsts, degrees)
        nodes, came = graph.targets[edges].astype(np.int64), np.repeat(before, degrees)
        factors = np.where(self._has_edge(came, nodes), 1.0, self.out)
        factors[nodes == came] = self.back
        if graph.weights is not None:
            factors *= graph.weights[edges] / np.repeat(self._sums[here], degrees)
        # scale the factors of each walk to the sum 1, so that one increasing array serves all walks
        factors /= np.repeat(np.add.reduceat(factors, firsts), degrees)
        drawn = np.searchsorted(np.cumsum(factors), np.arange(len(here)) + rng.random(len(here)), side="right")
        return np.asarray(edges[np.minimum(np.maximum(drawn, firsts), ends - 1)])

    def _has_edge(self, sources: Longs, targets: Longs) -> Flags:
        """Whether there is an edge from each of `sources` (W,) to each of `targets` (W,)."""
        keys = sources * len(self.graph) + targets
        exists = self._filter.may_hold(keys)
        maybe = np.flatnonzero(exists)
        places = np.searchsorted(self._keys, keys[maybe])
        places[places == len(self._keys)] = 0
        exists[maybe] = self._keys[places] == keys[maybe]
        return exists


class _Filter:
    """A Bloom filter with one hash (Bloom 1970): excludes most numbers that are not in a set.

    It fits in the cache when the sorted numbers do not.
    """

    def __init__(self, keys: Longs) -> None:
        self.bits = min(max(10, (16 * len(keys)).bit_length()), 36)
        self.table = np.zeros(1 << (self.bits - 3), np.uint8)
        if len(keys):
            places = self._places(keys)
            np.bitwise_or.at(self.table, places >> 3, np.uint8(1) << (places & 7).astype(np.uint8))

    def _places(self, keys: Longs) -> Longs:
        # Fibonacci hashing: the high bits of a product with 2^64 over the golden ratio
        mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return (mixed >> np.uint64(64 - self.bits)).astype(np.int64)

    def may_hold(self, keys: Longs) -> Flags:
        """False: certainly not in the set."""
        places = self._places(keys)
        held: Flags = (self.table[places >> 3] >> (places & 7).astype(np.uint8)) & 1 == 1
        return held


def _tables(graph: Graph) -> tuple[Doubles, Longs]:
    """Tables for drawing edges by weight in a few steps each (Chen and Asau 1974).

    Returns:
        an increasing array (E + 1,): v plus the cumulative share of the weights of node v, with infinity at the end; and
        where to start the search in it (E,), for as many equal parts of the shares of a node as it has edges.
    """
    assert graph.weights is not None
    sources = np.repeat(np.arange(len(graph)), graph.degrees)
    largest = np.zeros(len(graph))
    np.maximum.at(largest, sources, graph.weights)
    scaled = graph.weights / largest[sources]  # weights of other nodes must not cost digits
    scaled /= np.bincount(sources, scaled, len(graph))[sources]
    sums = np.concatenate([[0.0], np.cumsum(scaled)])
    first, last = sums[graph.starts[:-1]][sources], sums[graph.starts[1:]][sources]
    cumulative = np.append(sources + (sums[1:] - first) / (last - first), np.inf)
    parts = (np.arange(len(sources)) - graph.starts[sources]) / graph.degrees[sources]
    return cumulative, np.searchsorted(cumulative, sources + parts, side="right")


def walks(
    graph: Graph,
    p: float = 1.0,
    q: float = 1.0,
    length: int = 80,
    rounds: int = 10,
    seed: int = 1,
    threads: int = 0,
) -> Iterator[tuple[Nodes, Longs]]:
    """All walks: in each round one from each node, with the nodes in random order.

    Args:
        length: number of nodes in a walk.
        rounds: number of walks from each node.
        threads: chunks processed at a time; 0: one per core of this process. The walks do not depend on it.

    Yields:
        for each chunk, nodes (W, L) and the number of nodes of each walk (W,); further nodes are undefined.

    Raises:
        UsageError: p or q is not a number from 1e-9 to 1e9.
    """
    walker = Walker(graph, p, q)

    def work(turn: int, number: int, starts: Longs) -> tuple[Nodes, Longs]:
        return walker.walk(starts, length, np.random.default_rng([seed, turn, number + 1]))

    threads = threads or available_threads()
    size = max(1, min(CHUNK, math.ceil((1 << 25) / length)))
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[tuple[Nodes, Longs]]] = deque()
        for turn in range(rounds):
            order = np.random.default_rng([seed, turn, 0]).permutation(len(graph))
            for number, start in enumerate(range(0, len(order), size)):
                pending.append(pool.submit(work, turn, number, order[start : start + size]))
                if len(pending) > threads:
                    yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def names(graph: Graph, chunks: Iterable[tuple[Nodes, Longs]]) -> Iterator[list[list[str]]]:
    """The names of the nodes of each walk, a chunk at a time."""
    table = np.array([*graph.names, ""], object)
    for nodes, lengths in chunks:
        rows = table[nodes].tolist()
        if lengths.min() < nodes.shape[1]:
            rows = [row[:length] for row, length in zip(rows, lengths.tolist(), strict=True)]
        yield rows
