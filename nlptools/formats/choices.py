"""Multiple choice: files of contexts with several endings, for the task choice.

SWAG (Zellers et al. 2018, D18-1009), HellaSwag (Zellers et al. 2019, P19-1472). Layouts:
    csv     SWAG's CSV: columns `sent1`, `sent2`, `ending0` to `ending3`, and `label` or `gold` if known
    jsonl   an object per line with these keys; or `ctx`, `endings` and `label` (HellaSwag); or `context` and `endings` or
            `choices`; or `prompt`, `choices` and `answer`, as `nlptools prompt` writes them
    tsv     the same columns between tabs
    parquet the same columns
Minimal pairs (BLiMP, Warstadt et al. 2020, 2020.tacl-1.25) have `sentence_good` and `sentence_bad`, or other names in `PAIRS`,
and no context; tables of two columns without names have the good sentence first.
With `sent2`, the context is `sent1` and each ending is `sent2`, a space, and the ending, as in the baselines of SWAG. A label
is the number of an ending, from 0, as number or text; -1, null or nothing mean that it is unknown. An `answer` may also be the
text of an ending.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from itertools import count, takewhile

from nlptools.errors import shown
from nlptools.formats import records, values
from nlptools.formats.examples import Choice
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import InputLines
from nlptools.formats.reading_options import Options
from nlptools.json_types import Json, JsonObject

PROMPT = "prompt"
_CONTEXTS = (PROMPT, "sent1", "ctx", "context")
_LABELS = ("label", "gold", "answer")
PAIRS = (  # columns of minimal pairs, the right one first
    ("sentence_good", "sentence_bad"),
    ("good", "bad"),
    ("good_sentence", "bad_sentence"),
    ("grammatical", "ungrammatical"),
    ("acceptable", "unacceptable"),
    ("correct", "incorrect"),
)
_OF_PROMPT = ("answer", "label", "gold")  # with a prompt, `label` may come from another task
_IDS = ("id", "ind", "idx", "fold-ind", "")  # the first column of SWAG's CSV has no name
_HINT = "expected sent1, sent2, ending0, ending1, ...; context and a list endings; or sentence_good and sentence_bad"


def read_choices(path: str, options: Options, errors: str = "strict") -> Iterator[Choice]:
    """The examples of a file.

    Raises:
        DataError: a record without context or with fewer than two endings; one without label while `options.labelled`; a
            label that is not the number of an ending; with file, line and hint. And the errors of `streams.blocks`.
        UsageError: a layout that the task does not have.
    """
    return (choice for _, choice in read_records(path, options, errors))


def read_records(path: str, options: Options, errors: str = "strict") -> Iterator[tuple[Mapping[str, Json], Choice]]:
    """The unchanged records of a file, and their examples. Raises as `read_choices`."""
    layout = layout_of("choice", path, options.layout, options.delimiter)
    lines = InputLines(path, errors)
    unnamed = _holds_pairs(lines, layout, options.delimiter)
    table = _pairs(lines, layout, options.delimiter) if unnamed else records.objects(lines, layout, options.delimiter)
    for number, record in table:
        yield record, _choice(record, lines, number, options)


def _holds_pairs(lines: InputLines, layout: str, delimiter: str | None) -> bool:
    """Whether a table has two columns without names."""
    first = lines.first() if layout in ("csv", "tsv") else None
    if not first:
        return False
    between = records.delimiter_of(layout, delimiter)
    fields = next(csv.reader([first], delimiter=between)) if between else first.split("\t")
    known = {*_CONTEXTS, *_LABELS, *_IDS, "ending0", *(name for pair in PAIRS for name in pair)}
    return len(fields) == 2 and not known & {field.strip().lower() for field in fields}


def _pairs(lines: InputLines, layout: str, delimiter: str | None) -> Iterator[tuple[int, JsonObject]]:
    """The records of such a table, with the names of BLiMP."""
    for number, fields in records.rows(lines, records.delimiter_of(layout, delimiter)):
        if len(fields) != 2:
            raise lines.refuse(number, f"expected 2 columns, found {len(fields)}", "the right sentence comes first")
        yield number, dict(zip(PAIRS[0], fields))


def _choice(record: Mapping[str, Json], lines: InputLines, number: int, options: Options) -> Choice:
    key = next((key for key in _CONTEXTS if key in record), None)
    lowered = {name.strip().lower(): text for name, text in record.items()}
    pair = next((pair for pair in PAIRS if key is None and lowered.keys() >= set(pair)), None)
    if pair is not None:
        good, bad = (lowered[name] for name in pair)
        if not isinstance(good, str) or not isinstance(bad, str):
            raise lines.refuse(number, f"no text under {pair[0]} or {pair[1]}", _HINT)
        id = next((str(record[name]) for name in ("pairID", *_IDS) if name in record), None)
        return Choice("", (good, bad), 0, lines.place(number), id)
    endings = _endings(record)
    context = None if key is None else record[key]
    if not isinstance(context, str) or len(endings) < 2:
        raise lines.refuse(number, f"no context with two or more endings: the fields are {', '.join(record)}", _HINT)
    start = record.get("sent2")
    if key == "sent1" and isinstance(start, str) and start:
        endings = [f"{start} {ending}" if ending else start for ending in endings]
    labels = (options.label_column, *(_OF_PROMPT if key == PROMPT else _LABELS))
    name = next((name for name in labels if name is not None and name in record), None)
    raw: Json = None if name is None else record[name]
    if name == "answer" and isinstance(raw, str) and endings.count(raw) == 1:
        raw = endings.index(raw)
    label = _label(raw, len(endings), lines, number, options)
    id = next((str(record[name]) for name in _IDS if name in record), None)
    return Choice(context, tuple(endings), label, lines.place(number), id)


def _endings(record: Mapping[str, Json]) -> list[str]:
    """The endings of a record, [] if one is no text."""
    keys = ("choices", "endings") if PROMPT in record else ("endings", "choices")
    listed = next((value for key in keys if isinstance(value := record.get(key), list)), None)
    if listed is None:
        numbered = takewhile(record.__contains__, map("ending{}".format, count()))
        listed = [record[key] for key in numbered]
    texts = [text for text in listed if isinstance(text, str)]
    return texts if len(texts) == len(listed) else []


def _label(raw: Json, most: int, lines: InputLines, number: int, options: Options) -> int | None:
    label = None if raw is None or not values.is_finite(raw) else values.key(values.text(raw))
    if label is None or label in ("", "-1"):
        if options.labelled:
            raise lines.refuse(number, "no label", "each example of training and validation data needs one")
        return None
    if not re.fullmatch(r"\d{1,9}", label) or int(label) >= most:
        message = f"label {shown(label)}, expected the number of an ending, 0 to {most - 1}"
        raise lines.refuse(number, message, "endings are counted from 0")
    return int(label)
