"""Settings of plots of training curves."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option

METRICS = ("loss", "lr", "tokens_per_second", "words_per_second", "pairs_per_second")  # those that a log holds


@dataclass(frozen=True)
class Plot:
    """Plot options"""

    output: str = option(
        "-", "An image to write (.png, .svg, .pdf); - draws with characters.", short="-o", metavar="FILE"
    )
    force: bool = option(False, "Replace the output file if it exists.")
    metric: tuple[str, ...] = option(METRICS, "Keys of the log to draw, one panel each.", metavar="A,B,...")
    x: str = option(
        "step",
        "What the horizontal axis shows; time is since the start.",
        choices=("step", "time", "tokens", "words", "pairs"),
    )
    width: float = option(
        0.0, "Columns of text, or inches of an image; 0: as wide as the terminal (80), or 7.", low=0, metavar="N"
    )
    height: float = option(
        0.0, "Rows of text, or inches of an image, for each panel; 0: 10, or 2.5.", low=0, metavar="N"
    )
    ascii: bool = option(False, "Draw with ASCII characters only, not with Braille dots.")
