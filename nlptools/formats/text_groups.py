"""Files of texts that are similar or not: the task similarity.

    pairs       two texts that belong together: a question and its answer, two paraphrases
    scored      two texts and a number, higher for more similar ones: STS, SICK
    negatives   two texts that belong together, and further ones that do not belong to the first: triplets, hard negatives
A header, or the keys of an object, name the texts: see `_PAIRS`, and every name that begins with `negative`; in JSON, negatives
may be a list. A table without header has the texts in this order; of three fields in its first line, the third is the score
if it is a number. Empty negatives are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nlptools import messages
from nlptools.configs.tasks.table import GLUE
from nlptools.errors import UsageError, display, shown
from nlptools.formats import records, values
from nlptools.formats.examples import TextGroup
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import InputLines, column_numbers, delimiter_hint, header_names, joined, joined_names
from nlptools.formats.reading_options import Options
from nlptools.formats.tables import SCORES, TEXTS, first_of
from nlptools.json_types import Json

_FIRST = ("anchor", "query", "question")
_SECOND = ("positive", "answer", "passage", "document", "context")
_PAIRS = (*((first, second) for first in _FIRST for second in _SECOND), *TEXTS[2])
_NEGATIVE = "negative"


def read_groups(path: str, options: Options, errors: str = "strict") -> Iterator[TextGroup]:
    """The examples of a file.

    Raises:
        DataError: a line without two texts, or a score that is not a finite number; with file, line and hint. And the errors
            of `records.objects` and `records.rows`.
        UsageError: a layout that the task does not have, or a column that the file does not have.
    """
    lines = InputLines(path, errors)
    layout = layout_of("similarity", path, options.layout, options.delimiter)
    if layout == "table" and options.layout == "auto" and _is_object(lines.first() or ""):
        layout = "jsonl"
    if layout in records.OBJECTS:
        for number, value in records.objects(lines, layout):
            yield _of_object(lines, number, value, options)
    else:
        yield from _of_table(lines, records.delimiter_of(layout, options.delimiter), options)


def _is_object(first: str) -> bool:
    """Whether a first line is a JSON object with the keys of two texts."""
    try:
        value = json.loads(first) if first.startswith("{") else None
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and _pair(value) is not None


def _pair(names: Sequence[str] | Mapping[str, Json]) -> tuple[str, str] | None:
    """The names of the two texts, None if there are none."""
    return next(((first, second) for first, second in _PAIRS if first in names and second in names), None)


# -- objects ----------------------------------------------------------------------------------------------------------


def _of_object(lines: InputLines, number: int, value: Mapping[str, Json], options: Options) -> TextGroup:
    names: Sequence[str] = _given(options) or _pair(value) or ()
    if len(names) < 2:
        known = ", ".join(f"{first} and {second}" for first, second in (_PAIRS[0], _PAIRS[6], TEXTS[2][0]))
        message = f"no texts: expected keys such as {known}; found {', '.join(value)}"
        raise lines.refuse(number, message, "--text-column names them, once for each text")
    texts = [joined(_text(lines, number, value, key) for key in joined_names(name, value)) for name in names]
    if not options.text_column:
        for key in value:
            texts += _negatives(lines, number, value, key) if key.startswith(_NEGATIVE) else []
    key = options.label_column or next((key for key in SCORES if key in value), "")
    if options.label_column and key not in value:
        raise lines.refuse(number, f"no score: no key {shown(key)}", "--label-column names the score")
    return _group(lines, number, texts, values.text(value[key]) if key else None)


def _text(lines: InputLines, number: int, value: Mapping[str, Json], key: str) -> str:
    text = value.get(key)
    if not isinstance(text, str):
        raise lines.refuse(
            number, f"{key!r} is {shown(values.text(text))}, expected text", "--text-column names another key"
        )
    return text


def _negatives(lines: InputLines, number: int, value: Mapping[str, Json], key: str) -> list[str]:
    several = value[key] if isinstance(value[key], list) else [value[key]]
    assert isinstance(several, list)
    texts = [each for each in several if isinstance(each, str)]
    if len(texts) < sum(each is not None for each in several):
        raise lines.refuse(number, f"{key!r}: expected a text or a list of texts")
    return texts


# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Places:
    """The columns of a table, counted from 0: the columns of each text, and the column of the score."""

    texts: tuple[tuple[int, ...], ...]
    score: int | None
    header: bool


def _of_table(lines: InputLines, delimiter: str, options: Options) -> Iterator[TextGroup]:
    rows = records.rows(lines, delimiter)
    first = next(rows, None)
    if first is None:
        return
    places, width, blank = _columns(lines, first[1], options, delimiter), len(first[1]), 0
    if not places.header:
        yield _of_row(lines, first[0], first[1], places, delimiter)
    for number, fields in rows:
        if fields == [""]:
            blank += 1
        elif len(fields) > width:
            raise lines.refuse(
                number, f"{len(fields)} columns, the first line has {width}", "a text cannot contain a tab"
            )
        else:
            lines.note_skipped(blank)
            blank = 0
            yield _of_row(lines, number, fields, places, delimiter)


def _of_row(lines: InputLines, number: int, fields: Sequence[str], places: _Places, delimiter: str) -> TextGroup:
    needed = {*places.texts[0], *places.texts[1], *([] if places.score is None else [places.score])}
    if len(fields) <= max(needed):
        hint = delimiter_hint(fields, delimiter) or "separate fields by single tabs"
        raise lines.refuse(number, f"{messages.counted(len(fields), 'column')}, expected {max(needed) + 1}", hint)
    texts = [joined(fields[i] for i in group if i < len(fields)) for group in places.texts]
    return _group(lines, number, texts, None if places.score is None else fields[places.score])


def _columns(lines: InputLines, fields: Sequence[str], options: Options, delimiter: str) -> _Places:
    lowered, width = [name.strip().lower() for name in fields], len(fields)
    given, pair = _given(options), _pair(lowered)
    columns = (*given, options.label_column or "")
    named = {name.lower() for column in columns for name in joined_names(column, lowered) if not values.is_number(name)}
    header = fields if options.header or pair or named & set(lowered) else []
    if header:
        header_names(header, lines.path)
    texts: tuple[tuple[int, ...], ...]
    score = first_of(lowered, SCORES) if header else None
    if options.label_column is not None:
        (score,) = column_numbers(options.label_column, header, width, lines.path)
    elif not header and not given and width == 3 and values.is_number(fields[2]):
        score = 2
    if given:
        texts = tuple(column_numbers(column, header, width, lines.path) for column in given)
    elif header and pair:
        negatives = (i for i, name in enumerate(lowered) if name.startswith(_NEGATIVE))
        texts = tuple((place,) for place in (*map(lowered.index, pair), *negatives))
    else:
        texts = tuple((place,) for place in range(width) if place != score)
    if len(texts) < 2:
        hint = delimiter_hint(fields, delimiter) or "--text-column names the texts, once for each"
        raise lines.refuse(1, f"{messages.counted(width, 'column')}, expected at least two texts", hint)
    if header:
        of_texts = ", ".join(" + ".join(shown(header[i]) for i in group) for group in texts)
        of_score = "" if score is None else f", score {shown(header[score])}"
        messages.note(f"{display(lines.path)}: the first line is a header: texts {of_texts}{of_score}")
    return _Places(texts, score, bool(header))


def _given(options: Options) -> tuple[str, ...]:
    """The columns of the texts that the options name. Raises UsageError."""
    if options.layout.startswith(GLUE):
        raise UsageError(f"task similarity has no layout {options.layout!r}")
    names = options.text_column
    if len(names) == 1:
        names = tuple(name.strip() for name in names[0].split(","))
        if len(names) < 2:
            raise UsageError("--text-column: expected at least two texts")
    return names


def _group(lines: InputLines, number: int, texts: Sequence[str], score: str | None) -> TextGroup:
    """The example of a line. Raises DataError."""
    if score is not None and not values.is_number(score):
        hint = "--label-column names the score; texts alone need none"
        raise lines.refuse(number, f"expected a finite number, got {shown(score)}", hint)
    anchor, other, *negatives = texts
    if score is not None and negatives:
        raise lines.refuse(number, "a score and more than two texts", "--text-column names the two texts")
    return TextGroup(
        (anchor, other, *filter(None, negatives)), None if score is None else float(score), lines.place(number)
    )
