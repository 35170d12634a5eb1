"""Files of statistics: parts of a corpus are counted separately and scored from the sum of the counts.

The first line describes the metric as JSON; the second names the columns; then follows a line of numbers separated by
tabs for each segment, in order. Numbers are written so that they read back exactly.
Shapes: S segments, C statistics.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Sequence

import numpy as np

from nlptools.errors import BundleError, DataError, UsageError, display
from nlptools.files import json_fields, streams
from nlptools.json_types import JsonObject
from nlptools.metrics.metric import Table
from nlptools.metrics.statistics_files import MARK, open_statistics
from nlptools.metrics.translation.bleu import Bleu
from nlptools.metrics.translation.corpus import CorpusStatistics, metric_class
from nlptools.metrics.translation.metric import CorpusMetric, References
from nlptools.metrics.translation.segments import reference_counts
from nlptools.text.bleu_blocks import SEPARATE
from nlptools.version import __version__

_LATER = {"clip": True}  # options that older files lack, and the value that is not written


def header(metric: CorpusMetric) -> list[str]:
    """The first two lines of a file."""
    return [MARK + json.dumps(_description(metric), ensure_ascii=False), "\t".join(("references", *metric.columns))]


def rows(table: Table, references: References) -> list[str]:
    """A line for each segment: its number of references, then its statistics (S, C)."""
    counts = reference_counts(references)
    return ["\t".join([str(count), *map(repr, row)]) for count, row in zip(counts, table.tolist(), strict=True)]


def merge(paths: Sequence[str], keep_rows: bool = False) -> tuple[CorpusMetric, CorpusStatistics]:
    """The metric of files of statistics, and the sum of all files.

    The metric can score and has its signature; if its tokenizer is a file, it cannot count further segments.

    Raises:
        DataError: a file is not a file of statistics, is damaged (names the line), or was written with other options.
        InputError, StreamError: see `streams.blocks`.
        UsageError: no files.
    """
    if not paths:
        raise UsageError("expected files of statistics to merge")
    metric: CorpusMetric | None = None
    expected: JsonObject = {}
    statistics = CorpusStatistics([], 1)
    for path in streams.check_inputs(paths):
        description, columns, blocks = open_statistics(path)
        if metric is None:
            metric, expected = _restored(description, columns, path), description
            statistics = CorpusStatistics([metric], 1, keep_rows)
        elif {**description, "version": ""} != {**expected, "version": ""}:
            raise DataError(f"made with other options than {display(paths[0])}", path=path, line=1)
        if columns != ["references", *metric.columns]:
            raise DataError("not the columns of these statistics", path=path, line=2)
        for block in blocks:
            statistics.add_tables(*_parsed(block.lines, path, block.start, metric))
    assert metric is not None
    return metric, statistics


def _description(metric: CorpusMetric) -> JsonObject:
    kind = type(metric).__name__.lower()
    options = {f.name: vars(metric)[f.name] for f in dataclasses.fields(metric_class(kind)) if f.init}
    options = {name: value for name, value in options.items() if (name, value) not in _LATER.items()}
    return {"metric": kind, "options": options, "signature": dict(metric.signature()), "version": __version__}


def _restored(description: JsonObject, columns: Sequence[str], path: str) -> CorpusMetric:
    """The metric that a header describes."""
    try:
        given = json_fields.child(description, "options", path)
        cls = metric_class(json_fields.text(description, "metric", path))
        later = {f.name: _LATER[f.name] for f in dataclasses.fields(cls) if f.name in _LATER}
        options = {**later, **given}
        _check_options(cls, options, len(columns))
        if cls is Bleu and options["tokenize"] not in SEPARATE:
            metric: CorpusMetric = Bleu.without_tokenizer(
                str(json_fields.child(description, "signature", path)["tok"]), options
            )
        else:
            metric = cls(**options)
        if dict(metric.signature()) != description["signature"]:
            raise ValueError(f"options and signature differ: {description['signature']}")
        return metric
    except (KeyError, TypeError, ValueError, UsageError, BundleError) as error:
        raise DataError(f"statistics of no metric that is known here: {error}", path=path, line=1) from None


def _check_options(cls: type[CorpusMetric], options: JsonObject, width: int) -> None:
    """Raises ValueError for unknown options and for values of the wrong type."""
    defaults = {f.name: f.default for f in dataclasses.fields(cls) if f.init}
    if options.keys() != defaults.keys():
        raise ValueError(f"expected the options {', '.join(defaults)}")
    for name, value in options.items():
        if name == "smooth_value" and (value is None or (isinstance(value, int | float) and type(value) is not bool)):
            valid = math.isfinite(value or 0.0)
        else:
            valid = type(value) is type(defaults[name])
        if not valid or (name.endswith("order") and isinstance(value, int) and value > width):
            raise ValueError(f"{name} {value!r}")


def _parsed(lines: list[str], path: str, start: int, metric: CorpusMetric) -> tuple[list[list[Table]], set[int]]:
    """The statistics (S, C) in `lines`, by system (one) and metric (one), and the numbers of references."""
    width = 1 + len(metric.columns)
    number = float if metric.name == "TER" else int
    table = np.full((len(lines), width), np.nan)
    for i, line in enumerate(lines):
        fields = line.split("\t")
        # Python also reads 1_000 and spaces as numbers
        if len(fields) == width and line.isascii() and "_" not in line and " " not in line:
            with contextlib.suppress(ValueError, OverflowError):
                table[i] = [int(fields[0]), *map(number, fields[1:])]
    good = np.isfinite(table).all(axis=1) & (table >= 0).all(axis=1) & (table < 2**53).all(axis=1) & (table[:, 0] > 0)
    if not good.all():
        wrong = int(np.argmin(good))
        raise DataError(f"expected {width} numbers from 0, separated by tabs", path=path, line=start + wrong)
    values = table[:, 1:]
    exact: Table = values if number is float else values.astype(np.int64)
    if isinstance(metric, Bleu):
        _check_counts(exact, metric.order, path, start)
    return [[exact]], set(table[:, 0].astype(np.int64).tolist())


def _check_counts(table: Table, order: int, path: str, start: int) -> None:
    """Refuse rows of BLEU (S, 2 + 2 N) that are impossible: a digit may be missing at the end of a file."""
    matches, totals = table[:, 2 : 2 + order], table[:, 2 + order :]
    possible = np.maximum(table[:, :1] - np.arange(order), 0)
    good = (totals == possible).all(axis=1) & (matches <= totals).all(axis=1)
    if not good.all():
        wrong = int(np.argmin(good))
        raise DataError("numbers of n-grams that no segment has", path=path, line=start + wrong)
