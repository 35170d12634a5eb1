"""Any metric by its name, from files or from data in memory to an `Evaluation`.

The table of metrics is `configs/metrics.py`. The module of a metric is imported when the metric is requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from nlptools.configs.evaluate import Evaluate, EvaluationInput, check_taken, length_limits
from nlptools.configs.metrics import (
    ANSWERS,
    CHAINS,
    GROUPS,
    LINES,
    RANKINGS,
    TAGS,
    TOKENS,
    UNIVERSAL,
    MetricRequest,
    parse,
)
from nlptools.errors import DataError, UsageError, display
from nlptools.files import line_records, streams
from nlptools.files.layout_names import named_layout
from nlptools.formats import records, values
from nlptools.metrics.lengths import by_length
from nlptools.metrics.metric import Evaluation, MetricData
from nlptools.metrics.paired import RecordsFile


def evaluate(metric: str | Sequence[str], predictions: Any, references: Any = None, **options: Any) -> Evaluation:
    """A metric of `predictions`, by the name that `nlptools evaluate` has for it.

    The result has the numbers by name (`.values()`), their 95% intervals (`.intervals()`), how they were computed
    (`.signature()`), and further results such as the confusion matrix (`.details`).

    Args:
        metric: its name, such as `accuracy`, `sts-b`, `entity-f1`, `squad2`, `rougeL` or `bleu`; `entity-f1:f1` is
            one value of several. A list of names gives the values of all, if they are computed together: metrics of
            labels, of numbers, or ROUGE.
        predictions: labels or numbers; sentences of tags; id -> answer; texts; pairs (log-probability, tokens);
            chains of documents, each a list of (first word, last word); query -> document -> score.
        references: in the same form, in the same order; for SQuAD a list of `squad.GoldAnswers`; for texts a list with
            one list per reference; for rankings query -> document -> grade; for perplexity, nothing.
        options: `average`, `positive`, `labels`, `scheme`, `raw`, `outside`, `threshold`, `stem`, `tokenize`,
            `log_base`, as for the command; `null_odds` is id -> number.

    Raises:
        DataError: unequal numbers of examples, none, or one that the metric cannot read.
        UsageError: no such metric or option, or metrics that are not computed together.
    """
    names = [metric] if isinstance(metric, str) else list(metric)
    groups = parse(names)
    if len(groups) > 1:
        raise UsageError(f"{' and '.join(names)} are not computed together: expected one metric")
    known = {field.name for field in fields(Evaluate)} - {"metric", "skip_docstart"}
    unknown = sorted(set(options) - known)
    if unknown:
        raise UsageError(f"no such option: {', '.join(unknown)}, expected some of {', '.join(sorted(known))}")
    settings = Evaluate(**{**options, "metric": tuple(names), "labels": tuple(options.get("labels") or ())})
    check_taken(groups, settings)
    group = GROUPS[groups[0][0].group]
    if references is None and group.references != "none":
        raise UsageError(f"{names[0]} compares predictions with references: there are none")
    if isinstance(predictions, str):
        raise UsageError("expected predictions as a list, not as one string")
    data = MetricData(predictions, references)
    if group.reads == LINES:  # labels and numbers as text, as in files
        data = MetricData(_spelled(predictions, "predictions"), _spelled(references, "references"))
    return _compute(groups[0], data, settings)


@runtime_checkable
class _Scalar(Protocol):
    """A number of numpy or torch."""

    def item(self) -> object:
        """The number of Python."""


def _spelled(side: Iterable[object], name: str) -> list[str]:
    """Values as text. Raises DataError for None, NaN and infinity."""
    spelled = []
    for number, each in enumerate(side, 1):
        value = each.item() if isinstance(each, _Scalar) else each
        if value is None or not values.is_finite(value):
            raise DataError(f"{name}: number {number} is {value}, expected a label or a finite number")
        spelled.append(values.text(value))
    return spelled


def evaluate_files(
    groups: Sequence[Sequence[MetricRequest]],
    options: Evaluate,
    source: EvaluationInput,
    predictions: str,
    errors: str = "strict",
) -> list[Evaluation]:
    """The metrics of each of `groups` (see `configs.metrics.parse`) for files (`-`: standard input).

    With `source.by_length`, a metric has an evaluation for each group of lines, and then one for all.

    Raises:
        DataError: unequal numbers of examples, none, or one that the metric cannot read; names file and line.
        InputError, StreamError: see `streams.blocks`.
        UsageError: an option that does not suit the data.
    """
    extra = [path for path in (options.null_odds, source.by_length) if path is not None]
    streams.check_inputs([*source.reference, predictions, *extra])
    reads = GROUPS[groups[0][0].group].reads
    if reads == TAGS:
        from nlptools.metrics.tags import read_tags

        paths = [*source.reference, predictions]
        gold, predicted = read_tags(paths, skip_docstart=options.skip_docstart, errors=errors)
        data = MetricData(predicted, gold)
    elif reads == CHAINS:
        from nlptools.metrics.coreference import read_files

        data = read_files(source.reference[0], predictions, errors)
    elif reads == UNIVERSAL:
        from nlptools.metrics.universal import needs_trees, read_pair

        trees = needs_trees([request.metric for group in groups for request in group])
        data = read_pair(source.reference[0], predictions, trees, errors)
    elif reads == ANSWERS:
        from nlptools.formats.squad import gold_answers, read_no_answer, read_predictions

        data = MetricData(read_predictions(predictions, errors), list(gold_answers(source.reference[0], errors)))
        if options.null_odds is not None:
            options = replace(options, null_odds=read_no_answer(options.null_odds, errors))  # type: ignore[arg-type]
    elif reads == RANKINGS:
        from nlptools.formats.trec import read_relevance, read_run

        data = MetricData(read_run(predictions, errors), read_relevance(source.reference[0], errors))
    elif reads == TOKENS:
        data = MetricData(list(streams.lines(predictions, errors)), None, (None, predictions))
    else:
        data = _read_lines(source, predictions, errors)
        if reads == LINES:
            data = data._replace(references=data.references[0])
    evaluations = [_compute(group, data, options) for group in groups]
    if source.by_length is None:
        return evaluations
    lengths = [len(line.split()) for line in streams.lines(source.by_length, errors)]
    if len(lengths) != len(data.predictions):
        counts = f"{display(source.by_length)} has {len(lengths)}, {display(predictions)} has {len(data.predictions)}"
        raise DataError(f"unequal numbers of lines: {counts}")
    limits = length_limits(source.length_limits)
    return [part for evaluation in evaluations for part in by_length(evaluation, lengths, limits)]


def _compute(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The metrics of one group, by the function that the table of metrics names."""
    module, function = GROUPS[requests[0].group].compute.split(":")
    evaluation: Evaluation = getattr(import_module(module), function)(requests, data, options)
    return evaluation


