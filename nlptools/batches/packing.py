"""Sequences of different lengths: batches of similar ones, and rows of one width that several are packed into.

Packing: best fit, longest first, on the histogram of lengths (Krell et al. 2021, arXiv:2107.02027): sequences of equal length
are packed together, so that the work depends on the width and hardly on the number of sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np


def by_length(lengths: Sequence[int], batch_tokens: int, equal: bool = False) -> Iterator[list[int]]:
    """The numbers of sequences, grouped by similar length, the longest first; at most `batch_tokens` each, with padding.

    Sequences of equal length stay in order. A longer sequence is a separate group. `equal`: all of a group have one length.
    """
    group: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        full = group and (len(group) + 1) * lengths[group[0]] > batch_tokens
        if full or (group and equal and lengths[i] != lengths[group[0]]):
            yield group
            group = []
        group.append(i)
    if group:
        yield group


def pack(lengths: np.ndarray, width: int) -> np.ndarray:
    """The row of each sequence, int64; rows are numbered from 0, and none has more than `width` tokens.

    Args:
        lengths: (N,) tokens of each sequence, from 1 to `width`.
    """
    rows = np.empty(len(lengths), np.int64)
    if not len(lengths):
        return rows
    order = np.argsort(-lengths, kind="stable")
    sizes, starts = np.unique(-lengths[order], return_index=True)
    bounds = [*starts.tolist(), len(order)]
    free: list[list[np.ndarray]] = [[] for _ in range(width + 1)]  # rows by their free room
    opened = 0
    for size, start, end in zip((-sizes).tolist(), bounds, bounds[1:]):
        room = size
        while start < end:
            while room < width and not free[room]:
                room += 1
            each = room // size  # sequences of this length that fit in a row with so much room
            needed = -(-(end - start) // each)
            if free[room]:
                group = free[room].pop()
                if len(group) > needed:
                    free[room].append(group[needed:])
                    group = group[:needed]
            else:  # room is the whole width
                group = np.arange(opened, opened + needed)
                opened += needed
            taken = np.repeat(group, each)[: end - start]
            rows[order[start : start + len(taken)]] = taken
            start += len(taken)
            last = len(taken) - (len(group) - 1) * each  # in the last row there may be fewer
            if len(group) > 1:
                free[room - each * size].append(group[:-1])
            free[room - last * size].append(group[-1:])
    return rows
