"""The values of metrics as lines: TSV, JSON, or what the scripts that defined a metric print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nlptools import messages
from nlptools.configs.evaluate import Report
from nlptools.files import line_records
from nlptools.metrics.classification import confusion_lines
from nlptools.metrics.measures import Measures


@dataclass(frozen=True)
class Value:
    """One number, how it was made and of what.

    Attributes:
        interval: mean and half the width of the 95% interval, if resamples were drawn.
        details: what else was found; only with the first value of those that were computed together.
    """

    name: str
    value: float
    count: int
    unit: str
    signature: str
    interval: tuple[float, float] | None
    details: dict[str, Any] | None


def values(measures: Sequence[Measures], resamples: int = 0, seed: int = 12345) -> list[Value]:
    """All values of `measures`, in order; with intervals if there are any resamples."""
    found = []
    for made in measures:
        drawn = made.intervals(resamples, seed) if resamples else {}
        signature = made.signed(**({"bs": str(resamples), "seed": str(seed)} if resamples else {}))
        for i, (name, value) in enumerate(made.values().items()):
            details = None if i else made.details
            found.append(Value(name, value, made.count, made.unit, signature, drawn.get(name), details))
    return found


def lines(found: Sequence[Value], report: Report) -> list[str]:
    """Each value on a line, and the confusion matrix if it is asked for."""
    if report.format == "json":
        return [json.dumps(_record(value, report), ensure_ascii=False) for value in found]
    rows = []
    for value in found:
        told, *interval = (number(part, report.width) for part in (value.value, *(value.interval or ())))
        made = [value.name, told, str(value.count), value.unit, value.signature]
        rows.append("\t".join([*([told] if report.score_only else map(line_records.escape, made)), *interval]))
    return [*rows, *_matrices(found)] if report.confusion else rows


def _matrices(found: Sequence[Value]) -> list[str]:
    """The confusion matrices of `found`, an empty line before each; equal ones once."""
    matrices = dict.fromkeys(tuple(confusion_lines(value.details)) for value in found if value.details)
    rows = [row for matrix in matrices if matrix for row in ("", *matrix)]
    if not rows:
        messages.warn("there is no confusion matrix: numbers have none, and very many labels too large a one")
    return rows


def official(measures: Measures) -> list[str]:
    """What conlleval prints for entities, and for SQuAD the script of its version."""
    if measures.unit == "questions":
        from nlptools.metrics.squad import official as squad_official

        names = tuple(name.partition(":")[2] for name in measures.names)
        found = squad_official(replace(measures, names=names))
        return json.dumps(found, indent=None if "exact_match" in found else 2).split("\n")
    from nlptools.metrics.spans import conlleval_lines

    return conlleval_lines(measures)


def number(value: float, width: int) -> str:
    """`value` with `width` decimals; nothing is -0."""
    return f"{round(value, width) + 0.0:.{width}f}"


def _record(value: Value, report: Report) -> dict[str, Any]:
    record: dict[str, Any] = {"name": value.name, "value": value.value, "count": value.count, "unit": value.unit}
    record["signature"] = value.signature
    if value.interval is not None:
        mean, half = value.interval
        record["interval"] = {"mean": mean, "half_width": half, "resamples": report.confidence, "seed": report.seed}
    if value.details is not None:
        record["details"] = value.details
    return record
