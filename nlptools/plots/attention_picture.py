"""Pictures of attention: a heat map, lines between words, or a small heat map for each head.

Vaswani et al. 2017 (arXiv:1706.03762, figures 3 to 5) draw lines, Bahdanau et al. 2015 (arXiv:1409.0473, figure 3) a heat
map. Colors grow with the square root of the weights, so that weak attention is visible next to strong attention.
Lengths are in inches. Each line of text has a panel; panels are placed side by side while there is room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from nlptools.arrays import Array
from nlptools.errors import DataError
from nlptools.plots import figures
from nlptools.plots.attention_maps import AttentionMap
from nlptools.plots.figures import DPI, FAINT, INK, LINE, label, measure, new_figure, renderer_of, saved

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import RendererBase
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

MOST_LINES = 20  # of text in a picture
_COLORS = "Blues"
_WIDE = 16.0  # width that panels fill before the next row of them
_GAP, _MARGIN, _HEADING = 0.5, 0.25, 0.62
_LONGEST = 24  # characters of a word
_CELL, _LEAST_CELL, _SIDE = 0.3, 0.085, 30.0  # of a heat map: largest and smallest cell with a label, longest side
_FAINTEST = 0.01  # weights that get no line


@dataclass(frozen=True)
class AttentionPanel:
    """The picture of a line of text: its size below its heading, and what draws it, given its left and upper edge."""

    heading: str
    note: str
    width: float
    height: float
    draw: Callable[[Canvas, float, float], None]


class Canvas:
    """A figure with places in inches from the upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        self.width, self.height = width, height
        self.figure: Figure = new_figure(width, height)

    def axes(self, x: float, y: float, width: float, height: float) -> Axes:
        """Axes with this upper left corner."""
        place = x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height
        return self.figure.add_axes(place)

    def text(self, x: float, y: float, text: str, **style: object) -> None:
        """Text with its upper left corner here, unless `style` aligns it otherwise."""
        self.figure.text(x / self.width, 1 - y / self.height, text, {"va": "top", "color": INK, **style})


def check_packages() -> None:
    """Raise Unavailable if matplotlib is not installed."""
    figures.check_package("pictures", "plot")


def checked(maps: Iterable[AttentionMap]) -> list[AttentionMap]:
    """The maps of lines with words. Raises DataError for none, or for too many lines."""
    found = [each for each in islice(maps, MOST_LINES + 1) if each.queries]
    if not found:
        raise DataError("no text to draw")
    if len(found) > MOST_LINES:
        raise DataError(
            f"a picture shows at most {MOST_LINES} lines",
            hint="take fewer lines, or --to html for a page with all of them",
        )
    return found


def picture(maps: Sequence[AttentionMap], suffix: str, view: str | None = None) -> bytes:
    """The maps as a file of type `suffix`, ".png" or ".svg".

    Args:
        view: a key of `VIEWS`; None: "heat" where each map has the weights of one head, else "heads".

    Raises Unavailable without matplotlib.
    """
    check_packages()
    single = all(found.weights.shape[:2] == (1, 1) for found in maps)
    panel_of = VIEWS[view or ("heat" if single else "heads")]
    with figures.style(suffix):
        strongest = max(float(found.weights.max()) for found in maps)
        return saved(_arranged([_widened(panel_of(found, strongest)) for found in maps]), suffix)


def _arranged(panels: Sequence[AttentionPanel]) -> Figure:
    """All panels in a figure, from left to right and from top to bottom."""
    places: list[tuple[float, float]] = []
    x, y, low, right = _MARGIN, _MARGIN, 0.0, 0.0
    for panel in panels:
        if x > _MARGIN and x + panel.width > _WIDE:
            x, y = _MARGIN, low + _GAP
        places.append((x, y))
        x += panel.width + _GAP
        low, right = max(low, y + _HEADING + panel.height), max(right, x)
    canvas = Canvas(right - _GAP + _MARGIN, low + _MARGIN)
    renderer = renderer_of(canvas.figure)
    for panel, (x, y) in zip(panels, places, strict=True):
        canvas.text(x, y, _fitting(renderer, panel.heading, 11, panel.width), size=11, weight="bold")
        canvas.text(x, y + 0.24, _fitting(renderer, panel.note, 8.5, panel.width), size=8.5, color=FAINT)
        panel.draw(canvas, x, y + _HEADING)
    return canvas.figure


