"""Texts and labels in objects: lines of JSON, rows of Parquet, pairs of RTE's XML; and labels in any layout."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from nlptools import messages
from nlptools.errors import display, shown
from nlptools.formats import values
from nlptools.formats.examples import Columns, TextExample
from nlptools.formats.lines import InputLines, joined, joined_names
from nlptools.formats.reading_options import Options
from nlptools.formats.tables import IDS, LABELS, NUMBERS, TEXTS, UNDECIDED, counts, known_texts
from nlptools.json_types import Json


def text_keys(task: str, value: Mapping[str, Json], options: Options) -> tuple[str, ...] | None:
    """The keys of the texts, None if there are none."""
    known = [options.text_column] if options.text_column else known_texts(task, options)
    if not options.text_column and options.learned is not None:
        known = [options.learned.texts, *known]
    if len(known[0]) == 1 and 1 not in counts(task, options):  # a task of two texts joins none
        known[0] = tuple(joined_names(known[0][0], value))
    return next((names for names in known if _keys(names, value) <= value.keys()), None)


def _keys(names: Iterable[str], value: Mapping[str, Json]) -> set[str]:
    """The keys of an object for the texts `names`; a text may be joined from several."""
    return {key for name in names for key in joined_names(name, value)}


def object_texts(
    task: str, objects: Iterable[tuple[int, Mapping[str, Json]]], lines: InputLines, options: Options
) -> Iterator[TextExample]:
    """The examples of a file of objects; see `texts.read_texts`. Raises DataError."""
    undecided = 0
    for number, value in objects:
        keys = text_keys(task, value, options)
        if keys is None:
            expected = [options.text_column] if options.text_column else known_texts(task, options)
            keys_text = ", or ".join(" and ".join(names) for names in expected)
            two = counts(task, options) == (1,) and any(set(names) <= value.keys() for names in TEXTS[2])
            hint = "--task pair takes two texts" if two else "--text-column names them"
            raise lines.refuse(number, f"no texts: expected the keys {keys_text}, found {', '.join(value)}", hint)
        texts = tuple(joined(_text(value, key, lines, number) for key in joined_names(name, value)) for name in keys)
        label_key = options.label_column or next((key for key in LABELS[task] if key in value), "label")
        raw = value.get(label_key)
        if (label_key, raw) == UNDECIDED:
            if options.labelled:
                undecided += 1
                continue
            raw = None
        label: str | None = None
        labels: tuple[str, ...] = ()
        if options.multi_label:
            labels = _labels(raw, label_key, lines, number, options)
        else:
            label = checked_label(task, _label(task, raw, label_key, lines, number, options), lines, number, options)
        id = next((value[key] for key in IDS if value.get(key) is not None), None)
        line = json.dumps(value, ensure_ascii=False, default=str)
        name = None if id is None else values.text(id)
        read = Columns(keys, label_key)
        yield TextExample(texts, label, lines.place(number), name, (line,), labels, layout="jsonl", read=read)
    warn_undecided(lines, undecided)


def _text(value: Mapping[str, Json], key: str, lines: InputLines, number: int) -> str:
    text = value[key]
    if not isinstance(text, str):
        raise lines.refuse(number, f"{key!r} is not text", "--text-column names another key")
    return text


def warn_undecided(lines: InputLines, count: int) -> None:
    """Warn of examples that were skipped because the annotators disagreed on the label."""
    if count:
        skipped = messages.counted(count, "example")
        messages.warn(f"{display(lines.path)}: skipped {skipped} without an agreed label ('-')")


def _label(task: str, raw: Json, key: str, lines: InputLines, number: int, options: Options) -> str | None:
    if isinstance(raw, list) and len(raw) == 1:
        raw = raw[0]
    if isinstance(raw, (list, dict)):
        raise lines.refuse(number, f"{key!r} is not a single label", "--multi-label takes lists of labels")
    if raw is None or (task not in NUMBERS and raw == -1):
        return None
    if not options.labelled and not values.is_finite(raw):
        return None
    return _spelled(raw, key, lines, number)


def _labels(raw: Json, key: str, lines: InputLines, number: int, options: Options) -> tuple[str, ...]:
    if raw is None:
        if options.labelled:
            raise lines.refuse(number, f"no {key!r}", "give an example without classes an empty list")
        return ()
    if isinstance(raw, str):
        return split_labels(raw, options)
    several = raw if isinstance(raw, list) else [raw]
    kept = [each for each in several if options.labelled or (each is not None and values.is_finite(each))]
    return tuple(_spelled(each, key, lines, number) for each in kept)


def _spelled(raw: Json, key: str, lines: InputLines, number: int) -> str:
    """A label as text. Raises DataError for NaN, infinity and, in a list, null."""
    if raw is None or not values.is_finite(raw):
        hint = "each line of training and validation data needs one"
        raise lines.refuse(number, f"no label: {key!r} is {values.text(raw)}", hint)
    return values.text(raw)


def split_labels(text: str, options: Options) -> tuple[str, ...]:
    """The labels of --multi-label in a field."""
    return tuple(part.strip() for part in text.split(options.label_separator) if part.strip())


def checked_label(task: str, label: str | None, lines: InputLines, number: int, options: Options) -> str | None:
    """The label, if valid; None if it is missing and labels are optional. Raises DataError."""
    if not label:
        if options.labelled:
            raise lines.refuse(number, "no label", "each line of training and validation data needs one")
        return None
    if task in NUMBERS and not values.is_number(label):
        hint = "--label-column names another column, --header skips a line of names, --text-column twice reads pairs"
        raise lines.refuse(number, f"expected a finite number, got {shown(label)}", hint)
    return label
