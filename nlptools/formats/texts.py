"""Files of one or two texts and a label or number: the tasks classify, pair and regress.

Layouts (see `recognize`; `records` reads the lines):
    jsonl       one JSON object per line, keys as in `tables`, labels as text, number, true/false or a list of them;
                null, and -1 as a number where labels are classes, mean no label
    parquet     a table of Parquet, its columns as the keys of jsonl
    rte         the XML of RTE's challenges: pairs of text and hypothesis
    trec        `LABEL:fine text`; lines that are not UTF-8 are Latin-1 (TREC's files); trec-fine keeps `LABEL:fine`
    glue/NAME   the files of the GLUE task; see `nlptools.formats.glue`
    table       fields between tabs. With header: texts, label and id by their names in `tables`, other columns are allowed
                (GLUE, SICK, SNLI). Without: `text TAB label`, `text TAB text TAB label`.
    csv         the same between commas, with quotes
In SNLI, a `gold_label` of `-` means that the annotators disagreed: the example is skipped and counted, or its label is None.
The first line is a header if it has the names of the texts and of a label or an id. Texts may be empty. If labels are optional,
a missing label is None, and an empty line has empty texts.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice

from nlptools import messages
from nlptools.configs.tasks.table import GLUE
from nlptools.errors import UsageError, display, shown
from nlptools.files import line_records
from nlptools.formats import records
from nlptools.formats.examples import TextExample
from nlptools.formats.glue import glue_task
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import InputLines, delimiter_hint, joined
from nlptools.formats.reading_options import Options
from nlptools.formats.tables import FieldPlaces, names_learned, table_of
from nlptools.formats.text_objects import checked_label, object_texts, split_labels, text_keys, warn_undecided

_TREC = re.compile(r"(ABBR|DESC|ENTY|HUM|LOC|NUM):(\S+) ")  # no other layout begins like this


def read_texts(task: str, path: str, options: Options, errors: str = "strict") -> Iterator[TextExample]:
    """The examples of a file, one per line or record.

    Args:
        task: "classify" (one text), "pair" or "rank" (two), or "regress" (one or two, as the file has them).

    Raises:
        DataError: a line with too few or too many columns, without label, with a label that is not a number (regress), or
            that is not a JSON object with the expected keys; with file, line and hint. And the errors of `streams.blocks`
            and `records.objects`.
        UsageError: a layout that the task does not have, or a wrong column.
    """
    lines = InputLines(path, errors)
    layout, delimiter = recognize(task, lines, options)
    if layout in records.OBJECTS:
        yield from object_texts(task, records.objects(lines, layout), lines, options)
    elif layout.startswith("trec"):
        lines.latin = True
        yield from _trec(lines, options, layout == "trec-fine")
    else:
        rows = records.rows(lines, delimiter)
        first = next(rows, None)
        if first is not None:
            table = table_of(task, layout, first[1], path, options, delimiter)
            yield from _table_rows(task, lines, chain([first], rows), table, options)


def recognize(task: str, lines: InputLines, options: Options) -> tuple[str, str]:
    """The layout of a file, `options.layout` unless it is auto, else by its name and first line; and the delimiter of a
    table.

    auto: the layout of a suffix in `layouts`; jsonl for a JSON object with the keys of the texts in the first line; trec for
    `.label`, or a first line `LABEL:fine text` without tab; csv for a first line of CSV with the column names of the model's
    training data; else table.
    """
    if options.layout.startswith(GLUE):
        if glue_task(options.layout).task != task:
            wanted = glue_task(options.layout).task
            raise UsageError(f"task {task} has no layout {options.layout!r}, a layout of {wanted}")
        return options.layout, records.TABS
    layout = layout_of(task, lines.path, options.layout, options.delimiter)
    delimiter = records.delimiter_of(layout, options.delimiter)
    if layout == "csv" and not options.delimiter:
        return layout, _learned_delimiter(lines.first() or "", options) or delimiter
    if layout != "table" or options.layout != "auto":
        return layout, delimiter
    first = lines.first() or ""
    if first.startswith("{") and _has_texts(task, first, options):
        return "jsonl", delimiter
    if not names_learned(first.split("\t"), options) and (found := _learned_delimiter(first, options)):
        return "csv", found
    trec = task == "classify" and "\t" not in first and _TREC.match(first)
    return "trec" if trec and not options.text_column and not options.header else "table", delimiter


def _learned_delimiter(first: str, options: Options) -> str:
    """The delimiter of CSV that splits a first line into the column names of the model's training data; "": none."""
    own = options.learned.delimiter if options.learned is not None else ""
    for delimiter in dict.fromkeys((own or ",", ",", ";", "\t")):
        with suppress(csv.Error):
            fields = next(csv.reader([first], delimiter=delimiter), [])
            if len(fields) > 1 and names_learned(fields, options):
                return delimiter
    return ""


