"""Tables of several models, as `nlptools score` writes them: a header, and columns between tabs."""

from __future__ import annotations

from collections.abc import Iterator

from nlptools.configs.scoring import Score
from nlptools.files.line_records import escape
from nlptools.inference.choices import Accuracy, ChoiceScorer
from nlptools.json_types import JsonObject

_TOTALS = ("tokens", "log_probability", "perplexity", "word_perplexity", "byte_perplexity", "bits_per_byte")


def perplexity_header() -> str:
    """The names of the columns of `perplexity_row`."""
    return "\t".join(["model", *_TOTALS])


def perplexity_row(model: str, result: JsonObject) -> str:
    """The line of a model, given what `perplexity` of it returned."""
    return "\t".join([escape(model), *(_cell(result[name]) for name in _TOTALS)])


def accuracy_header(settings: Score) -> str:
    """The names of the columns of `accuracy_rows`."""
    by = [] if settings.by is None else [escape(settings.by)]
    return "\t".join(["model", *by, "records", "answered", "ties", *_ways(settings)])


def accuracy_rows(model: str, scorer: ChoiceScorer) -> Iterator[str]:
    """The line of all records, and with `Score.by` one for each value of the column; ties are those by sum."""
    settings = scorer.settings
    groups = {} if settings.by is None else scorer.by
    yield _row([model, *([] if settings.by is None else ["(all)"])], scorer.accuracy, settings)
    for value, accuracy in groups.items():
        yield _row([model, value], accuracy, settings)


def _row(names: list[str], accuracy: Accuracy, settings: Score) -> str:
    counts = [str(accuracy.records), str(accuracy.answered), str(accuracy.ties.get("sum", 0))]
    return "\t".join([*map(escape, names), *counts, *(_cell(accuracy.values.get(way, "")) for way in _ways(settings))])


def _ways(settings: Score) -> list[str]:
    return ["sum", "token", "byte", "character", *([] if settings.unconditional is None else ["unconditional"])]


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
