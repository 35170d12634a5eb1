"""The best dependency tree of a sentence: the maximum spanning tree with one root word.

Chu & Liu 1965; Edmonds 1967 (McDonald et al. 2005, H05-1066, for parsing): each word takes its best head, a cycle becomes one
node, and so on until there is no cycle. One word depends on the root, as Universal Dependencies requires: all scores of the root
are lowered by more than trees can differ (Stanojević & Cohen 2021, 2021.emnlp-main.823), which gives the exact best such tree.
Shapes: N words, M nodes of a contracted graph (the root is node 0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nlptools.formats.universal import cycle


class _Cycle(NamedTuple):
    """A contracted cycle: the numbers that the other nodes had before, and which arcs the new arcs stand for."""

    outside: np.ndarray
    heads: np.ndarray  # of each node before the contraction
    entered: np.ndarray  # of each node outside: the node of the cycle that it would be the head of
    left: np.ndarray  # of each node outside: the node of the cycle that would be its head


def best_tree(scores: np.ndarray) -> np.ndarray:
    """The head of each word, 0 the root, in the tree with the highest sum of scores: (N,) int64.

    Args:
        scores: (N, N + 1), finite: of each head of each word, the root first. A word is never its own head.
    """
    N = len(scores)
    graph = np.full((N + 1, N + 1), -np.inf)  # [node, head]
    graph[1:] = scores
    if N:
        graph[1:, 0] -= N * (scores.max() - scores.min()) + 1.0
    np.fill_diagonal(graph, -np.inf)
    contracted: list[_Cycle] = []
    while True:
        heads = graph.argmax(axis=1)
        heads[0] = 0
        nodes = cycle(heads[1:].tolist())
        if not nodes:
            break
        graph, step = _contract(graph, heads, 1 + np.array(nodes))
        contracted.append(step)
    for step in reversed(contracted):
        heads = _expand(heads, step)
    words: np.ndarray = heads[1:]
    return words


def _contract(graph: np.ndarray, heads: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, _Cycle]:
    """The graph with one node, the last, for the nodes `inside` of a cycle."""
    outside = np.setdiff1d(np.arange(len(graph)), inside)
    gain = graph[np.ix_(inside, outside)] - graph[inside, heads[inside]][:, None]  # of entering at a node of the cycle
    leaving = graph[np.ix_(outside, inside)]
    smaller = np.full((len(outside) + 1, len(outside) + 1), -np.inf)
    smaller[:-1, :-1] = graph[np.ix_(outside, outside)]
    smaller[-1, :-1] = gain.max(axis=0)
    smaller[:-1, -1] = leaving.max(axis=1)
    return smaller, _Cycle(outside, heads, inside[gain.argmax(axis=0)], inside[leaving.argmax(axis=1)])


def _expand(heads: np.ndarray, step: _Cycle) -> np.ndarray:
    """The heads of the nodes before a contraction, from those after it."""
    out = step.heads.copy()
    of_cycle = len(step.outside)
    for node, head in enumerate(heads[:-1].tolist()):
        out[step.outside[node]] = step.left[node] if head == of_cycle else step.outside[head]
    enters = int(heads[-1])
    out[step.entered[enters]] = step.outside[enters]
    return out
