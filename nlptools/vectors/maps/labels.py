"""Places for the labels of points, where they do not cover each other and cover few points.

Greedy placement: in order of importance, each label takes the best of eight places around its point. Places that overlap a
label are excluded, covered points are a cost. Labels that must be shown also try places further away. The optimal placement
is NP-hard (Formann and Wagner 1991).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nlptools.arrays import Array

_AROUND = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)])


class Placed(NamedTuple):
    """The lower left corner of a label, and whether it is far enough from its point to need a line to it."""

    x: float
    y: float
    far: bool


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
    free = points if obstacles is None else np.concatenate([points, obstacles])
    free = np.asfortranarray(free[np.argsort(free[:, 0])])  # points in a range of x are together
    taken: Array = np.empty((len(points), 4))  # left, low, right, high of labels
    out: list[Placed | None] = [None] * len(points)
    count = 0
    for i in dict.fromkeys([*wanted, *range(len(points))]):
        for reach in np.arange(gap, max(far, gap) + gap * 1e-6, gap * 1.5):
            boxes = _inside(_boxes(points[i], sizes[i], reach), bounds)
            boxes = boxes[~_overlap(boxes, taken[:count]).any(axis=1)]
            covered = _covered(boxes, free)
            if len(boxes) and covered.min() <= most_covered:
                best = boxes[covered.argmin()]
                out[i] = Placed(float(best[0]), float(best[1]), bool(reach > gap * 2))
                taken[count] = best
                count += 1
                break
    return out


def _boxes(at: Array, size: Array, gap: float) -> Array:
    """The eight places around a point, (8, 4)."""
    slant = np.where(_AROUND.all(axis=1), 0.7, 1.0)[:, None] * gap
    corners = at + np.where(_AROUND > 0, slant, np.where(_AROUND < 0, -size - slant, -size / 2))
    return np.concatenate([corners, corners + size], axis=1)


def _inside(boxes: Array, bounds: tuple[float, float, float, float]) -> Array:
    return boxes[(boxes[:, :2] >= bounds[:2]).all(axis=1) & (boxes[:, 2:] <= bounds[2:]).all(axis=1)]


def _overlap(boxes: Array, others: Array) -> Array:
    """Whether each of the boxes (B, 4) overlaps each of the others (N, 4): (B, N)."""
    one = boxes[:, None]
    return np.asarray(((one[..., :2] < others[:, 2:]) & (others[:, :2] < one[..., 2:])).all(axis=2))


def _covered(boxes: Array, points: Array) -> Array:
    """How many of the points, which are in order of x, lie in each box: (B,)."""
    x, y = points.T
    starts, ends = np.searchsorted(x, boxes[:, 0]), np.searchsorted(x, boxes[:, 2], "right")
    spans = [(y[start:end], box) for start, end, box in zip(starts, ends, boxes, strict=True)]
    return np.array([((box[1] <= near) & (near <= box[3])).sum() for near, box in spans], np.int64)