def _widened(panel: AttentionPanel) -> AttentionPanel:
    """The panel with room for its heading, or for the beginning of a long one."""
    return replace(panel, width=max(panel.width, min(_widest([label(panel.heading, 100)], 11) * 1.1, 5.5)))


def _fitting(renderer: RendererBase, text: str, size: float, width: float) -> str:
    """As much of a text as fits; bold letters, and fonts of other programs, are wider."""
    shown = label(text, 400)
    most = len(shown)
    while most > 1 and measure(renderer, shown, size)[0] * 1.15 > width * DPI:
        most = min(most - 1, max(1, int(most * 0.95)))
        shown = label(text, most)
    return shown


def _widest(words: Sequence[str], size: float) -> float:
    """The width of the longest word, with room for a wider font."""
    renderer = renderer_of(new_figure(1, 1))
    return max(measure(renderer, word, size)[0] for word in words) * 1.08 / DPI


def _note(found: AttentionMap) -> str:
    """The chosen layers and heads."""
    layers, heads = _numbers("layer", found.layers), _numbers("head", found.heads)
    kind = {"cross": "cross-attention", "encoder": "encoder", "decoder": "decoder"}.get(found.part or "")
    mean = "mean of " if found.mean and len(found.layers) * len(found.heads) > 1 else ""
    return ", ".join(filter(None, [kind, f"{mean}{layers}", heads]))


def _numbers(name: str, numbers: Sequence[int]) -> str:
    """Such as "layer 3", "layers 1-12" or "heads 1, 4"."""
    first, last = min(numbers), max(numbers)
    if len(numbers) == 1:
        return f"{name} {first}"
    if sorted(numbers) == list(range(first, last + 1)):
        return f"{name}s {first}-{last}"
    return f"{name}s {', '.join(map(str, numbers))}"


def _norm(strongest: float) -> Normalize:
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.5, 0.0, strongest or 1.0)


# -- views ------------------------------------------------------------------------------------------------------------


def _heat(found: AttentionMap, strongest: float) -> AttentionPanel:
    """A row for each word that attends, a column for each that is attended to."""
    found = found if found.mean else found.averaged()
    weights = found.weights[0, 0]
    Q, K = weights.shape
    cell = min(_CELL, max(_LEAST_CELL, 10.0 / max(Q, K)), _SIDE / max(Q, K))
    every = max(1, int(np.ceil(_LEAST_CELL / cell)))  # of very many words, some have a label
    size = min(9.0, cell * every * 72 * 0.8)
    left, top = (
        _widest([label(word, _LONGEST) for word in words], size) + 0.1 for words in (found.queries, found.keys)
    )

    def draw(canvas: Canvas, x: float, y: float) -> None:
        axes = canvas.axes(x + left, y + top, K * cell, Q * cell)
        image = axes.imshow(weights, _COLORS, norm=_norm(strongest), aspect="auto", interpolation="nearest")
        axes.tick_params(length=0, pad=2, labelsize=size, top=False, labeltop=True, bottom=False, labelbottom=False)
        for axis, words in ((axes.xaxis, found.keys), (axes.yaxis, found.queries)):
            axis.set_ticks(range(0, len(words), every), [label(word, _LONGEST) for word in words[::every]])
        for text in axes.get_xticklabels():
            text.set(rotation=90, va="bottom", ha="center")
        axes.spines[:].set(visible=True, color=LINE)
        if cell > 0.15:
            axes.set_xticks(np.arange(K + 1) - 0.5, minor=True)
            axes.set_yticks(np.arange(Q + 1) - 0.5, minor=True)
            axes.grid(which="minor", color="#e3e7ea", linewidth=0.5)
            axes.tick_params(which="minor", length=0)
        _scale(canvas, image, x + left + K * cell + 0.15, y + top, min(1.5, Q * cell))

    return AttentionPanel(found.text, _note(found), left + K * cell + 0.65, top + Q * cell, draw)


def _scale(canvas: Canvas, image: AxesImage, x: float, y: float, height: float) -> None:
    """A scale that shows the weight of each color."""
    bar = canvas.figure.colorbar(image, cax=canvas.axes(x, y, 0.1, height))
    bar.outline.set(edgecolor=LINE, linewidth=0.5)
    bar.ax.tick_params(length=2, labelsize=7, color=LINE, labelcolor=FAINT)
    bar.ax.minorticks_off()
    _, high = image.get_clim()
    ticks = [(high or 1.0) * share for share in (0.0, 0.1, 0.3, 0.6, 1.0)]
    bar.set_ticks(ticks, labels=[f"{value:.2g}" for value in ticks])