# -- reading ----------------------------------------------------------------------------------------------------------


def _read_lines(source: EvaluationInput, predictions: str, errors: str) -> MetricData:
    """The lines of PREDICTIONS and of each GOLD, or one of their columns."""
    named = [bool(name) and not name.isdecimal() for name in (source.column or "", source.gold_column or "")]
    source = replace(source, header=source.header or named[0], gold_header=source.gold_header or named[1])
    right, right_lines = _read_column(predictions, source.column, source.header, errors, source.delimiter)
    read = [
        _read_column(path, source.gold_column, source.gold_header, errors, source.delimiter)
        for path in source.reference
    ]
    left = [lines for lines, _ in read]
    if any(len(lines) != len(right) for lines in left):
        counts = [*zip(source.reference, map(len, left)), (predictions, len(right))]
        listed = ", ".join(f"{display(path)} has {count}" for path, count in counts)
        header = " (without header)" * (source.header | source.gold_header)
        raise DataError(f"unequal numbers of lines{header}: {listed}")
    if not right:
        raise DataError("no lines: the input is empty", path=predictions)
    if source.escaped:
        right, left = [*map(line_records.unescape, right)], [[*map(line_records.unescape, lines)] for lines in left]
    gold = source.reference[0]
    return MetricData(right, left, (RecordsFile(gold, read[0][1]), RecordsFile(predictions, right_lines)))


def _read_column(
    path: str, column: str | None, header: bool, errors: str, delimiter: str | None
) -> tuple[list[str], Sequence[int]]:
    """The lines of a file without its header, or their fields in `column`; and the number of each line. Raises DataError."""
    if column is None and delimiter is None and named_layout(path) not in ("csv", "jsonl", "parquet"):
        lines = list(streams.lines(path, errors))[int(header) :]
        return lines, range(1 + header, len(lines) + 1 + header)
    names = [] if column is None else [column]
    fields: list[str] = []
    numbers: list[int] = []
    for number, (field,) in records.columns_of(path, names, errors, header, delimiter, labels=True):
        fields.append(field)
        numbers.append(number)
    return fields, numbers
