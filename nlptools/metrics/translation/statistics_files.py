"""Files of statistics: a corpus is counted in parts, wherever they lie, and scored from the sum of the counts.

The first line says what was counted, as JSON; the second names the columns; then a line of numbers for each segment, in
order, separated by tabs. Numbers are written so that they read back exactly.
Shapes: S segments, C statistics.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from nlptools import __version__
from nlptools.errors import DataError, UsageError, display
from nlptools.files import line_records, streams
from nlptools.files.streams import Block
from nlptools.metrics.translation.bleu import Bleu
from nlptools.metrics.translation.corpus_scores import Counted, References, metric_class, reference_counts
from nlptools.metrics.translation.metric import Table, TranslationMetric
from nlptools.text.bleu_blocks import SEPARATE

_MARK = "# nlptools statistics "


def header(metric: TranslationMetric) -> list[str]:
    """The first two lines of a file."""
    return [_MARK + json.dumps(_described(metric), ensure_ascii=False), "\t".join(("references", *metric.columns))]


def rows(table: Table, references: References) -> list[str]:
    """A line for each segment: how many references it has, then its statistics (S, C)."""
    counts = reference_counts(references)
    return ["\t".join([str(count), *map(repr, row)]) for count, row in zip(counts, table.tolist(), strict=True)]


def merge(paths: Sequence[str], keep_rows: bool = False) -> tuple[TranslationMetric, Counted]:
    """The metric that files of statistics were made with, and what they hold together.

    The metric scores and has its signature; with a tokenizer that is a file it cannot count further segments.

    Raises:
        DataError: not a file of statistics, one that is damaged (names the line), or one made with other options.
        InputError, StreamError: see `streams.blocks`.
        UsageError: no files.
    """
    if not paths:
        raise UsageError("expected files of statistics to merge")
    metric: TranslationMetric | None = None
    expected: dict[str, Any] = {}
    counted = Counted([], 1)
    for path in streams.check_inputs(paths):
        described, columns, blocks = _opened(path)
        if metric is None:
            metric, expected = _restored(described, columns, path), described
            counted = Counted([metric], 1, keep_rows)
        elif {**described, "version": ""} != {**expected, "version": ""}:
            raise DataError(f"made with other options than {display(paths[0])}", path=path, line=1)
        if columns != ["references", *metric.columns]:
            raise DataError("not the columns of these statistics", path=path, line=2)
        for block in blocks:
            counted.add_tables(*_parsed(block.lines, path, block.start, metric))
    assert metric is not None
    return metric, counted


def _described(metric: TranslationMetric) -> dict[str, Any]:
    kind = type(metric).__name__.lower()
    options = {f.name: getattr(metric, f.name) for f in dataclasses.fields(metric_class(kind)) if f.init}
    return {"metric": kind, "options": options, "signature": dict(metric.signature()), "version": __version__}


def _opened(path: str) -> tuple[dict[str, Any], list[str], Iterator[Block]]:
    """What a file says of itself, the names of its columns, and the blocks of its rows."""
    blocks = streams.blocks(path)
    head: list[str] = []
    for block in blocks:  # a pipe may deliver one line at a time
        head += block.lines
        if len(head) > 1 or not head[0].startswith(_MARK):
            break
    if len(head) < 2 or not head[0].startswith(_MARK):
        raise DataError("not a file that --statistics wrote", path=path, line=1)
    described = line_records.parse_json_object(head[0][len(_MARK) :], path, 1)
    return described, head[1].split("\t"), chain([Block(path, 3, head[2:])], blocks)


def _restored(described: dict[str, Any], columns: Sequence[str], path: str) -> TranslationMetric:
    """The metric that a header describes."""
    try:
        made, options = metric_class(described["metric"]), dict(described["options"])
        _check_options(made, options, len(columns))
        if made is Bleu and options["tokenize"] not in SEPARATE:
            metric: TranslationMetric = Bleu.without_tokenizer(str(dict(described["signature"])["tok"]), options)
        else:
            metric = made(**options)
        if dict(metric.signature()) != described["signature"]:
            raise ValueError(f"options and signature differ: {described['signature']}")
        return metric
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise DataError(f"statistics of no metric that is known here: {error}", path=path, line=1) from None


def _check_options(made: type[Any], options: dict[str, Any], width: int) -> None:
    """Refuse values that no option has. Raises ValueError."""
    defaults = {f.name: f.default for f in dataclasses.fields(made) if f.init}
    if options.keys() != defaults.keys():
        raise ValueError(f"expected the options {', '.join(defaults)}")
    for name, value in options.items():
        number = name == "smooth_value" and type(value) in (int, float, type(None))
        fine = math.isfinite(value or 0.0) if number else type(value) is type(defaults[name])
        if not fine or (name.endswith("order") and value > width):
            raise ValueError(f"{name} {value!r}")


def _parsed(lines: list[str], path: str, start: int, metric: TranslationMetric) -> tuple[list[list[Table]], set[int]]:
    """The statistics (S, C) in `lines`, by system (one) and metric (one), and the numbers of references."""
    width = 1 + len(metric.columns)
    number = float if metric.name == "TER" else int
    table = np.full((len(lines), width), np.nan)
    for i, line in enumerate(lines):
        fields = line.split("\t")
        # Python takes 1_000 and blanks for a number too
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
    """Refuse rows of BLEU (S, 2 + 2 N) that no segment has: a digit may be missing at the end of a file."""
    matches, totals = table[:, 2 : 2 + order], table[:, 2 + order :]
    possible = np.maximum(table[:, :1] - np.arange(order), 0)
    good = (totals == possible).all(axis=1) & (matches <= totals).all(axis=1)
    if not good.all():
        wrong = int(np.argmin(good))
        raise DataError("numbers of n-grams that no segment has", path=path, line=start + wrong)
