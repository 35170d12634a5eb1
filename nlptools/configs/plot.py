"""Settings of `plot`, which draws training curves, positions and weights of layers."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option

# default: those present in the log
METRICS = (
    *("loss", "reward", "kl", "length", "accuracy", "f1", "precision", "recall", "matthews", "pearson", "spearman"),
    *("exact_match", "bleu", "perplexity", "lr"),
    *(f"{unit}_per_second" for unit in ("tokens", "words", "pairs", "examples")),
)


_OF_CURVES = ("metric", "x", "height", "ascii")


@dataclass(frozen=True)
class Plot:
    """Plot options"""

    output: str = option(
        "-",
        "Output image (.png, .svg, .pdf); -: draw with characters on standard output (curves only).",
        short="-o",
        metavar="FILE",
    )
    force: bool = option(False, "Replace the output file if it exists.")
    positions: bool = option(
        False,
        "Draw the vectors of positions of a model, and their dot products.",
        needs=("output",),
        excludes=("layers", *_OF_CURVES),
    )
    length: int = option(128, "Number of positions to draw.", low=1, metavar="N", needs=("positions",))
    layers: bool = option(
        False,
        "Draw the weights of layers in files such as layer_mix.json, or in the directories of finetune --layers mix and"
        " --features.",
        needs=("output",),
        excludes=_OF_CURVES,
    )
    metric: tuple[str, ...] = option(METRICS, "Keys of the log to draw, a panel each.", metavar="A,B,...")
    x: str = option(
        "step",
        "Horizontal axis. time: since the start of the run.",
        choices=("step", "time", "tokens", "words", "pairs"),
    )
    width: float = option(
        0.0, "Width in columns of text, or in inches of an image; 0: the terminal (or 80), or 7.", low=0, metavar="N"
    )
    height: float = option(
        0.0, "Height of a panel in rows of text, or in inches of an image; 0: 10, or 2.5.", low=0, metavar="N"
    )
    ascii: bool = option(False, "Draw with ASCII characters instead of Braille dots.")
