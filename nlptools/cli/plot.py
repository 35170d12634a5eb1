"""nlptools plot: training curves."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.plot import METRICS, Plot


@make_command(
    "plot",
    Plot,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 130, 141, 143),
)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=click.Path(path_type=str))
def command(runs: tuple[str, ...], plot: Plot, common: Common) -> None:
    """Draw the training curves of runs.

    Each panel shows all runs, in the terminal or, with --output, in an image.
    """
    from nlptools.files import streams
    from nlptools.plots import braille, curves

    if plot.output != "-":
        curves.check_image(plot.output)
    with streams.LineWriter(plot.output, force=plot.force, layout=None) as out:
        panels = curves.panels(curves.read_runs(runs), plot.metric, plot.x, required=plot.metric != METRICS)
        if plot.output == "-":
            width = int(plot.width) or (shutil.get_terminal_size().columns if sys.stdout.isatty() else 80)
            ascii_only = plot.ascii or not _braille_shows()
            out.write(braille.draw(panels, width, int(plot.height) or 10, ascii_only, _colored(common.color)))
        else:
            out.write(curves.image(panels, Path(plot.output).suffix.lower(), plot.width or 7.0, plot.height or 2.5))


def _braille_shows() -> bool:
    """Whether the locale is UTF-8 and the terminal is not a bare console."""
    import locale

    codeset = locale.nl_langinfo(locale.CODESET).lower().replace("-", "")
    return codeset == "utf8" and not (sys.stdout.isatty() and os.environ.get("TERM") in ("dumb", "linux"))


def _colored(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