def _has_texts(task: str, first: str, options: Options) -> bool:
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and text_keys(task, value, options) is not None


# -- tables -----------------------------------------------------------------------------------------------------------


def _table_rows(
    task: str, lines: InputLines, rows: Iterator[tuple[int, list[str]]], table: FieldPlaces, options: Options
) -> Iterator[TextExample]:
    if options.labelled and table.label is None:
        raise lines.refuse(1, "no column of labels", "use the training or the development file, not the test file")
    skip = options.labelled and bool(table.glue)
    skipped = undecided = empty = blank = 0
    for number, fields in islice(rows, int(bool(table.header)), None):
        if fields == [""] and options.labelled:
            blank += 1
            continue
        skipped, empty, blank = skipped + skip * blank, empty + (not skip) * blank, 0
        if fields != [""] and not table.least <= len(fields) <= (table.most or len(fields)):
            if not skip or len(fields) > table.least:
                raise lines.refuse(number, *_refusal(fields, table))
            skipped += 1
        elif options.labelled and table.label_of(fields) is None and table.undecided:
            undecided += 1
        else:
            yield _example(task, lines, number, fields, table, options)
    if skipped:
        messages.warn(f"{display(lines.path)}: skipped {messages.counted(skipped, 'line')} with too few columns")
    lines.note_skipped(empty)
    warn_undecided(lines, undecided)


def _refusal(fields: Sequence[str], table: FieldPlaces) -> tuple[str, str]:
    """Message and hint for a line that has these fields."""
    count = len(fields)
    expected = str(table.least) if table.most == table.least else f"at least {table.least}"
    if table.most is not None and table.least < table.most:
        expected = f"{table.least} to {table.most}"
    if count < table.least:
        between = "by single tabs" if not table.delimiter else f"by {table.delimiter!r}"
        hint = delimiter_hint(fields, table.delimiter) or f"separate fields {between}, the label last"
    elif table.delimiter:
        hint = "--text-column names the texts"
    else:
        hint = "--text-column names the texts; a text cannot contain a tab"
    return f"{messages.counted(count, 'column')}, expected {expected}", hint


def _example(
    task: str, lines: InputLines, number: int, fields: Sequence[str], table: FieldPlaces, options: Options
) -> TextExample:
    label = table.label_of(fields)
    labels: tuple[str, ...] = ()
    if options.multi_label:
        labels, label = split_labels(label or "", options), None
    else:
        label = checked_label(task, label, lines, number, options)
    id = fields[table.id] if table.id is not None and table.id < len(fields) else None
    texts = tuple(joined(fields[place] if len(fields) > place else "" for place in group) for group in table.texts)
    layout = "csv" if table.delimiter else "table"
    more = (labels, table.header, layout, table.read)
    return TextExample(texts, label, lines.place(number), id or None, tuple(fields), *more)


# -- TREC -------------------------------------------------------------------------------------------------------------


def _trec(lines: InputLines, options: Options, fine: bool) -> Iterator[TextExample]:
    for number, line in lines.filled() if options.labelled else lines:
        match = _TREC.match(line)
        if match is None:
            if options.labelled:
                raise lines.refuse(number, f"expected `LABEL:fine text`, got {shown(line)}", "--layout table for TSV")
            yield TextExample((line,), None, lines.place(number), None, (line,))
            continue
        label = match[0].rstrip(" ") if fine else match[1]
        yield TextExample((line[match.end() :],), label, lines.place(number), None, (line,))


# -- back -------------------------------------------------------------------------------------------------------------


def columns_with(example: TextExample, prediction: Mapping[str, str | float]) -> str:
    """The line of `example` in its file, with a prediction appended.

    Each value of `prediction` becomes a field of a table (escaped between tabs, quoted in CSV), or a key of a JSON object,
    which replaces an existing key. Without values, the unchanged line.
    """
    if example.layout == "jsonl":
        return json.dumps({**json.loads(example.columns[0]), **prediction}, ensure_ascii=False)
    values = [value if isinstance(value, str) else f"{value:.6g}" for value in prediction.values()]
    return _joined([*example.columns, *values], example, len(example.columns))


def header_with(example: TextExample, names: Sequence[str]) -> str | None:
    """The header of the file of `example` with the names of new columns; None if the file has no header."""
    return _joined([*example.header, *names], example, len(example.header)) if example.header else None


def _joined(fields: Sequence[str], example: TextExample, unchanged: int) -> str:
    """Fields as a line of the layout of `example`; between tabs, the first `unchanged` are as the file has them."""
    if example.layout == "csv":
        return line_records.csv_line(fields, example.read.delimiter if example.read else ",")
    return "\t".join([*fields[:unchanged], *map(line_records.escape, fields[unchanged:])])
