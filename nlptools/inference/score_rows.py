"""The lines that `nlptools score` writes, from scores: columns separated by tabs, or JSON objects."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from nlptools.configs.scoring import Score
from nlptools.files.line_records import escape
from nlptools.inference.line_score import LineScore, Total
from nlptools.inference.words import WordScore

if TYPE_CHECKING:
    from nlptools.formats.stimuli import Stimuli


def total_lines(totals: Sequence[Total], columns: Sequence[str], settings: Score) -> Iterator[str]:
    """A line for each text; `columns` names the numbers of a total."""
    return (
        (_object(dict(zip(columns, total, strict=True))) for total in totals) if settings.json else map(_total, totals)
    )


def token_lines(scores: Sequence[LineScore], settings: Score) -> Iterator[str]:
    """A JSON object for each text, or a line for each token and an empty line after each text."""
    if settings.json:
        yield from (_object({"token": score.tokens, "log_probability": score.logprobs}) for score in scores)
        return
    for row in scores:
        for token, value in zip(row.tokens, row.logprobs, strict=True):
            yield f"{escape(token)}\t{value:.4f}"
        yield ""


def word_lines(scores: Sequence[WordScore], settings: Score) -> Iterator[str]:
    """A JSON object for each text, or a line for each word and an empty line after each text."""
    if settings.json:
        yield from (_object(_columns(score, settings)) for score in scores)
        return
    for score in scores:
        for values in zip(*_columns(score, settings).values(), strict=True):
            yield "\t".join([escape(str(values[0])), *map(_cell, values[1:])])
        yield ""


def total_table(stimuli: Stimuli, totals: Sequence[Total], columns: Sequence[str]) -> Iterator[str]:
    """The records of a table with their totals; first the names of the columns if the table has names."""
    if stimuli.first and stimuli.names:
        yield "\t".join([*stimuli.names, *columns])
    for fields, total in zip(stimuli.rows, totals, strict=True):
        yield "\t".join([*fields, _total(total)])


def word_table(stimuli: Stimuli, scores: Sequence[WordScore], settings: Score) -> Iterator[str]:
    """A line for each word: the columns of its record except the text, its number, and its scores; first the names of the
    columns if the table has names.
    """
    if "unknown" not in settings.measures:
        settings = replace(settings, measures=(*settings.measures, "unknown"))
    if stimuli.first and stimuli.names:
        yield "\t".join([*stimuli.other(stimuli.names), "position", "word", *settings.measures])
    for fields, score in zip(stimuli.rows, scores, strict=True):
        kept = stimuli.other(fields)
        for number, (word, *columns) in enumerate(zip(*_columns(score, settings).values(), strict=True), 1):
            yield "\t".join([*kept, str(number), escape(str(word)), *map(_cell, columns)])


def _total(values: Total) -> str:
    return "\t".join(map(_cell, values))


def _cell(value: object) -> str:
    return "" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


def _columns(score: WordScore, settings: Score) -> dict[str, list[object]]:
    """The words of a line and their columns, by name."""
    unit = settings.unit
    columns: dict[str, list[object]] = {
        "surprisal": [value / unit for value in score.surprisals],
        "rank": [*score.ranks],
        "entropy": [None if value is None else value / unit for value in score.entropies],
        "tokens": [*score.tokens],
        "unknown": [int(unknown) for unknown in score.unknown],
    }
    return {"word": [*score.words], **{name: columns[name] for name in settings.measures}}


def _object(values: Mapping[str, object]) -> str:
    """A JSON object in one line; numbers have 6 decimals. JSON has no infinity: infinite numbers are null."""
    return json.dumps({name: _plain(value) for name, value in values.items()}, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
