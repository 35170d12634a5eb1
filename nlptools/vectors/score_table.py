"""Scores of word vectors as text: a table with the models side by side, TSV, JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict

from nlptools.files.line_records import escape
from nlptools.json_types import JsonObject
from nlptools.metrics.tables import pad, width
from nlptools.vectors.evaluation import CORRELATION, EvaluationScore

_GAP = "  "
_Cell = tuple[str, str]  # value, coverage


def table(models: Sequence[Sequence[EvaluationScore]]) -> list[str]:
    """The scores of several models on the same files as lines of a table: a row per score, a column per model.

    Each file is followed by its different signatures: how its scores were computed.
    """
    if not models or not models[0]:
        return []
    heads = _short([scores[0].model for scores in models])
    files = list(dict.fromkeys(score.file for score in models[0]))
    names = dict(zip(files, _short(files), strict=True))
    labels = ["  " + (escape(score.name) or "(no section)") for score in models[0]]
    first = max(map(width, [*labels, *names.values()]))
    cells = [[_cell(score) for score in scores] for scores in models]
    widths = [[max(len(cell[i]) for cell in column) for i in (0, 1)] for column in cells]
    rooms = [max(width(head), sum(both) + len(_GAP)) for head, both in zip(heads, widths, strict=True)]
    lines: list[str] = []
    file = None
    for row, score in enumerate(models[0]):
        if score.file != file:
            file = score.file
            titles = [pad(head, room, ">") for head, room in zip(heads, rooms, strict=True)]
            lines += [*([""] if lines else []), _joined([pad(names[file], first), *titles])]
        values = [
            f"{column[row][0]:>{value}}{_GAP}{column[row][1]:>{known}}"
            for column, (value, known) in zip(cells, widths, strict=True)
        ]
        padded = [pad(value, room, ">") for value, room in zip(values, rooms, strict=True)]
        lines.append(_joined([pad(labels[row], first), *padded]))
        following = models[0][row + 1 : row + 2]
        if not following or following[0].file != file:
            signatures = dict.fromkeys(other.signature for other in models[0] if other.file == file)
            lines += [f"  {text}" for text in signatures]
    return lines


def _cell(score: EvaluationScore) -> _Cell:
    """The value with its interval, and the coverage."""
    percent = score.kind != CORRELATION
    value = "-" if score.value is None else f"{score.value:.2%}" if percent else f"{score.value:.4f}"
    if score.interval is not None:
        value += f" ± {100 * score.interval[1]:.2f}" if percent else f" ± {score.interval[1]:.4f}"
    return value, f"{score.answered}/{score.count}"


def _joined(cells: Sequence[str]) -> str:
    return (_GAP + " ").join(cells).rstrip(" ")


def _short(paths: Sequence[str]) -> list[str]:
    """Names of files, without their folders if they still differ."""
    names = [os.path.basename(path.rstrip("/")) or path for path in paths]
    kept = names if len(set(names)) == len(set(paths)) else list(paths)
    return [escape(name) for name in kept]


# -- for machines -----------------------------------------------------------------------------------------------------


def tsv(scores: Sequence[EvaluationScore]) -> list[str]:
    """A line per score: model, file, name, value, answered, count, unit, signature, then mean and half width of an interval."""
    lines = []
    for score in scores:
        value = "" if score.value is None else f"{score.value:.4f}"
        fields = [score.model, score.file, score.name, value, str(score.answered), str(score.count), score.unit]
        interval = [f"{number:.4f}" for number in score.interval or ()]
        lines.append("\t".join([*map(escape, [*fields, score.signature]), *interval]))
    return lines


def json_lines(scores: Sequence[EvaluationScore]) -> list[str]:
    """A JSON object per score, with unrounded numbers."""
    return [json.dumps(_record(score), ensure_ascii=False) for score in scores]


def _record(score: EvaluationScore) -> JsonObject:
    record = {key: value for key, value in asdict(score).items() if value is not None or key == "value"}
    if score.interval is not None:
        record["interval"] = {"mean": score.interval[0], "half_width": score.interval[1]}
    return record
