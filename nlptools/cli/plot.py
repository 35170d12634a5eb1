"""nlptools plot: training curves, positions and weights of layers."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.plot import METRICS, Plot
from nlptools.errors import UsageError

if TYPE_CHECKING:
    from nlptools.plots.curves import Panel


@make_command(
    "plot",
    Plot,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=str))
def command(runs: tuple[str, ...], plot: Plot, common: Common) -> None:
    """Draw the training curves of runs.

    Each panel shows all runs, in the terminal or, with --output, in an image. Or draw the vectors of positions of a model
    (--positions), or the weights of layers in files or directories (--layers): RUN then names those.
    """
    from nlptools.files import streams
    from nlptools.plots import curves

    if plot.output != "-":
        curves.check_image(plot.output)
    with streams.LineWriter(plot.output, force=plot.force, layout=None) as out:
        if plot.positions:
            out.write(_positions(runs, plot))
        elif plot.layers:
            from nlptools.plots import layer_picture

            out.write(layer_picture.picture(layer_picture.read(runs), _suffix(plot), plot.width))
        else:
            panels = curves.panels(curves.read_runs(runs), plot.metric, plot.x, required=plot.metric != METRICS)
            out.write(_curves(panels, plot, common))


def _positions(models: tuple[str, ...], plot: Plot) -> bytes:
    if len(models) > 1:
        raise UsageError(f"--positions draws one model, and {len(models)} are given")
    from nlptools.inference import uses
    from nlptools.inference.loading import load
    from nlptools.plots import position_picture

    return position_picture.picture(load(models[0], use=uses.POSITIONS)(plot.length), _suffix(plot), plot.width)


def _curves(panels: list[Panel], plot: Plot, common: Common) -> str | bytes:
    from nlptools.plots import braille, curves

    if plot.output != "-":
        return curves.image(panels, _suffix(plot), plot.width or 7.0, plot.height or 2.5)
    width = int(plot.width) or (shutil.get_terminal_size().columns if sys.stdout.isatty() else 80)
    return braille.draw(
        panels, width, int(plot.height) or 10, plot.ascii or not _braille_shows(), _colored(common.color)
    )


def _suffix(plot: Plot) -> str:
    return Path(plot.output).suffix.lower()


def _braille_shows() -> bool:
    """Whether the locale is UTF-8 and the terminal is not a bare console."""
    import locale

    codeset = locale.nl_langinfo(locale.CODESET).lower().replace("-", "")
    return codeset == "utf8" and not (sys.stdout.isatty() and os.environ.get("TERM") in ("dumb", "linux"))


def _colored(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
