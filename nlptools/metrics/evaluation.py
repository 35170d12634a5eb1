"""Any metric of predictions by its name: from files or from memory to `Measures`.

What each metric is stands in the module that computes it; which names there are, and what their files hold, in
`configs/evaluate.py`. Metrics are imported when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nlptools import messages
from nlptools.configs.evaluate import AVERAGED, AVERAGES, READS, Asked, Evaluate, Source, check_taken, parse
from nlptools.errors import DataError, UsageError, display
from nlptools.files import line_records, streams
from nlptools.metrics.examples import Headed, Paths
from nlptools.metrics.measures import Measures
from nlptools.metrics.resampling import Values, Weights

if TYPE_CHECKING:
    from nlptools.formats.conll import Tags
    from nlptools.metrics.translation.metric import TranslationMetric


class Data(NamedTuple):
    """Predictions and what they are compared with; for texts, `references` is a list with one list per reference."""

    predictions: Any
    references: Any
    paths: Paths = (None, None)  # names of the files of references and predictions, for messages


def evaluate(metric: str | Sequence[str], predictions: Any, references: Any = None, **options: Any) -> Measures:
    """A metric of `predictions`, by the name that `nlptools evaluate` has for it.

    `.values()` of the result are the numbers by name, `.intervals()` their 95% intervals, `.signed()` says how they
    were made, `.details` holds what else there is, such as the confusion matrix.

    Args:
        metric: its name, such as `accuracy`, `sts-b`, `entity-f1`, `squad2`, `rougeL` or `bleu`; `entity-f1:f1` is
            one value of several. A list of names gives the values of all, if they are computed together: metrics of
            labels, of numbers, or ROUGE.
        predictions: labels or numbers; sentences of tags; id -> answer; texts; pairs (log-probability, tokens).
        references: in the same form, in the same order; for SQuAD a list of `squad.Question`; for texts a list with
            one list per reference; for perplexity, nothing.
        options: `average`, `positive`, `labels`, `scheme`, `raw`, `outside`, `threshold`, `stem`, `tokenize`,
            `log_base`, as the command has them; `null_odds` is id -> number.

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
    kind = groups[0][0].kind
    if references is None and kind != "perplexity":
        raise UsageError(f"{names[0]} compares predictions with references: there are none")
    if isinstance(predictions, str):
        raise UsageError("expected predictions as a list, not as one string")
    return _MAKERS[kind](groups[0], _plain(kind, Data(predictions, references)), settings)


def evaluate_files(
    groups: Sequence[Sequence[Asked]], settings: Evaluate, source: Source, predictions: str, errors: str = "strict"
) -> list[Measures]:
    """The metrics of each of `groups` (`parse` makes them) for files (`-`: standard input).

    Raises:
        DataError: unequal numbers of examples, none, or one that the metric cannot read; names file and line.
        InputError, StreamError: see `streams.blocks`.
        UsageError: an option that does not suit the data.
    """
    extra = [settings.null_odds] if settings.null_odds is not None else []
    streams.check_inputs([*source.reference, predictions, *extra])
    kind = groups[0][0].kind
    if kind in ("entities", "tags"):
        from nlptools.formats.conll import read_tags

        paths = [*source.reference, predictions]
        gold, predicted = read_tags(paths, skip_docstart=settings.skip_docstart, errors=errors)
        data = Data(predicted, gold)
    elif kind == "squad":
        from nlptools.metrics.squad import read_no_answer, read_predictions, read_questions

        data = Data(read_predictions(predictions), read_questions(source.reference[0]))
        if settings.null_odds is not None:
            settings = replace(settings, null_odds=read_no_answer(settings.null_odds))  # type: ignore[arg-type]
    elif kind == "perplexity":
        data = Data(list(streams.lines(predictions, errors)), None, (None, predictions))
    else:
        data = _read_lines(source, predictions, errors)
        if READS[kind] == READS["labels"]:
            data = data._replace(references=data.references[0])
    return [_MAKERS[group[0].kind](group, data, settings) for group in groups]


# -- reading ----------------------------------------------------------------------------------------------------------


def _read_lines(source: Source, predictions: str, errors: str) -> Data:
    """The lines of PREDICTIONS and of each GOLD, or one of their columns."""
    right = _read_column(predictions, source.column, source.header, errors)
    left = [_read_column(path, source.gold_column, source.gold_header, errors) for path in source.reference]
    if any(len(lines) != len(right) for lines in left):
        counts = [*zip(source.reference, map(len, left)), (predictions, len(right))]
        told = ", ".join(f"{display(path)} has {count}" for path, count in counts)
        raise DataError(f"unequal numbers of lines{' (without header)' * (source.header | source.gold_header)}: {told}")
    if not right:
        raise DataError("no lines: the input is empty", path=predictions)
    if source.escaped:
        right, left = [*map(line_records.unescape, right)], [[*map(line_records.unescape, lines)] for lines in left]
    gold = source.reference[0]
    return Data(
        right,
        left,
        (Headed(gold) if source.gold_header else gold, Headed(predictions) if source.header else predictions),
    )


