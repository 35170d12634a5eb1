"""Training curves from the logs of runs, as series of points and as images.

A log is `log.jsonl`, one JSON object per report, of the kind "train" or "valid". `nlptools.plots.braille` draws the same
panels with characters. Images are drawn with matplotlib's Figure, not with pyplot, which may look for a display.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nlptools import messages
from nlptools.errors import DataError, InputError, Unavailable, UsageError, display
from nlptools.files import run_paths, streams
from nlptools.json_types import Json, JsonObject

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOG_NAME = "log.jsonl"
IMAGES = (".png", ".svg", ".pdf")
_TITLES = {
    "lr": "learning rate",
    "grad_norm": "gradient norm",
    **{f"{unit}_per_second": f"{unit} per second" for unit in ("tokens", "words", "pairs")},
}
_TIME_UNITS = (("days", 2 * 86400.0, 86400.0), ("hours", 2 * 3600.0, 3600.0), ("minutes", 120.0, 60.0))


@dataclass(frozen=True)
class RunCurves:
    """The reports of one run, in order."""

    name: str
    rows: list[JsonObject]


@dataclass(frozen=True)
class Series:
    """One curve; `run` is the number of its run, from 0."""

    label: str
    run: int
    kind: str  # "train" or "valid"
    points: list[tuple[float, float]]


@dataclass(frozen=True)
class Panel:
    """The curves of one metric."""

    title: str
    x_label: str
    series: list[Series] = field(default_factory=list)


# -- logs -------------------------------------------------------------------------------------------------------------


def read_runs(paths: Sequence[str]) -> list[RunCurves]:
    """The logs of run directories or log files, with the shortest names that distinguish them.

    Lines that are not JSON objects, such as the last one while the run goes on, are skipped and counted.

    Raises:
        InputError: no such directory or file, or no log in the directory.
        DataError: a log has no reports.
    """
    files = [_log_file(path) for path in paths]
    return [_read(file, name) for file, name in zip(files, distinct_names(files), strict=True)]


def _log_file(path: str) -> str:
    if path == "-" or not Path(path).is_dir():
        return path
    file = Path(path) / LOG_NAME
    run_paths.restore(file)
    if not file.exists():
        raise InputError(f"{display(path)}: no {LOG_NAME} in this directory, expected the directory of a run")
    return str(file)


def distinct_names(files: Sequence[str]) -> list[str]:
    """The last directories of each path, as many as needed for the names to differ."""
    paths = [Path(file).resolve() if file != "-" else Path("stdin") for file in files]
    places = [
        path.parent if path.name == LOG_NAME else path if path.is_dir() else path.with_suffix("") for path in paths
    ]
    for depth in range(1, max((len(place.parts) for place in places), default=0) + 1):
        names = ["/".join(place.parts[-depth:]) for place in places]
        if len(set(names)) == len(names):
            return names
    return [f"{place.name} ({i})" for i, place in enumerate(places, 1)]


def _read(file: str, name: str) -> RunCurves:
    rows: list[JsonObject] = []
    skipped = 0
    for line in streams.lines(file, errors="replace"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            _add(rows, row)
        else:
            skipped += bool(line.strip())
    if not rows:
        raise DataError("no reports in this log", path=file)
    if skipped:
        messages.note(f"{display(file)}: skipped lines that are not JSON objects: {skipped:,}")
    return RunCurves(name, rows)


def _add(rows: list[JsonObject], row: JsonObject) -> None:
    """Append `row`. A run continued from a checkpoint reports steps again; the later report replaces the earlier one.

    A slow step may be reported several times, also after the validation before it, which stays.
    """
    step = _number(row.get("step"))
    if step is not None and row.get("kind") == "train":
        while rows and (_number(rows[-1].get("step")) or 0.0) > step:
            rows.pop()
        if rows and rows[-1].get("kind") == "train" and _number(rows[-1].get("step")) == step:
            rows.pop()
    rows.append(row)


# -- curves -----------------------------------------------------------------------------------------------------------


def panels(runs: Sequence[RunCurves], metrics: Iterable[str], x: str = "step", required: bool = True) -> list[Panel]:
    """A panel per metric, with the curves of all runs over `x` (step, time, tokens, words or pairs).

    Raises:
        DataError: no run has a metric (if `required`) or `x`, or there is nothing to draw.
    """
    if x != "time" and not any(_number(row.get(x)) is not None for run in runs for row in run.rows):
        raise DataError(f"no {x} in the logs, which have: {_known(runs)}")
    scale, label = _x_axis(runs, x)
    result = []
    for metric in metrics:
        panel = Panel(_TITLES.get(metric, metric), label)
        for i, run in enumerate(runs):
            for kind in ("train", "valid"):
                points = [(at * scale, y) for at, y in _points(run, metric, kind, x)]
                if points:
                    name = kind if len(runs) == 1 else run.name if kind == "train" else f"{run.name} {kind}"
                    panel.series.append(Series(name, i, kind, points))
        if panel.series:
            result.append(panel)
        elif required:
            raise DataError(f"no {metric} in the logs, which have: {_known(runs)}")
    if not result:
        raise DataError("nothing to draw: the logs have none of the metrics")
    return result


def _known(runs: Sequence[RunCurves]) -> str:
    """The names of all numbers in the logs."""
    return ", ".join(sorted({key for run in runs for row in run.rows for key in row if _number(row[key]) is not None}))


def _points(run: RunCurves, metric: str, kind: str, x: str) -> list[tuple[float, float]]:
    """(x, y) of the reports of one kind with the metric; a report without x takes x from the preceding report."""
    places = _seconds(run) if x == "time" else [_number(row.get(x)) for row in run.rows]
    points = []
    at = 0.0
    for row, place in zip(run.rows, places, strict=True):
        at = at if place is None else place
        y = _number(row.get(metric))
        if row.get("kind", "train") == kind and y is not None:
            points.append((at, y))
    return points


def _x_axis(runs: Sequence[RunCurves], x: str) -> tuple[float, str]:
    """The factor and the name of the horizontal axis; time is in a suitable unit."""
    if x != "time":
        return 1.0, x
    longest = max((at for run in runs for at in _seconds(run) if at is not None), default=0.0)
    for unit, least, seconds in _TIME_UNITS:
        if longest >= least:
            return 1 / seconds, f"time in {unit}"
    return 1.0, "time in seconds"


def _seconds(run: RunCurves) -> list[float | None]:
    """Seconds from the first report to each, by the clock, or by `seconds` of training in a log without times."""
    clock = [_timestamp(row.get("time")) for row in run.rows]
    start = next((time for time in clock if time is not None), None)
    if start is None:
        return [_number(row.get("seconds")) if row.get("kind") == "train" else None for row in run.rows]
    return [None if time is None else time - start for time in clock]


def _number(value: Json) -> float | None:
    """`value` as a float if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _timestamp(text: Json) -> float | None:
    """Seconds since 1970 of a date and time in ISO 8601."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


# -- images -----------------------------------------------------------------------------------------------------------


def check_image(path: str) -> None:
    """Check, before any work is done, that an image can be written.

    Raises:
        UsageError: the name does not end in .png, .svg or .pdf.
        Unavailable: matplotlib is not installed.
    """
    if Path(path).suffix.lower() not in IMAGES:
        raise UsageError(f"{display(path)}: expected a name that ends in {', '.join(IMAGES)}")
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise Unavailable("images need the matplotlib package", extra="plot") from None


def image(drawn: Sequence[Panel], suffix: str, width: float = 7.0, height: float = 2.5) -> bytes:
    """The panels below one another as a file of type `suffix` (".png", ...); sizes in inches, `height` of each panel."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "nlptools",
    }
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(width, height * len(drawn)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(drawn), 1, squeeze=False, sharex=True)[:, 0]
        for axis, panel in zip(axes, drawn, strict=True):
            _draw(axis, panel)
        axes[-1].set_xlabel(drawn[-1].x_label)
        data = io.BytesIO()
        dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}  # the same log gives the same bytes
        figure.savefig(data, format=suffix[1:], dpi=150, metadata=dates.get(suffix))
    return data.getvalue()


def _draw(axis: Axes, panel: Panel) -> None:
    for series in panel.series:
        xs, ys = zip(*series.points, strict=True)
        color = f"C{series.run % 10}"
        if series.kind == "valid":
            alone = all(s.run == 0 for s in panel.series)
            color = "C1" if alone else color
            axis.plot(xs, ys, "--o", color=color, label=series.label, linewidth=1.2, markersize=4, zorder=3)
        else:
            axis.plot(xs, ys, "o" if len(xs) == 1 else "-", color=color, label=series.label, linewidth=1.2)
    axis.set_title(panel.title, loc="left", fontsize=10)
    axis.grid(True, color="0.9", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.margins(x=0.01)
    axis.ticklabel_format(axis="y", scilimits=(-3, 5), useMathText=True)
    if len(panel.series) > 1:
        axis.legend(frameon=False, fontsize=8)
