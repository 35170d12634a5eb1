"""Maps as pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nlptools import messages
from nlptools.arrays import Array
from nlptools.plots import figures
from nlptools.plots.figures import DPI, FAINT, INK, LINE, label, measure, new_figure, renderer_of, saved
from nlptools.vectors.maps.labels import place
from nlptools.vectors.maps.points import MapPoints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from mpl_toolkits.mplot3d import Axes3D

# Okabe and Ito without black and yellow, and two of Tol: distinct for people with color blindness.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255", "#999933")
OTHERS, ARROW = "#9aa3ad", "#c2410c"
_LONGEST = 40  # characters of a label
_TIP, _HEAD = 4.0, (4.5, 2.2)  # distance of an arrow from its word, length and half the width of its head, in points
_ALL = 150  # up to this number of words, every word gets a label if possible


def check_packages() -> None:
    """Raise Unavailable if matplotlib is not installed."""
    figures.check_package("pictures", "viz")


def picture(drawn: MapPoints, suffix: str, width: float = 9.0, height: float = 7.0) -> bytes:
    """The map as a file of type `suffix`, ".png" or ".svg", in inches. Raises Unavailable."""
    check_packages()
    with figures.style(suffix):
        return _draw(drawn, suffix, width, height)


def _draw(drawn: MapPoints, suffix: str, width: float, height: float) -> bytes:
    figure = new_figure(width, height)
    colors, palette = colors_of(drawn)
    top = _heading(figure, drawn, palette)
    axis: Axes3D = (_space if drawn.coordinates.shape[1] == 3 else _plane)(figure, drawn, top)
    size = float(np.clip(3000 / len(drawn.words), 4, 18))
    flat: dict[str, bool] = {} if drawn.coordinates.shape[1] == 2 else {"depthshade": False}  # shading hides points
    axis.scatter(*drawn.coordinates.T, s=size, c=colors, alpha=0.85, linewidths=0, zorder=2, **flat)
    figure.canvas.draw()  # from here on, places in pixels are known
    places = _pixels(axis, drawn.coordinates)
    _arrows(figure, drawn, places)
    _labels(figure, axis, drawn, places)
    text = saved(figure, suffix)
    if suffix == ".svg":  # a white outline keeps words readable over points
        halo = b"text {paint-order: stroke; stroke: #fff; stroke-width: 2px; stroke-linejoin: round}</style>"
        text = text.replace(b"</style>", halo, 1)
    return text


def colors_of(drawn: MapPoints) -> tuple[list[str], dict[str, str]]:
    """The color of each word, and of each group. Words without a group are gray, and groups beyond the palette."""
    groups = drawn.points.groups
    if not groups:
        return [COLORS[0]] * len(drawn.words), {}
    named = dict.fromkeys(group for group in groups if group)
    palette = {group: COLORS[i] if i < len(COLORS) else OTHERS for i, group in enumerate(named)}
    return [palette.get(group, OTHERS) for group in groups], palette


# -- parts ------------------------------------------------------------------------------------------------------------


def _heading(figure: Figure, drawn: MapPoints, palette: dict[str, str]) -> float:
    """Draw title, caption and legend; returns the height that is left, as a share of the whole."""
    from matplotlib.lines import Line2D

    inch = 1 / float(figure.get_figheight())
    figure.text(0.02, 1 - 0.12 * inch, label(drawn.title, 100), size=12, weight="bold", color=INK, va="top")
    figure.text(0.02, 1 - 0.36 * inch, drawn.note, size=8.5, color=FAINT, va="top")
    if not palette:
        return 1 - 0.6 * inch
    handles = [Line2D([], [], marker="o", linestyle="", color=color, markersize=5) for color in palette.values()]
    columns = max(1, int(figure.get_figwidth() / 1.3))
    figure.legend(
        handles[:16], [label(name, 18) for name in palette][:16], loc="upper left", ncols=columns, frameon=False,
        bbox_to_anchor=(0.005, 1 - 0.52 * inch), fontsize=8.5, handletextpad=0.1, columnspacing=1.2, labelcolor=INK,
    )  # fmt: skip
    return 1 - (0.8 + 0.2 * ((min(len(palette), 16) - 1) // columns)) * inch


def _plane(figure: Figure, drawn: MapPoints, top: float) -> Axes:
    """Axes for two dimensions with equal scales, since distances have a meaning."""
    left, low = (0.72, 0.5) if drawn.axes else (0.15, 0.15)
    left, low = left / figure.get_figwidth(), low / figure.get_figheight()
    axis = figure.add_axes((left, low, 0.98 - left, top - low))
    middles, spans = zip(*(_limits(values, 0.05) for values in drawn.coordinates.T), strict=True)
    unit = max(spans[0] / axis.bbox.width, spans[1] / axis.bbox.height)  # of a pixel
    half_x, half_y = unit * axis.bbox.width / 2, unit * axis.bbox.height / 2
    axis.set_xlim(middles[0] - half_x, middles[0] + half_x)
    axis.set_ylim(middles[1] - half_y, middles[1] + half_y)
    axis.tick_params(labelcolor=FAINT, labelsize=8, length=3, color=LINE)
    for spine in axis.spines.values():
        spine.set_color(LINE)
    if drawn.axes:
        axis.set_xlabel(drawn.axes[0], color=FAINT, size=9)
        axis.set_ylabel(drawn.axes[1], color=FAINT, size=9)
    else:  # the coordinates of t-SNE and UMAP have no meaning
        axis.set_xticks([])
        axis.set_yticks([])
        axis.spines[["top", "right"]].set_visible(True)
    return axis


def _space(figure: Figure, drawn: MapPoints, top: float) -> Axes3D:
    """Axes for three dimensions, seen slightly from above."""
    axis: Axes3D = figure.add_axes((0.0, 0.02, 1.0, top - 0.02), projection="3d")
    axis.view_init(elev=18, azim=-62)
    axis.set_box_aspect((1.25, 1.25, 1), zoom=1.2)
    for setter, values in zip((axis.set_xlim, axis.set_ylim, axis.set_zlim), drawn.coordinates.T, strict=True):
        middle, span = _limits(values, 0.02)
        setter(middle - span / 2, middle + span / 2)
    for each, name in zip((axis.xaxis, axis.yaxis, axis.zaxis), [*drawn.axes, "", "", ""], strict=False):
        each.set_pane_color((0.975, 0.98, 0.985, 1.0))
        each.set_ticklabels([])
        each.line.set_color(LINE)
        each.set_tick_params(color="none")
        each.set_label_text(name, color=FAINT, size=9)
        each.labelpad = -8
    return axis


def _limits(values: Array, margin: float) -> tuple[float, float]:
    """Middle and length of an axis with margins."""
    low, high = float(values.min()), float(values.max())
    return (low + high) / 2, (high - low) * (1 + 2 * margin) or 1.0


def _pixels(axis: Axes3D, spots: Array) -> Array:
    """Places of points in pixels of the figure, (N, 2)."""
    if spots.shape[1] == 3:
        from mpl_toolkits.mplot3d.proj3d import proj_transform

        x, y, _ = proj_transform(*spots.T, axis.get_proj())
        spots = np.column_stack([x, y])
    return np.asarray(axis.transData.transform(spots))


def _arrows(figure: Figure, drawn: MapPoints, places: Array) -> None:
    from matplotlib.patches import FancyArrowPatch

    whole = np.array([figure.bbox.width, figure.bbox.height])
    for start, end in drawn.points.arrows:
        arrow = FancyArrowPatch(
            tuple(places[start] / whole), tuple(places[end] / whole), transform=figure.transFigure, shrinkA=3, shrinkB=_TIP,
            arrowstyle=f"-|>,head_length={_HEAD[0]},head_width={_HEAD[1]}", color=ARROW, linewidth=0.9, alpha=0.8,
        )  # fmt: skip
        figure.add_artist(arrow)


def _outline(start: Array, end: Array) -> Array:
    """Points (N, 2) on an arrow and around its head, in pixels, for labels to avoid."""
    tip, length, width = (points * DPI / 72 for points in (_TIP, *_HEAD))
    distance = float(np.linalg.norm(end - start))
    along = (end - start) / max(distance, 1.0)
    shaft = end - along * np.arange(tip, max(distance, tip + 1), 3.0)[:, None]
    across = along[::-1] * (-width, width)
    head = [end - along * back + across * side for back in np.linspace(tip / 2, tip + length, 4) for side in (-1, 1)]
    return np.concatenate([shaft, head])


def _labels(figure: Figure, axis: Axes, drawn: MapPoints, places: Array) -> None:
    """Draw the words that there is room for, the words of arrows first."""
    renderer = renderer_of(figure)
    whole = np.array([figure.bbox.width, figure.bbox.height])
    points = drawn.points
    wanted = [place for pair in points.arrows for place in pair]
    few = len(points.words) <= _ALL
    size = 9.0 if few else 7.5
    texts = [label(word, _LONGEST) for word in points.words]
    sizes = np.array([measure(renderer, text, size) for text in texts])
    box = axis.bbox if drawn.coordinates.shape[1] == 2 else figure.bbox
    lines = [_outline(places[start], places[end]) for start, end in points.arrows]
    spots = place(
        places, sizes, (box.x0, box.y0, box.x1, min(box.y1, axis.bbox.y1)), wanted=wanted, gap=0.045 * DPI,
        obstacles=np.concatenate(lines) if lines else None, most_covered=len(points.words) if few else 0,
        far=0.5 * DPI if few else 0.0,
    )  # fmt: skip
    for spot, text, extent, at in zip(spots, texts, sizes, places, strict=True):
        if spot is None:
            continue
        if spot.far:
            ends = np.stack([at, np.clip(at, (spot.x, spot.y), (spot.x + extent[0], spot.y + extent[1]))]) / whole
            figure.add_artist(_line(figure, ends))
        # aligned at the side of its point, since viewers of SVG may use a wider font
        side = "left" if spot.x >= at[0] else "right" if spot.x + extent[0] <= at[0] else "center"
        x = spot.x + {"left": 1, "right": extent[0] - 1, "center": extent[0] / 2}[side]
        figure.text(
            x / whole[0], (spot.y + extent[1] / 2) / whole[1], text, size=size, color=INK, ha=side,
            va="center_baseline", zorder=5,
        )  # fmt: skip
    left_out = sum(spot is None for spot in spots)
    if left_out:
        messages.note(f"{len(spots) - left_out:,} of {len(spots):,} words have room for their labels")


def _line(figure: Figure, ends: Array) -> Line2D:
    """A line from a point to its distant label."""
    from matplotlib.lines import Line2D

    return Line2D(ends[:, 0], ends[:, 1], transform=figure.transFigure, color=LINE, linewidth=0.6, zorder=1)