def _read_column(path: str, column: int, header: bool, errors: str) -> list[str]:
    """The lines of a file without its header, or their fields in `column` (from 1).

    Raises:
        DataError: a line has fewer columns.
    """
    lines = list(streams.lines(path, errors))[int(header) :]
    if not column:
        return lines
    rows = [line.split("\t", column) for line in lines]
    for number, row in enumerate(rows, 1 + header):
        if len(row) < column:
            told = f"{len(row)} column{'s' * (len(row) != 1)} separated by tabs, expected at least {column}"
            raise DataError(told, path=path, line=number)
    return [row[column - 1] for row in rows]


def _plain(kind: str, data: Data) -> Data:
    """Data from memory in the form that files have: labels and numbers as text."""
    if kind == "perplexity":
        return data._replace(
            predictions=[x if isinstance(x, str) else "\t".join(map(str, x)) for x in data.predictions]
        )
    if READS[kind] != READS["labels"]:
        return data
    predictions, references = ([x if isinstance(x, str) else str(x) for x in side] for side in data[:2])
    return Data(predictions, references)


# -- making, a function for each kind ---------------------------------------------------------------------------------


def _labels(asked: Sequence[Asked], data: Data, settings: Evaluate) -> Measures:
    from nlptools.metrics import classification

    average = settings.average or "binary"
    if average not in AVERAGES:
        raise UsageError(f"no such average: {average!r}, expected one of {', '.join(AVERAGES)}")
    wanted: list[tuple[str, str]] = []  # the metric of the module, and the value of it or how that begins
    for metric in asked:
        averaged = metric.name in AVERAGED and average != "binary"
        if metric.value:
            wanted.append((classification.PER_LABEL, f"{metric.name}:{metric.value}"))
        elif averaged and average == "none":
            wanted.append((classification.PER_LABEL, f"{metric.name}:"))
        else:
            name = f"{metric.name}_{average}" if averaged else metric.name
            wanted.append((name, name))
    made = classification.measures(
        data.references,
        data.predictions,
        [name for name, _ in wanted],
        labels=settings.labels or None,
        positive=settings.positive,
        paths=data.paths,
    )
    places = {name: place for place, name in enumerate(made.names)}
    chosen: list[str] = []
    for _, value in wanted:
        chosen += [name for name in places if name.startswith(value)] if value.endswith(":") else [value]
    return _picked(made, chosen, chosen)


def _numbers(asked: Sequence[Asked], data: Data, settings: Evaluate) -> Measures:
    from nlptools.metrics import correlation

    return correlation.measures(data.references, data.predictions, [metric.name for metric in asked], paths=data.paths)


def _glue(asked: Sequence[Asked], data: Data, settings: Evaluate) -> Measures:
    from nlptools.metrics import glue

    return _titled(asked, glue.measures(asked[0].name, data.references, data.predictions, paths=data.paths))


def _entities(asked: Sequence[Asked], data: Data, settings: Evaluate) -> Measures:
    from nlptools.metrics import spans

    average = settings.average or "micro"
    if average == "binary":
        raise UsageError("--average binary is for labels: entities have types; expected micro, macro, weighted or none")
    by_type = average == "none" or any(":" in metric.value for metric in asked)
    made = spans.entities(
        data.references,
        data.predictions,
        settings.scheme,
        averages=("micro",) if average == "none" else (average,),
        by_type=by_type,
        raw=settings.raw,
        outside=settings.outside,
    )
    docstart = (("docstart", "skipped"),) * settings.skip_docstart
    return _titled(asked, replace(made, signature=(*made.signature, *docstart)))


def _tags(asked: Sequence[Asked], data: Data, settings: Evaluate) -> Measures:
    from nlptools.formats.conll import Tags
    from nlptools.metrics.classification import tagging_accuracy

    sides = []
    for tags in (data.references, data.predictions):
        if isinstance(tags, Tags):
            _check_declared(tags, settings.labels)
            tags = _sentences(tags)
        sides.append(tags)
    made = tagging_accuracy(sides[0], sides[1], labels=settings.labels or None)
    docstart = (("docstart", "skipped"),) * settings.skip_docstart
    return replace(_titled(asked, made), names=(asked[0].name,), signature=(*made.signature, *docstart))