def _lines(found: AttentionMap, strongest: float) -> AttentionPanel:
    """Words that attend on the left, words that are attended to on the right; a line is as dark as the weight is large."""
    found = found if found.mean else found.averaged()
    weights, rows = found.weights[0, 0], max(len(found.queries), len(found.keys))
    step = min(0.24, max(0.11, 12.0 / rows), _SIDE / rows)
    size = min(9.0, step * 72 * 0.8)
    queries, keys = ([label(word, _LONGEST) for word in words] for words in (found.queries, found.keys))
    left, right, between = _widest(queries, size) + 0.06, _widest(keys, size) + 0.06, 1.8

    def draw(canvas: Canvas, x: float, y: float) -> None:
        for words, at, side in ((queries, x + left - 0.06, "right"), (keys, x + left + between + 0.06, "left")):
            for number, word in enumerate(words):
                middle = y + (number + 0.5 + (rows - len(words)) / 2) * step
                canvas.text(at, middle, word, size=size, ha=side, va="center_baseline")
        axes = canvas.axes(x + left, y, between, rows * step)
        axes.set(xlim=(0, 1), ylim=(rows, 0))
        axes.axis("off")
        _connect(axes, weights, strongest)

    return AttentionPanel(found.text, _note(found), left + between + right, rows * step, draw)


def _connect(axes: Axes, weights: Array, strongest: float) -> None:
    """Lines from the words on the left to those on the right, the strongest on top."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    query, key = np.nonzero(weights >= _FAINTEST)
    order = np.argsort(weights[query, key], kind="stable")
    query, key = query[order], key[order]
    share = np.sqrt(weights[query, key] / (strongest or 1.0))
    ends = np.empty((len(query), 2, 2))
    ends[:, 0, 0], ends[:, 1, 0] = 0.0, 1.0
    rows = max(weights.shape)  # the shorter column is in the middle
    for end, (places, count) in enumerate(zip((query, key), weights.shape, strict=True)):
        ends[:, end, 1] = places + 0.5 + (rows - count) / 2
    colors = np.column_stack([np.tile(to_rgb("#0072B2"), (len(query), 1)), share**2 * 0.9 + 0.05])
    axes.add_collection(LineCollection(list(ends), colors=colors, linewidths=0.4 + 2.0 * share, capstyle="round"))


def _heads(found: AttentionMap, strongest: float) -> AttentionPanel:
    """A row of small heat maps for each layer, a column for each head."""
    L, H, Q, K = found.weights.shape
    edge = min(1.1, max(0.55, 12.0 / H))
    width, height = edge * min(1.0, K / Q), edge * min(1.0, Q / K)
    width, height = max(width, 0.3), max(height, 0.3)
    gap, left, top = 0.08, 0.6, 0.25
    names = found.layers if not found.mean else [found.layers[0]]

    def draw(canvas: Canvas, x: float, y: float) -> None:
        for column in range(H):
            middle = x + left + column * (width + gap) + width / 2
            canvas.text(middle, y + top - 0.06, f"head {found.heads[column]}", size=7, ha="center", va="bottom")
        for row in range(L):
            upper = y + top + row * (height + gap)
            canvas.text(x + left - 0.08, upper + height / 2, f"layer {names[row]}", size=7, ha="right", va="center")
            for column in range(H):
                axes = canvas.axes(x + left + column * (width + gap), upper, width, height)
                image = axes.imshow(
                    found.weights[row, column],
                    _COLORS,
                    norm=_norm(strongest),
                    aspect="auto",
                    interpolation="antialiased",
                )
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set(visible=True, color=LINE, linewidth=0.6)
        _scale(
            canvas, image, x + left + H * (width + gap) + 0.07, y + top, min(1.5, max(0.6, L * (height + gap) - gap))
        )

    height_of_all = top + max(0.6, L * (height + gap))
    return AttentionPanel(
        found.text, f"{_note(found)}; rows attend to columns", left + H * (width + gap) + 0.6, height_of_all, draw
    )


VIEWS = {"heat": _heat, "lines": _lines, "heads": _heads}
