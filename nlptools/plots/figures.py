"""Figures of matplotlib with words in them, drawn with its Figure, not with pyplot, which may look for a display.

Words in SVG stay text, so that viewers show right-to-left and CJK words in their own fonts; PNG uses the fonts that are
installed here.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nlptools import messages
from nlptools.errors import Unavailable

if TYPE_CHECKING:
    from matplotlib.backend_bases import RendererBase
    from matplotlib.figure import Figure

INK, FAINT, LINE = "#1b1f24", "#5b6570", "#c5cbd1"
DPI = 150
_FAMILIES = ("Noto Sans", "Noto Sans Arabic", "Noto Sans Hebrew", "Noto Sans Devanagari", "Noto Sans Bengali",
             "Noto Sans Tamil", "Noto Sans Thai", "Noto Sans CJK JP", "Noto Sans CJK SC", "WenQuanYi Zen Hei",
             "Droid Sans Fallback", "Hiragino Sans", "PingFang SC", "Arial Unicode MS", "Microsoft YaHei",
             "MS Gothic", "Malgun Gothic", "Noto Emoji", "Symbola")  # fmt: skip


def check_package(what: str, extra: str) -> None:
    """Raise Unavailable if matplotlib is not installed: `what` needs it, the extra installs it."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise Unavailable(f"{what} need the matplotlib package", extra=extra) from None


@contextmanager
def style(suffix: str) -> Iterator[None]:
    """The style of figures of type `suffix`. Afterwards, warns of characters that no font has."""
    import matplotlib

    settings: dict[Any, Any] = {
        "font.family": _fonts(),
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.unicode_minus": False,
        "grid.color": "#e3e7ea",
        "grid.linewidth": 0.6,
        "svg.fonttype": "none",
        "svg.hashsalt": "nlptools",
        "text.parse_math": False,
        "text.usetex": False,
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    if suffix == ".png" and (missing := len({str(w.message) for w in caught if "Glyph" in str(w.message)})):
        messages.warn(f"no installed font has {missing:,} of the characters of these words; .svg and .html keep them")


def _fonts() -> list[str]:
    """DejaVu Sans, which comes with matplotlib, and installed fonts for other scripts."""
    from matplotlib import font_manager

    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    known = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(name for name in _FAMILIES if name in known)]


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=DPI, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def saved(figure: Figure, suffix: str) -> bytes:
    """The figure as a file of type `suffix`: ".png", ".svg" or ".pdf". The same figure has the same bytes."""
    data = io.BytesIO()
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    figure.savefig(data, format=suffix[1:], metadata=dates.get(suffix))
    return data.getvalue()


def renderer_of(figure: Figure) -> RendererBase:
    """What draws the figure, for `measure`."""
    renderer: RendererBase = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    return renderer


def measure(renderer: RendererBase, text: str, size: float) -> tuple[float, float]:
    """Width and height of a text in pixels."""
    from matplotlib.font_manager import FontProperties

    width, height, _ = renderer.get_text_width_height_descent(text or " ", FontProperties(size=size), ismath=False)
    return width + 2, max(height, size * DPI / 72) + 1


def label(text: str, most: int) -> str:
    """`text` on one line, cut to `most` characters; invisible characters, which may reverse letters, become visible."""
    joiners = "\u200c\u200d"  # needed by Persian and emoji
    shown = "".join(c if c.isprintable() or c in joiners else " " if c.isspace() else "\ufffd" for c in text)
    return shown if len(shown) <= most else shown[: most - 1] + "\u2026"
