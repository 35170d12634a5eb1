"""Files of statistics: a corpus is counted in parts, wherever they lie, and scored from the sum of the counts.

The first line says what was counted, as JSON; the second names the columns; then a line of numbers for each segment, in
order, separated by tabs. Numbers are written so that they read back exactly.
Shapes: S segments, C statistics.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from nlptools import __version__, streams
from nlptools.errors import DataError, UsageError
from nlptools.metrics.bleu import Bleu
from nlptools.metrics.corpus import METRICS, Counted, References
from nlptools.metrics.translation import Table, TranslationMetric
from nlptools.streams import Block

_MARK = "# nlptools statistics "
_NAMES_OF_TOKENIZERS = ("13a", "intl", "zh", "char", "none")


def header(metric: TranslationMetric) -> list[str]:
    """The first two lines of a file."""
    return [_MARK + json.dumps(_described(metric), ensure_ascii=False), "\t".join(("references", *metric.columns))]


def rows(table: Table, references: References) -> list[str]:
    """A line for each segment: how many references it has, then its statistics (S, C)."""
    counts = [sum(text is not None for text in segment) for segment in zip(*references)]
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
        blocks = streams.blocks(path)
        block: Block | None = next(blocks, Block(path, 1, []))
        described = _read_header(block.lines, path) if block is not None else {}
        if metric is None:
            metric, expected = _restored(described, path), described
            counted = Counted([metric], 1, keep_rows)
        elif {**described, "version": ""} != {**expected, "version": ""}:
            raise DataError(f"made with other options than {paths[0]}", path=path, line=1)
        while block is not None:
            lines, start = (block.lines[2:], 3) if block.start == 1 else (block.lines, block.start)
            counted.add_tables(*_parsed(lines, path, start, metric))
            block = next(blocks, None)
    assert metric is not None
    return metric, counted


def _described(metric: TranslationMetric) -> dict[str, Any]:
    kind = next(name for name, made in METRICS.items() if isinstance(metric, made))
    options = {f.name: getattr(metric, f.name) for f in dataclasses.fields(METRICS[kind]) if f.init}
    return {"metric": kind, "options": options, "signature": dict(metric.signature()), "version": __version__}


def _read_header(lines: list[str], path: str) -> dict[str, Any]:
    if len(lines) < 2 or not lines[0].startswith(_MARK):
        raise DataError("not a file that --statistics wrote", path=path, line=1)
    return streams.parse_json_object(lines[0][len(_MARK) :], path, 1)


def _restored(described: dict[str, Any], path: str) -> TranslationMetric:
    """The metric that a header describes."""
    try:
        made, options = METRICS[described["metric"]], dict(described["options"])
        if made is Bleu and options["tokenize"] not in _NAMES_OF_TOKENIZERS:
            return Bleu.without_tokenizer(dict(described["signature"])["tok"], options)
        return made(**options)
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise DataError(f"statistics of no metric that is known here: {error}", path=path, line=1) from None


def _parsed(lines: list[str], path: str, start: int, metric: TranslationMetric) -> tuple[list[list[Table]], set[int]]:
    """The statistics (S, C) in `lines`, by system (one) and metric (one), and the numbers of references."""
    width = 1 + len(metric.columns)
    number = int if isinstance(metric, (Bleu, METRICS["chrf"])) else float
    table = np.empty((len(lines), width))
    for i, line in enumerate(lines):
        fields = line.split("\t")
        try:
            table[i] = [number(field) for field in fields] if len(fields) == width else [np.nan] * width
        except (ValueError, OverflowError):
            table[i] = np.nan
    good = np.isfinite(table).all(axis=1) & (table >= 0).all(axis=1) & (table < 2**53).all(axis=1)
    if not good.all():
        wrong = int(np.argmin(good))
        raise DataError(f"expected {width} numbers from 0, separated by tabs", path=path, line=start + wrong)
    values = table[:, 1:]
    exact: Table = values if number is float else values.astype(np.int64)
    return [[exact]], set(table[:, 0].astype(np.int64).tolist())
