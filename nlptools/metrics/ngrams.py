"""How many n-grams of hypotheses are found in their references: what BLEU and chrF count.

Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation" (P02-1040), section 2.1: a match
is clipped, an n-gram counts no more often than it stands in one reference.
Departure: the n-grams of a whole block of segments are counted with numpy, as integers.
Shapes: S segments.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

END = 0  # stands after each segment of a stream
_LARGEST_KEY = 2**62


class Ids(dict[Hashable, int]):
    """Token -> number, given at the first look-up; `Ids({end: END})` keeps 0 for what ends a segment."""

    def __missing__(self, token: Hashable) -> int:
        self[token] = number = len(self)
        return number


def matches(streams: Sequence[Ints], num_ids: int, num_segments: int, order: int) -> Ints:
    """Clipped n-gram matches of a hypothesis with its references, by segment, for n = 1 to `order`: (S, order).

    Args:
        streams: the hypothesis and then each reference: numbers of tokens from 1 to `num_ids` - 1, with `END` after
            each of the S segments. A segment that has no such reference is empty there: it holds no n-grams.

    An n-gram of several references counts as often as in the one that has most of it. Each type of token of each
    segment gets a rank, in which the segment is contained. An n-gram is the rank of its first token and the places of
    the others among the types of their segment, packed into one integer.
    """
    found = np.zeros((num_segments, order), np.int64)
    if not num_segments:
        return found
    kept = [np.flatnonzero(stream) for stream in streams]
    types = [np.cumsum(stream == END)[keep] * num_ids + stream[keep] for keep, stream in zip(kept, streams)]
    values, inverse = np.unique(np.concatenate(types), return_inverse=True)
    owner = values // num_ids  # rank -> segment
    first = np.searchsorted(owner, np.arange(num_segments + 1))  # segment -> its lowest rank
    width = int(np.diff(first).max())  # most types in one segment
    place = np.arange(len(owner)) - first[owner]  # rank -> place among the types of its segment
    ranks = np.split(inverse, np.cumsum([len(keep) for keep in kept])[:-1])

    counted = [np.bincount(rank, minlength=len(owner)) for rank in ranks]
    clipped = np.minimum(counted[0], np.max(counted[1:], axis=0))
    found[:, 0] = np.bincount(owner, clipped, num_segments)
    # Only words that hypothesis and references share can be part of a match.
    grams = [
        _Grams(len(stream), keep, rank, clipped > 0, place)
        for stream, keep, rank in zip(streams, kept, ranks, strict=True)
    ]
    scale = 1  # key of an n-gram // scale -> rank of its first word
    for n in range(1, order):
        if not len(grams[0].keys):
            break
        if len(owner) * scale * width > _LARGEST_KEY:
            owner, scale = _renumber(grams, owner, scale), 1
        for gram in grams:
            gram.extend(n, width)
        scale *= width
        keys, clipped = _clip([gram.keys for gram in grams])
        found[:, n] = np.bincount(owner[keys // scale], clipped, num_segments)
    return found


class _Grams:
    """The n-grams of one stream that consist of shared words, for n = 1, then 2, and so on."""

    def __init__(self, length: int, kept: Ints, rank: Ints, shared: NDArray[np.bool_], place: Ints) -> None:
        good = shared[rank]
        self.starts, self.keys = kept[good], rank[good]
        self.shared = np.zeros(length, np.bool_)  # by position; False at the end of a segment: no n-gram crosses it
        self.shared[self.starts] = True
        self.place = np.zeros(length, np.int64)
        self.place[self.starts] = place[self.keys]

    def extend(self, n: int, width: int) -> None:
        """Make (n+1)-grams out of the n-grams."""
        good = self.shared[self.starts + n]
        self.starts = self.starts[good]
        self.keys = self.keys[good] * width + self.place[self.starts + n]


def _renumber(grams: list[_Grams], owner: Ints, scale: int) -> Ints:
    """Replace the keys by their ranks, so that they fit into 64 bits again; returns rank -> segment."""
    values, inverse = np.unique(np.concatenate([gram.keys for gram in grams]), return_inverse=True)
    for gram, keys in zip(grams, np.split(inverse, np.cumsum([len(gram.keys) for gram in grams])[:-1])):
        gram.keys = keys
    segment: Ints = owner[values // scale]
    return segment


def _clip(keys: list[Ints]) -> tuple[Ints, Ints]:
    """The distinct keys of the hypothesis (the first of `keys`), and how often each may count as a match."""
    values, counts = np.unique(keys[0], return_counts=True)
    limit = np.zeros_like(counts)
    if len(values):
        for reference in keys[1:]:
            others, times = np.unique(reference, return_counts=True)
            at = np.minimum(np.searchsorted(values, others), len(values) - 1)
            hit = values[at] == others
            limit[at[hit]] = np.maximum(limit[at[hit]], times[hit])
    return values, np.minimum(counts, limit)
