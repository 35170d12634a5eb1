"""Places for the labels of points, where they do not cover each other and cover few points.

Greedy placement: in order of importance, each label takes the best of eight places around its point. Places that overlap a
label are excluded, covered points are a cost. Labels that must be shown also try places further away. The optimal placement
is NP-hard (Formann and Wagner 1991); this one takes time in proportion to the number of labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_CELL = 32.0  # size of a cell of the grid that indexes boxes and points
_AROUND = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))


class Placed(NamedTuple):
    """The lower left corner of a label, and whether it is far enough from its point to need a line to it."""

    x: float
    y: float
    far: bool


class _Boxes:
    """Occupied rectangles, and points to keep free, by cells of a grid."""

    def __init__(self, points: Array) -> None:
        self.points: dict[tuple[int, int], list[tuple[float, float]]] = {}
        for x, y in points.tolist():
            self.points.setdefault((int(x // _CELL), int(y // _CELL)), []).append((x, y))
        self.boxes: dict[tuple[int, int], list[tuple[float, float, float, float]]] = {}

    def free(self, box: tuple[float, float, float, float]) -> bool:
        left, low, right, high = box
        return not any(
            left < r and l < right and low < h and b < high
            for cell in _cells(box)
            for l, b, r, h in self.boxes.get(cell, ())
        )

    def covered(self, box: tuple[float, float, float, float], most: int) -> int:
        """The number of points in the box; counting stops beyond `most`."""
        left, low, right, high = box
        count = 0
        for cell in _cells(box):
            count += sum(left <= x <= right and low <= y <= high for x, y in self.points.get(cell, ()))
            if count > most:
                break
        return count

    def take(self, box: tuple[float, float, float, float]) -> None:
        for cell in _cells(box):
            self.boxes.setdefault(cell, []).append(box)


def _cells(box: tuple[float, float, float, float]) -> Iterator[tuple[int, int]]:
    left, low, right, high = (int(side // _CELL) for side in box)
    return ((x, y) for x in range(left, right + 1) for y in range(low, high + 1))


def place(
    points: Array,
    sizes: Array,
    bounds: tuple[float, float, float, float],
    *,
    wanted: Sequence[int] = (),
    obstacles: Array | None = None,
    gap: float = 4.0,
    most_covered: int = 1,
    far: float = 0.0,
) -> list[Placed | None]:
    """A place for the label of each point, or None if there is no room.

    Args:
        points: (N, 2), the most important first; all sizes are in the same unit.
        sizes: widths and heights of the labels, (N, 2).
        bounds: left, low, right, high, which labels stay inside.
        wanted: labels that are placed before the others.
        obstacles: more points (M, 2) that labels should not cover.
        gap: distance from the point to its label.
        most_covered: labels that would cover more points are left out.
        far: largest distance from a point to its label, if there is no room nearer.
    """
    boxes = _Boxes(points if obstacles is None else np.concatenate([points, obstacles]))
    out: list[Placed | None] = [None] * len(points)
    first = list(dict.fromkeys(wanted))
    chosen = set(first)
    for i in [*first, *(i for i in range(len(points)) if i not in chosen)]:
        x, y = (float(value) for value in points[i])
        width, height = (float(value) for value in sizes[i])
        reach = gap
        while out[i] is None:
            corner = _best(boxes, (x, y), (width, height), bounds, reach, most_covered)
            if corner is not None:
                out[i] = Placed(*corner, reach > gap * 2)
                boxes.take((*corner, corner[0] + width, corner[1] + height))
            reach += gap * 1.5
            if reach > far:
                break
    return out


def _best(
    boxes: _Boxes,
    at: tuple[float, float],
    size: tuple[float, float],
    bounds: tuple[float, float, float, float],
    gap: float,
    most: int,
) -> tuple[float, float] | None:
    """The corner of the free place around a point that covers the fewest other points; None if no place is free."""
    best, least = None, most + 1
    for right, up in _AROUND:
        slant = gap * 0.7 if right and up else gap
        x = at[0] + (slant if right > 0 else -size[0] - slant if right < 0 else -size[0] / 2)
        y = at[1] + (slant if up > 0 else -size[1] - slant if up < 0 else -size[1] / 2)
        box = (x, y, x + size[0], y + size[1])
        inside = box[0] >= bounds[0] and box[1] >= bounds[1] and box[2] <= bounds[2] and box[3] <= bounds[3]
        if inside and boxes.free(box):
            covered = boxes.covered(box, least)
            if covered < least:
                best, least = (x, y), covered
                if not covered:
                    break
    return best
