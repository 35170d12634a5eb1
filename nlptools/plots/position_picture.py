"""A picture of the vectors of positions: a heat map of the vectors, and their dot products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nlptools.arrays import Floats
from nlptools.plots import figures
from nlptools.plots.figures import FAINT, LINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nlptools.arrays import Array

WIDTH, HEIGHT = 9.0, 3.8  # in inches
SATURATED = 0.99  # the share of values below the strongest color


def picture(vectors_TD: Floats, suffix: str, width: float = 0.0) -> bytes:
    """A file of type `suffix` with two panels: dimensions of each position, and dot products between positions.

    Args:
        vectors_TD: the vectors of positions, from the first one on.
        suffix: ".png", ".svg" or ".pdf".
        width: in inches; 0: `WIDTH`.
    """
    with figures.style(suffix):
        figure = figures.new_figure(width or WIDTH, (width or WIDTH) * HEIGHT / WIDTH)
        figure.set_layout_engine("constrained")
        left, right = figure.subplots(1, 2)
        T, D = vectors_TD.shape
        _panel(left, vectors_TD, "RdBu_r", f"vectors of {T:,} positions")
        left.set(xlabel=f"dimension (of {D:,})", ylabel="position")
        _panel(right, vectors_TD @ vectors_TD.T, "RdBu_r", "dot products")
        right.set(xlabel="position", ylabel="position")
        return figures.saved(figure, suffix)


def _panel(axes: Axes, values: Array, colors: str, title: str) -> None:
    """A heat map in which white is 0. A few very large values, as pretrained models have, do not make the rest pale."""
    most = float(np.quantile(abs(values), SATURATED)) or 1.0
    image = axes.imshow(values, colors, vmin=-most, vmax=most, aspect="auto", interpolation="nearest")
    axes.set_title(title, loc="left", fontsize=10)
    axes.tick_params(length=2, labelsize=8, color=LINE)
    axes.spines[:].set(visible=True, color=LINE)
    beyond = "both" if float(abs(values).max()) > 1.001 * most else "neither"
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.6, aspect=15, pad=0.02, extend=beyond)
    bar.outline.set(edgecolor=LINE, linewidth=0.5)
    bar.ax.tick_params(length=2, labelsize=7, color=LINE, labelcolor=FAINT)
