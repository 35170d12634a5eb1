"""The lines that `nlptools score` writes: columns separated by tabs, or JSON objects."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from nlptools.configs.scoring import Score
from nlptools.files.line_records import escape
from nlptools.files.streams import LineBlock
from nlptools.formats.stimuli import Stimuli
from nlptools.inference.line_score import LineScore, Total
from nlptools.inference.uses import Scores
from nlptools.inference.words import WordScore


def rows(model: Scores, block: LineBlock, settings: Score) -> Iterator[str]:
    """The output for the lines of a block."""
    if settings.per == "line":
        return _lines(model, block, settings)
    if settings.per == "token":
        scores = model.score_batch(block.lines, settings)
        return map(_tokens_object, scores) if settings.json else _token_rows(scores)
    words = model.words(block.lines, settings)
    if settings.json:
        return (_object(_columns(score, settings)) for score in words)
    return _word_rows(words, settings)


def _lines(model: Scores, block: LineBlock, settings: Score) -> Iterator[str]:
    totals = model.totals(block.lines, settings)
    return (_object(dict(zip(_TOTAL, total))) for total in totals) if settings.json else map(_total, totals)


def table(model: Scores, stimuli: Stimuli, settings: Score) -> Iterator[str]:
    """The output for records of a table: the record and its score; or with words, a line for each word, after the columns of its
    record but the text, and its number. Names of the columns come first where the table has names.
    """
    if settings.per == "line":
        if stimuli.first and stimuli.names:
            bidirectional = len(model.totals([""], settings)[0]) > 2
            yield "\t".join([*stimuli.names, *_TOTAL[: 4 if bidirectional else 2]])
        for fields, total in zip(stimuli.rows, model.totals(stimuli.texts, settings), strict=True):
            yield "\t".join([*fields, _total(total)])
        return
    if "unknown" not in settings.measures:
        settings = replace(settings, measures=(*settings.measures, "unknown"))
    if stimuli.first and stimuli.names:
        yield "\t".join([*stimuli.other(stimuli.names), "position", "word", *settings.measures])
    for fields, score in zip(stimuli.rows, model.words(stimuli.texts, settings), strict=True):
        kept = stimuli.other(fields)
        for number, (word, *columns) in enumerate(zip(*_columns(score, settings).values(), strict=True), 1):
            yield "\t".join([*kept, str(number), escape(str(word)), *map(_cell, columns)])


_TOTAL = ("log_probability", "tokens", "forward", "backward")  # the last two of bidirectional models only


def _total(values: Total) -> str:
    return "\t".join(map(_cell, values))


def _token_rows(scores: list[LineScore]) -> Iterator[str]:
    for row in scores:
        for token, value in zip(row.tokens, row.logprobs, strict=True):
            yield f"{escape(token)}\t{value:.4f}"
        yield ""


def _word_rows(scores: list[WordScore], settings: Score) -> Iterator[str]:
    for score in scores:
        for values in zip(*_columns(score, settings).values(), strict=True):
            yield "\t".join([escape(str(values[0])), *map(_cell, values[1:])])
        yield ""


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


def _tokens_object(score: LineScore) -> str:
    return _object({"token": score.tokens, "log_probability": score.logprobs})


def _object(values: Mapping[str, object]) -> str:
    """A JSON object in one line; numbers have 6 decimals. JSON has no infinity: infinite numbers are null."""
    return json.dumps({name: _plain(value) for name, value in values.items()}, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    return value
