"""The values of metrics as lines: TSV, JSON, or a report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from nlptools import messages
from nlptools.configs.evaluate import EvaluationReport
from nlptools.files import line_records
from nlptools.metrics import label_tables
from nlptools.metrics.metric import Evaluation
from nlptools.metrics.significance import SystemScore, results


def lines(evaluations: Sequence[Evaluation], report: EvaluationReport) -> list[str]:
    """A line for each value, and the confusion matrices if they are requested."""
    rows = []
    for evaluation in evaluations:
        signature = evaluation.signature(**report.resampling)
        for i, result in enumerate(results(evaluation, report.confidence, report.seed)):
            row = (
                _record(evaluation, result, signature, report, bool(i))
                if report.to == "jsonl"
                else (_fields(evaluation, result, signature, report))
            )
            rows.append(row)
    return [*rows, *_matrices(evaluations)] if report.confusion and report.to == "text" else rows


def _fields(evaluation: Evaluation, result: SystemScore, signature: str, report: EvaluationReport) -> str:
    """Columns: the group, if any; name, value, number of examples, unit, signature; mean and half width of the interval,
    if any.
    """
    value = number(result.value, report.width)
    group = [evaluation.group] if evaluation.group else []
    fields = [result.name, value, str(evaluation.count), evaluation.unit, signature]
    interval = [number(part, report.width) for part in (result.mean, result.ci) if part is not None]
    return "\t".join([*group, *([value] if report.score_only else map(line_records.escape, fields)), *interval])


def _record(
    evaluation: Evaluation, result: SystemScore, signature: str, report: EvaluationReport, follows: bool
) -> str:
    """A JSON object; the details of a metric are in the object of its first value."""
    record: dict[str, object] = {"length": evaluation.group} if evaluation.group else {}
    record |= {"name": result.name, "value": result.value, "count": evaluation.count}
    record |= {"unit": evaluation.unit, "signature": signature}
    if result.mean is not None:
        interval = {"mean": result.mean, "half_width": result.ci}
        record["interval"] = {**interval, "resamples": report.confidence, "seed": report.seed}
    if not follows:
        record["details"] = evaluation.details
    return json.dumps(record, ensure_ascii=False)


def _matrices(evaluations: Sequence[Evaluation]) -> list[str]:
    """The confusion matrices, an empty line before each; equal ones once."""
    matrices = dict.fromkeys(tuple(label_tables.confusion_lines(evaluation.details)) for evaluation in evaluations)
    rows = [row for matrix in matrices if matrix for row in ("", *matrix)]
    if not rows:
        messages.warn("there is no confusion matrix: numbers have none, and very many labels too large a one")
    return rows


def report_lines(evaluation: Evaluation, width: int) -> list[str]:
    """What SQuAD's or conlleval's own script prints, or a table with a row for each label or type of entity."""
    if evaluation.unit == "questions":
        from nlptools.metrics.squad import official

        names = tuple(name.partition(":")[2] for name in evaluation.names)
        values = official(replace(evaluation, names=names))
        return json.dumps(values, indent=None if "exact_match" in values else 2).split("\n")
    if ("scheme", "conlleval") in evaluation.items:
        from nlptools.metrics.spans import conlleval_lines

        return conlleval_lines(evaluation)
    return label_tables.report(evaluation, width)


def number(value: float, width: int) -> str:
    """`value` with `width` decimals; never -0."""
    return f"{round(value, width) + 0.0:.{width}f}"
