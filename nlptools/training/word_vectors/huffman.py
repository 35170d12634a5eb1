"""Binary codes of words, short for frequent ones (Huffman 1952)."""

from __future__ import annotations

import heapq

import numpy as np


def huffman(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The path from the root of a Huffman tree to each word.

    Args:
        counts: (V,) how often each word occurs.

    Returns:
        lengths: (V,) int64 number of nodes on the path to each word.
        nodes: int64 nodes of the paths of all words, concatenated, from the root (V - 2) down; there are V - 1 nodes.
        turns: int64, 0 or 1 for the branch taken at each.
    """
    V = len(counts)
    heap = [(int(count), word) for word, count in enumerate(counts)]
    heapq.heapify(heap)
    parent, turn = np.zeros(2 * V - 1, np.int64), np.zeros(2 * V - 1, np.int64)
    for node in range(V, 2 * V - 1):
        (one, first), (two, second) = heapq.heappop(heap), heapq.heappop(heap)
        parent[first] = parent[second] = node
        turn[second] = 1
        heapq.heappush(heap, (one + two, node))
    depth = np.zeros(2 * V - 1, np.int64)
    for node in range(2 * V - 3, -1, -1):  # parents have higher numbers
        depth[node] = depth[parent[node]] + 1
    lengths = depth[:V]
    ends = lengths.cumsum()
    nodes, turns = np.empty(int(lengths.sum()), np.int64), np.empty(int(lengths.sum()), np.int64)
    at, here = ends - 1, np.arange(V)
    while True:  # upwards from all words at once
        going = lengths[np.arange(V)] > (ends - 1 - at)
        if not going.any():
            return lengths, nodes, turns
        nodes[at[going]] = parent[here[going]] - V
        turns[at[going]] = turn[here[going]]
        here[going], at[going] = parent[here[going]], at[going] - 1
