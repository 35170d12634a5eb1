"""Long texts as overlapping windows, and the window that predicts each unit.

Devlin et al. 2019 (arXiv:1810.04805) read long passages as windows of equal size, a step apart; a token in several windows
is predicted in the one where it has most context, by the smaller of both sides. Here windows consist of units that must
stay whole (words, or single pieces); the first of equally good windows is taken.
Departures: the last window reaches back as far as it can, which is free and gives its units more context; there is no bonus
for longer windows. The smaller side is larger in the window with the nearer middle, so the units that a window predicts (owns)
are contiguous, and the owned units of all windows in order are the text.
Shapes: N texts, U units of all texts, R windows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nlptools.batches.encoder_rows import bounds_of


@dataclass(frozen=True)
class StridedWindows:
    """R windows, text by text; units are numbered within their text."""

    text: np.ndarray  # (R,) int64, the number of the text
    first: np.ndarray  # (R,) int64, the first unit in the window
    end: np.ndarray  # (R,) int64, after the last one
    owned_first: np.ndarray  # (R,) int64, the first unit that the window owns
    owned_end: np.ndarray  # (R,) int64, after the last one


def cut(
    sizes: np.ndarray, texts: np.ndarray, room: np.ndarray, step: np.ndarray, empty: bool = False
) -> StridedWindows:
    """Windows over N texts.

    Args:
        sizes: (U,) pieces of each unit, from 1 to the room of its text.
        texts: (N + 1,), the first unit of each text, and the end.
        room: (N,) most pieces of a window.
        step: (N,) pieces from the start of a window to the start of the next; fewer where a unit would otherwise be cut
            or skipped.
        empty: whether a text without units gets a window.
    """
    bounds = bounds_of(sizes)
    units = np.diff(texts)
    long = bounds[texts[1:]] - bounds[texts[:-1]] > room
    count = ((units > 0) | empty).astype(np.int64)
    cuts = {n: _cut_one(bounds[texts[n] : texts[n + 1] + 1], int(room[n]), int(step[n])) for n in np.flatnonzero(long)}
    for n, rows in cuts.items():
        count[n] = len(rows)
    text = np.repeat(np.arange(len(units)), count)
    table = np.zeros((len(text), 4), np.int64)
    table[:, 1] = table[:, 3] = units[text]
    places = bounds_of(count)
    for n, rows in cuts.items():
        table[places[n] : places[n + 1]] = rows
    return StridedWindows(text, *table.T)


def _cut_one(bounds: np.ndarray, room: int, step: int) -> np.ndarray:
    """first, end, owned_first, owned_end of each window over a text of more than `room` pieces: (windows, 4).

    `bounds`: the start of each unit, and the end of the last.
    """
    bounds = bounds - bounds[0]
    units = len(bounds) - 1
    firsts, ends = [0], [_last_before(bounds, room)]
    while ends[-1] < units:
        begin = bounds[firsts[-1]]
        next_first = min(max(_last_before(bounds, begin + step), firsts[-1] + 1), ends[-1])
        if bounds[units] - bounds[next_first] <= room:
            next_first = int(np.searchsorted(bounds, bounds[units] - room))
        firsts.append(next_first)
        ends.append(_last_before(bounds, bounds[next_first] + room))
    first, end = np.array(firsts), np.array(ends)
    # A unit from a to b has min(a - begin, stop - b) around it: more in the later of two windows, beginning at B,
    # than in the earlier one, stopping at S, when S - b < a - B.
    owned = np.searchsorted(bounds[:-1] + bounds[1:], bounds[first[1:]] + bounds[end[:-1]], side="right")
    table = np.stack([first, end, np.append(0, owned), np.append(owned, units)], axis=1)
    return table[table[:, 2] < table[:, 3]]  # with long words, a window may own nothing


def _last_before(bounds: np.ndarray, place: int) -> int:
    """The last of the bounds that is not after `place`."""
    return int(np.searchsorted(bounds, place, side="right")) - 1