def _squad(asked: Sequence[Asked], data: Data, settings: Evaluate) -> Measures:
    from nlptools.metrics.squad import squad

    version, odds = ("2.0", settings.null_odds) if asked[0].name == "squad2" else ("1.1", None)
    made = squad(
        data.references,
        data.predictions,
        version,
        no_answer=odds,  # type: ignore[arg-type]
        threshold=settings.threshold,
    )
    details = made.details
    if details["missing"]:
        told = f"{details['missing']} of {details['total']} questions have no prediction and count 0"
        messages.warn(f"{told}: {', '.join(details['missing_ids'][:3])}{' ...' * (details['missing'] > 3)}")
    if details["unknown"]:
        told = messages.counted(details["unknown"], "prediction is", "predictions are")
        messages.warn(f"{told} of no question, and not counted")
    best = tuple((key, f"{details[key]:g}") for key in details if key.endswith("_thresh"))
    return _titled(asked, replace(made, signature=(*made.signature, *best)))


def _rouge(asked: Sequence[Asked], data: Data, settings: Evaluate) -> Measures:
    from nlptools.metrics.rouge import rouge

    kinds = [f"{metric.name}:{metric.value}".removesuffix(":") for metric in asked]
    return rouge(data.references, data.predictions, kinds, stem=settings.stem, tokenize=settings.tokenize)


def _translation(asked: Sequence[Asked], data: Data, settings: Evaluate) -> Measures:
    from nlptools.metrics.translation.corpus_scores import metric_class

    metric: TranslationMetric = metric_class(asked[0].name)()
    if isinstance(data.references, str) or any(isinstance(lines, str) for lines in data.references):
        raise UsageError("expected references as a list with one list of texts per reference")
    sides = [[text and text.rstrip() for text in lines] for lines in (data.predictions, *data.references)]
    counts = metric.statistics(sides[0], sides[1:])
    if not len(counts):
        raise DataError("no texts: predictions and references are empty")
    table = counts.astype(np.float64)  # sums of counts stay exact
    score = metric.score(counts.sum(axis=0)).score

    def compute(weights: Weights) -> Values:
        values = metric.scores(weights.astype(np.float64) @ table)
        values[(weights == 1).all(axis=1)] = score  # to the last bit
        return values[:, None]

    signature = (("nrefs", str(len(data.references))), *metric.signature())
    return Measures((asked[0].name,), len(table), "segments", compute, signature)


def _perplexity(asked: Sequence[Asked], data: Data, settings: Evaluate) -> Measures:
    from nlptools.metrics import perplexity

    base = {} if settings.log_base is None else {"base": settings.log_base}
    return _titled(asked, perplexity.measures(data.predictions, path=data.paths[1], **base))


_MAKERS: dict[str, Callable[[Sequence[Asked], Data, Evaluate], Measures]] = {
    "labels": _labels,
    "numbers": _numbers,
    "glue": _glue,
    "entities": _entities,
    "tags": _tags,
    "squad": _squad,
    "rouge": _rouge,
    "translation": _translation,
    "perplexity": _perplexity,
}


# -- values and tags --------------------------------------------------------------------------------------------------


def _titled(asked: Sequence[Asked], made: Measures) -> Measures:
    """The values asked for, called METRIC:VALUE; a value that is called as its metric, or is the only one, METRIC."""
    metric = asked[0].name
    chosen = [name for one in asked for name in ([one.value] if one.value else made.names)]
    titles = [metric if name == metric or len(made.names) == 1 else f"{metric}:{name}" for name in chosen]
    return _picked(made, chosen, titles)


def _picked(made: Measures, chosen: Sequence[str], titles: Sequence[str]) -> Measures:
    """Some of the values, each once, under new names. Raises UsageError when there is no such value."""
    names = dict(zip(chosen, titles))
    missing = [name for name in names if name not in made.names]
    if missing:
        few = ", ".join(made.names[:12]) + " ..." * (len(made.names) > 12)
        raise UsageError(f"no such value: {', '.join(missing)}, expected some of {few}")
    places = [made.names.index(name) for name in names]
    return replace(made, names=tuple(names.values()), compute=lambda weights: made.compute(weights)[:, places])


def _sentences(tags: Tags) -> list[list[str]]:
    """The tags of each sentence as text."""
    flat = np.array(tags.names, object)[tags.codes]
    ends = np.cumsum(tags.lengths + 1)
    return [flat[end - length - 1 : end - 1].tolist() for end, length in zip(ends, tags.lengths)]


def _check_declared(tags: Tags, labels: Sequence[str]) -> None:
    """Raises DataError, with file and line, for the first tag that is none of `labels`, if there are any."""
    foreign = [number for number, name in enumerate(tags.names) if number and labels and name not in set(labels)]
    if foreign:
        position = int(np.flatnonzero(np.isin(tags.codes, foreign))[0])
        told = f"label {display(tags.names[tags.codes[position]])!r} is none of those declared: {', '.join(labels)}"
        raise DataError(told, path=tags.path, line=tags.line(*tags.place(position)))
