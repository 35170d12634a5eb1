"""A projection: words, their vectors, and their places in two or three dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from nlptools.vectors.maps.points import Points


@dataclass(frozen=True)
class Projection:
    """Words and their coordinates.

    Attributes:
        points: the words, their vectors, groups and arrows.
        coordinates: float64 (N, 2) or (N, 3).
        method: "pca", "tsne" or "umap".
        variance: the share of the variance along each axis, for PCA only.
        note: how the projection was computed, for captions.
        title: what it shows.
    """

    points: Points
    coordinates: NDArray[Any]
    method: str
    variance: tuple[float, ...] | None = None
    note: str = ""
    title: str = ""

    @property
    def words(self) -> list[str]:
        """The words, in the order of the coordinates."""
        return self.points.words

    @property
    def axes(self) -> list[str]:
        """Names of the axes of PCA. Those of t-SNE and UMAP have no meaning and no names."""
        return [f"PC {i} ({share:.1%})" for i, share in enumerate(self.variance or (), 1)]
