"""Texts and labels as one JSON object per line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from nlptools import messages
from nlptools.errors import display
from nlptools.files import line_records
from nlptools.formats.examples import TextExample
from nlptools.formats.lines import Lines, shown
from nlptools.formats.reading_options import Options
from nlptools.formats.tables import IDS, LABELS, TEXTS, UNDECIDED, count_of


class JsonLine(str):
    """The one column of an example from a line of JSON."""


def text_keys(task: str, value: Mapping[str, Any], options: Options) -> tuple[str, ...] | None:
    """The keys of the texts, None if there are none."""
    if options.text_column:
        return options.text_column if set(options.text_column) <= value.keys() else None
    return next((names for names in TEXTS[count_of(task)] if set(names) <= value.keys()), None)


def json_lines(task: str, lines: Lines, options: Options) -> Iterator[TextExample]:
    """The examples of a file with one JSON object per line; see `texts.read_texts`. Raises DataError."""
    blank = undecided = 0
    for number, line in lines:
        if not line.strip():  # not an example if only such lines follow
            blank = blank or number
            continue
        if blank:
            raise lines.refuse(blank, "an empty line, expected a JSON object", "remove it")
        value = line_records.parse_json_object(line, lines.path, number)
        keys = text_keys(task, value, options)
        if keys is None:
            expected = [options.text_column] if options.text_column else TEXTS[count_of(task)]
            keys_text = ", or ".join(" and ".join(names) for names in expected)
            raise lines.refuse(
                number, f"no texts: expected the keys {keys_text}, found {', '.join(value)}", "--text-column names them"
            )
        texts = tuple(value[key] for key in keys)
        for key, text in zip(keys, texts):
            if not isinstance(text, str):
                raise lines.refuse(number, f"{key!r} is not text", "--text-column names another key")
        label_key = options.label_column or next((key for key in LABELS[task] if key in value), "label")
        id_key = options.id_column or next((key for key in IDS if key in value), "id")
        id = value.get(id_key)
        raw = value.get(label_key)
        if (label_key, raw) == UNDECIDED:
            if options.labelled:
                undecided += 1
                continue
            raw = None
        label: str | None = None
        labels: tuple[str, ...] = ()
        if options.multi_label:
            labels = _json_labels(raw, label_key, lines, number, options)
        else:
            label = checked_label(task, _json_label(task, raw, label_key, lines, number), lines, number, options)
        name = None if id is None else _plain(id)
        yield TextExample(texts, label, lines.place(number), name, (JsonLine(line),), labels)
    warn_undecided(lines, undecided)


def warn_undecided(lines: Lines, count: int) -> None:
    """Warn of examples that were skipped because the annotators disagreed on the label."""
    if count:
        skipped = messages.counted(count, "example")
        messages.warn(f"{display(lines.path)}: skipped {skipped} without an agreed label ('-')")


def _json_label(task: str, raw: Any, key: str, lines: Lines, number: int) -> str | None:
    if isinstance(raw, list) and len(raw) == 1:
        raw = raw[0]
    if isinstance(raw, (list, dict)):
        raise lines.refuse(number, f"{key!r} is not a single label", "--multi-label takes lists of labels")
    if raw is None or (task != "regress" and raw == -1 and not isinstance(raw, str)):
        return None
    return _plain(raw)


def _json_labels(raw: Any, key: str, lines: Lines, number: int, options: Options) -> tuple[str, ...]:
    if raw is None:
        if options.labelled:
            raise lines.refuse(number, f"no {key!r}", "give an example without classes an empty list")
        return ()
    if isinstance(raw, str):
        return tuple(part.strip() for part in raw.split(options.label_separator) if part.strip())
    return tuple(map(_plain, raw if isinstance(raw, list) else [raw]))


def _plain(value: Any) -> str:
    """A label or an id as text: text unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def checked_label(task: str, label: str | None, lines: Lines, number: int, options: Options) -> str | None:
    """The label, if valid; None if it is missing and labels are optional. Raises DataError."""
    if not label:
        if options.labelled:
            raise lines.refuse(number, "no label", "each line of training and validation data needs one")
        return None
    if task == "regress" and not is_number(label):
        if not options.labelled:
            return None
        raise lines.refuse(
            number, f"expected a finite number, got {shown(label)}", "--label-column names another column"
        )
    return label


def is_number(label: str) -> bool:
    """Whether a label is a finite number, as a decimal."""
    try:
        return math.isfinite(float(label)) and label.isascii() and "_" not in label
    except ValueError:
        return False
