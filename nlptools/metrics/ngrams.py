"""Counts of the n-grams that hypotheses share with their references, for BLEU, chrF and ROUGE.

Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation" (P02-1040), section 2.1: a match
is clipped: an n-gram counts at most as often as it occurs in any one reference.
Departure: the n-grams of a whole block of segments are counted at once. Each n-gram is an integer with its first token in
the highest bits, so that sorting the longest n-grams sorts all shorter ones.
Shapes: S segments.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

END = 0  # follows each segment of a stream
KEY_BITS = 62  # of an int64 that a key fills


class Ids(dict[Hashable, int]):
    """Token -> number, assigned at the first look-up; `Ids({end: END})` reserves 0 for the end of a segment."""

    def __missing__(self, token: Hashable) -> int:
        self[token] = number = len(self)
        return number


def matches(streams: Sequence[Ints], num_ids: int, num_segments: int, order: int, clip: bool = True) -> Ints:
    """Clipped n-gram matches of a hypothesis with its references, by segment, for n = 1 to `order`: (S, order).

    Of several references, the one with the most occurrences of an n-gram counts.

    Args:
        streams: the hypothesis and then each reference: numbers of tokens from 1 to `num_ids` - 1, the fewer the
            faster, with `END` after each of the S segments. Where a segment lacks a reference, it is empty.
        clip: otherwise each n-gram of the hypothesis that occurs in a reference counts.
    """
    matched = np.zeros((num_segments, order), np.int64)
    tokens = np.concatenate([*streams, np.zeros(order, np.int64)])
    starts = np.flatnonzero(tokens)
    stream = np.repeat(np.arange(len(streams)), [np.count_nonzero(stream) for stream in streams])
    # Orders are counted a few at a time. The first `done` tokens of an n-gram are already one number, its `head`.
    head = np.cumsum(tokens == END)[starts] - stream * num_segments  # at first, the segment
    owner = np.arange(num_segments)  # number -> segment
    bits, stream_bits = max(1, (num_ids - 1).bit_length()), (len(streams) - 1).bit_length()
    if order * bits + stream_bits + len(owner).bit_length() > KEY_BITS:
        tokens[starts] = _places(head, tokens[starts], stream, num_ids)
        kept = tokens[starts] != END
        starts, stream, head = starts[kept], stream[kept], head[kept]
        bits = max(1, int(tokens.max()).bit_length())
    done = 0
    while done < order and len(starts):
        more = min(order - done, max(1, (KEY_BITS - stream_bits - len(owner).bit_length()) // bits))
        keys = _extend(head, tokens, starts + done, more, bits)
        ranked = np.sort(keys << stream_bits | stream)
        for n in range(1, more + 1):
            heads, counts = _count(ranked, len(streams), stream_bits, bits, bits * (more - n), clip)
            matched[:, done + n - 1] = np.bincount(owner[heads >> bits * n], counts, num_segments)
        done += more
        whole = (keys & (1 << bits) - 1) != END
        starts, stream = starts[whole], stream[whole]
        if done < order:
            values, head = np.unique(keys[whole], return_inverse=True)
            owner = owner[values >> bits * more]
    return matched


def _places(segment: Ints, token: Ints, stream: Ints, num_ids: int) -> Ints:
    """Smaller numbers for tokens: from 1 in each segment, and `END` for tokens without a match."""
    values, inverse = np.unique(segment * num_ids + token, return_inverse=True)
    occurs = np.zeros((2, len(values)), np.bool_)
    hypothesis = np.searchsorted(stream, 1)
    occurs[0, inverse[:hypothesis]] = occurs[1, inverse[hypothesis:]] = True
    shared = occurs.all(axis=0)
    place = np.concatenate([[0], np.cumsum(shared)])  # so far, in all segments
    first = np.searchsorted(values, np.arange(segment.max(initial=0) + 1) * num_ids)  # of each segment
    numbers = np.where(shared, place[1:] - place[first[values // num_ids]], END)
    places: Ints = numbers[inverse]
    return places


def _extend(head: Ints, tokens: Ints, at: Ints, more: int, bits: int) -> Ints:
    """`head` followed by the next `more` tokens, from `at` on; tokens after the end of a segment become END."""
    keys = head
    inside = np.ones(len(head), np.bool_)
    for k in range(more):
        following = tokens[at + k]
        inside &= following != END
        keys = keys << bits | following * inside
    return keys


def _count(ranked: Ints, num_streams: int, stream_bits: int, bits: int, dropped: int, clip: bool) -> tuple[Ints, Ints]:
    """The distinct n-grams in sorted keys without their last `dropped` bits, and the matches of each, clipped or not."""
    keys = ranked >> stream_bits + dropped
    inside = (keys & (1 << bits) - 1) != END
    keys, stream = keys[inside], ranked[inside] & (1 << stream_bits) - 1
    new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    first = np.flatnonzero(new)
    size = np.diff(first, append=len(keys))
    if num_streams == 2:
        others = np.add.reduceat(stream, first) if len(first) else size
        own, most = size - others, others
        return keys[first], np.minimum(own, most) if clip else own * (most > 0)
    place = (np.cumsum(new) - 1) * num_streams + stream
    table = np.bincount(place, minlength=len(first) * num_streams).reshape(-1, num_streams)
    own, most = table[:, 0], table[:, 1:].max(axis=1)
    return keys[first], np.minimum(own, most) if clip else own * (most > 0)
