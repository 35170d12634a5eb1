"""Files of statistics of `evaluate`: parts of a corpus are compared separately, and scored from all their rows.

The first line describes the metric as JSON; the second names the columns; then follows a line for each example, in order:
its statistics as numbers, or its gold and its predicted label. Numbers are written so that they read back exactly.
Shapes: N examples, C statistics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from importlib import import_module
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np

from nlptools.configs.evaluate import Evaluate, check_taken
from nlptools.configs.metrics import GROUPS, LINES, MetricRequest, parse
from nlptools.errors import DataError, UsageError, display
from nlptools.files import line_records, streams
from nlptools.files.streams import LineBlock
from nlptools.json_types import JsonObject
from nlptools.metrics.metric import Categories, Evaluation, Items, MetricData, SavedRows, Sums, Table
from nlptools.version import __version__

T = TypeVar("T")

MARK = "# nlptools statistics "
_LABELS = ["gold", "predicted"]
_OF_DATA = ("labels", "positive", "tokens")  # keys of signatures that the examples decide, so that parts may differ
_OTHER = ("metric", "null_odds", "threshold")  # options that are not in files
_HINT = "nlptools evaluate --statistics writes one"


class OpenedStatistics(NamedTuple):
    """A file of statistics: its description, the names of its columns, and the blocks of its rows."""

    description: JsonObject
    columns: list[str]
    blocks: Iterator[LineBlock]


def open_statistics(path: str) -> OpenedStatistics:
    """A file that --statistics of `evaluate` or `bleu` wrote.

    Raises:
        DataError: the first line is no description.
        InputError, StreamError: see `streams.blocks`.
    """
    blocks = streams.blocks(path)
    head: list[str] = []
    for block in blocks:  # a pipe may deliver one line at a time
        head += block.lines
        if len(head) > 1 or not head[0].startswith(MARK):
            break
    if len(head) < 2 or not head[0].startswith(MARK):
        raise DataError("not a file that --statistics wrote", path=path, line=1)
    description = line_records.parse_json_object(head[0][len(MARK) :], path, 1)
    return OpenedStatistics(description, head[1].split("\t"), chain([LineBlock(path, 3, head[2:])], blocks))


def write(path: str, requests: Sequence[MetricRequest], options: Evaluate, evaluation: Evaluation) -> None:
    """Write the rows of an evaluation. Raises as `LineWriter`."""
    defaults = {field.name: field.default for field in fields(Evaluate)}
    given = {name: value for name, value in vars(options).items() if name not in _OTHER and value != defaults[name]}
    description = {
        "metrics": [f"{request.metric}:{request.value}".removesuffix(":") for request in requests],
        "options": given,
        "signature": [list(item) for item in evaluation.items],
        "version": __version__,
    }
    rows, columns = evaluation.rows, evaluation.columns
    with streams.LineWriter(path, force=None) as out:
        out.write_lines([MARK + json.dumps(description, ensure_ascii=False)])
        if isinstance(rows, Categories):
            out.write_lines(["\t".join(_LABELS)])
            out.write_lines(columns[number] for number in rows.column.tolist())
        else:
            assert isinstance(rows, Sums)
            out.write_lines(["\t".join(map(line_records.escape, columns))])
            out.write_lines("\t".join(map(repr, row)) for row in rows.table.tolist())


def check_written(groups: Sequence[Sequence[MetricRequest]], options: Evaluate) -> None:
    """Raise UsageError for metrics without files of statistics."""
    first = groups[0][0]
    named = "--null-odds" if options.null_odds is not None else first.metric
    if len(groups) > 1:
        raise UsageError("--statistics is for one metric, or for metrics that are computed together")
    if first.group == "translation":
        hint = f"nlptools bleu -m {first.metric} --statistics FILE"
        raise UsageError(f"--statistics is not for {first.metric} here", hint=hint)
    if not GROUPS[first.group].merge or first.metric == "sts-b" or options.null_odds is not None:
        known = ", ".join(group.metrics[0] for group in GROUPS.values() if group.merge)
        raise UsageError(f"--statistics is not for {named}: expected metrics such as {known}")


def merge(paths: Sequence[str]) -> Evaluation:
    """The evaluation of the examples of all files together, in their order.

    Raises:
        DataError: no file of statistics, a damaged one (names the line), or one that was written with other options.
        InputError, StreamError: see `streams.blocks`.
        UsageError: `-` occurs more than once.
    """
    opened = {path: open_statistics(path) for path in streams.check_inputs(paths)}
    compared = [_described(part.description, path) for path, part in opened.items()]
    for path, description in zip(opened, compared, strict=True):
        if description != compared[0]:
            raise DataError(f"made with other options than {display(paths[0])}", path=path, line=1)
    requests, options = _restored(compared[0], paths[0])
    group = GROUPS[requests[0].group]
    module, function = group.merge.split(":")
    columns = tuple(dict.fromkeys(name for part in opened.values() for name in part.columns))
    if group.reads == LINES:
        pairs = [pair for path, part in opened.items() for pair in _rows(path, part, line_records.unescape)]
        data: MetricData | SavedRows = MetricData([right for _, right in pairs], [left for left, _ in pairs])
    else:
        data = SavedRows(tuple(map(line_records.unescape, columns)), _table(opened, columns), compared[0].items)
    try:
        evaluation: Evaluation = getattr(import_module(module), function)(requests, data, options)
    except (KeyError, ValueError, IndexError):
        raise DataError(f"not the columns of {requests[0].metric}", path=paths[0], line=2) from None
    known = _LABELS if group.reads == LINES else map(line_records.escape, evaluation.columns)
    if set(known) != set(columns):
        raise DataError(f"not the columns of {requests[0].metric}", path=paths[0], line=2)
    return evaluation


class _Description(NamedTuple):
    """What all parts of a corpus have in common."""

    metrics: tuple[str, ...]
    options: JsonObject
    items: Items  # of the signature, without those that the examples decide


def _described(description: JsonObject, path: str) -> _Description:
    metrics, options, signature = (description.get(key) for key in ("metrics", "options", "signature"))
    if not isinstance(metrics, list) or not isinstance(options, dict) or not isinstance(signature, list):
        raise DataError(f"not statistics of nlptools evaluate: {_HINT}", path=path, line=1)
    items = [item for item in signature if isinstance(item, list) and len(item) == 2]
    kept = tuple((str(key), str(value)) for key, value in items if key not in _OF_DATA)
    return _Description(tuple(map(str, metrics)), options, kept)


def _restored(description: _Description, path: str) -> tuple[list[MetricRequest], Evaluate]:
    """The metrics of a description, and their options. Raises DataError for unknown ones."""
    known = {field.name: field.default for field in fields(Evaluate) if field.name not in _OTHER}
    try:
        settings: dict[str, Any] = {"metric": description.metrics}
        for name, value in description.options.items():
            if not isinstance(value, bool if isinstance(known[name], bool) else str | float | list):
                raise ValueError(f"{name} {value!r}")
            settings[name] = tuple(map(str, value)) if isinstance(value, list) else value
        options, groups = Evaluate(**settings), parse(description.metrics)
        check_written(groups, options)
        check_taken(groups, options)
    except (KeyError, TypeError, ValueError, UsageError) as error:
        raise DataError(f"statistics of no metric that is known here: {error}", path=path, line=1) from None
    return groups[0], options


def _rows(path: str, part: OpenedStatistics, kind: Callable[[str], T]) -> Iterator[list[T]]:
    """The fields of each row, made by `kind`. Raises DataError for another number of fields, or what `kind` refuses."""
    for block in part.blocks:
        for number, line in enumerate(block.lines, block.start):
            try:
                row = [kind(field) for field in line.split("\t")]
            except ValueError:
                row = []
            if len(row) != len(part.columns):
                message = f"expected {len(part.columns)} {'numbers from 0' if kind is _number else 'labels'}, separated by tabs"
                raise DataError(message, path=path, line=number)
            yield row


def _table(opened: Mapping[str, OpenedStatistics], columns: Sequence[str]) -> Table:
    """The rows of all files, with 0 where a file lacks a column: (N, C). Raises DataError if there are none."""
    tables = []
    for path, part in opened.items():
        rows = list(_rows(path, part, _number))
        table = np.zeros((len(rows), len(columns)))
        table[:, [columns.index(name) for name in part.columns]] = np.array(rows).reshape(len(rows), len(part.columns))
        tables.append(table)
    merged = np.concatenate(tables)
    if not len(merged):
        raise DataError("no rows", path=next(iter(opened)))
    return merged


def _number(text: str) -> float:
    """A number from 0. Raises ValueError; Python also reads 1_000 and spaces as numbers."""
    value = float(text)
    if not 0 <= value < 2**53 or "_" in text or " " in text:
        raise ValueError(text)
    return value
