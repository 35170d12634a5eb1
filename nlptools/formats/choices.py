"""Files of contexts with several endings, one of which is right: the task choice.

Zellers et al. 2018, SWAG (D18-1009), and 2019, HellaSwag (P19-1472). Layouts:
    csv     SWAG's CSV: columns `sent1`, `sent2`, `ending0` to `ending3`, and `label` or `gold` where it
            is known
    jsonl   an object per line with the same keys; or `ctx`, `endings` and `label` (HellaSwag); or `context` and
            `endings` or `choices`; or `prompt`, `choices` and `answer`, as `nlptools prompt` writes them
    parquet a table of Parquet with such columns
With `sent2`, the context is `sent1` and each ending is `sent2`, a space, and the ending, as in SWAG's own baselines and all
later ones. A label is the number of an ending, from 0, as number or text; -1, null and nothing mean no label. An `answer` may
also be the text of an ending.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nlptools.errors import shown
from nlptools.formats import records, values
from nlptools.formats.examples import Choice
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import Lines
from nlptools.formats.reading_options import Options

PROMPT = "prompt"
_CONTEXTS = (PROMPT, "sent1", "ctx", "context")
_LABELS = ("label", "gold", "answer")
_OF_PROMPT = ("answer", "label", "gold")  # beside a prompt, a label may be that of the record it was written from
_IDS = ("id", "ind", "idx", "fold-ind", "")  # the first column of SWAG's CSV has no name
_HINT = "expected sent1, sent2, ending0, ending1, ...; or context and a list endings"


def read_choices(path: str, options: Options, errors: str = "strict") -> Iterator[Choice]:
    """The examples of a file.

    Raises:
        DataError: a record without context or with fewer than two endings; one without label while `options.labelled`; a
            label that is not the number of an ending; with file, line and hint. And the errors of `streams.blocks`.
        UsageError: a layout that the task does not have.
    """
    return (choice for _, choice in read_records(path, options, errors))


def read_records(path: str, options: Options, errors: str = "strict") -> Iterator[tuple[Mapping[str, Any], Choice]]:
    """The records of a file as they are, and their examples. Raises as `read_choices`."""
    layout = layout_of("choice", path, options.layout, options.delimiter)
    lines = Lines(path, errors)
    for number, record in records.objects(lines, layout, options.delimiter):
        yield record, _choice(record, lines, number, options)


def _choice(record: Mapping[str, Any], lines: Lines, number: int, options: Options) -> Choice:
    key = next((key for key in _CONTEXTS if key in record), None)
    endings = _endings(record)
    if key is None or len(endings) < 2 or not all(isinstance(text, str) for text in (record[key], *endings)):
        raise lines.refuse(number, f"no context with two or more endings: the fields are {', '.join(record)}", _HINT)
    start = record.get("sent2")
    if key == "sent1" and isinstance(start, str) and start:
        endings = [f"{start} {ending}" if ending else start for ending in endings]
    labels = (options.label_column, *(_OF_PROMPT if key == PROMPT else _LABELS))
    name = next((name for name in labels if name is not None and name in record), None)
    raw = None if name is None else record[name]
    if name == "answer" and isinstance(raw, str) and endings.count(raw) == 1:
        raw = endings.index(raw)
    label = _label(raw, len(endings), lines, number, options)
    id = next((str(record[name]) for name in _IDS if name in record), None)
    return Choice(record[key], tuple(endings), label, lines.place(number), id)


def _endings(record: Mapping[str, Any]) -> Sequence[str]:
    endings: list[str] = []
    for key in ("choices", "endings") if PROMPT in record else ("endings", "choices"):
        if isinstance(record.get(key), list):
            return list(record[key])
    while (key := f"ending{len(endings)}") in record:
        endings.append(record[key])
    return endings


def _label(raw: Any, count: int, lines: Lines, number: int, options: Options) -> int | None:
    raw = raw if raw is None or not values.is_finite(raw) else values.key(values.text(raw))
    if raw is None or raw in ("", "-1") or not values.is_finite(raw):
        if options.labelled:
            raise lines.refuse(number, "no label", "each example of training and validation data needs one")
        return None
    if not re.fullmatch(r"\d{1,9}", str(raw)) or int(raw) >= count:
        message = f"label {shown(str(raw))}, expected the number of an ending, 0 to {count - 1}"
        raise lines.refuse(number, message, "endings are counted from 0")
    return int(raw)
