"""Files of one or two texts and a label or a number: the tasks classify, pair and regress.

Layouts (see `recognize`):
    jsonl       one JSON object per line, keys as in `tables`, labels as text, number, true/false or a list of them;
                null, and -1 as a number where labels are classes, mean no label
    trec        `LABEL:fine text`; lines that are not UTF-8 are Latin-1 (TREC's files)
    cola        CoLA's files without header: source, label, the author's mark, text
    stsbenchmark  STS benchmark's own files without header: genre, file, year, number, score, text, text[, sources]
    glue/NAME   the files of the GLUE task; see `nlptools.formats.glue`
    table       fields between tabs. With header: texts, label and id by their names in `tables`, other columns are allowed
                (GLUE, SICK, SNLI). Without: `text TAB label`, `text TAB text TAB label`.
SNLI's `gold_label` of `-`, where its annotators disagreed, means no label: the example is skipped and counted, or its label
is None. The first line is a header if it has the names of the texts and of a label or an id. Fields are never quoted or
escaped. Texts may be empty. Where labels are optional, a missing one is None, and an empty line is empty texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from nlptools import messages
from nlptools.configs.tasks import GLUE
from nlptools.errors import UsageError, display
from nlptools.files import compression, line_records
from nlptools.formats.examples import TextExample
from nlptools.formats.glue import glue_task
from nlptools.formats.json_texts import JsonLine, checked_label, json_lines, text_keys, warn_undecided
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import Lines, columns, shown
from nlptools.formats.reading_options import Options
from nlptools.formats.tables import UNDECIDED, Table, table_of

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")

_TREC = re.compile(r"(ABBR|DESC|ENTY|HUM|LOC|NUM):(\S+) ")  # no other layout begins like this
_MARK = re.compile(r"[*?#%]*")


def read_texts(task: str, path: str, options: Options, errors: str = "strict") -> Iterator[TextExample]:
    """The examples of a file, one per line.

    Args:
        task: "classify" (one text), "pair" or "regress" (two).

    Raises:
        DataError: a line with too few or too many columns, without label, with a label that is not a number (regress), or
            that is not a JSON object with the expected keys; with file, line and hint. And the errors of `streams.blocks`.
        UsageError: a layout that the task does not have, or a wrong column.
    """
    lines = Lines(path, errors)
    first = lines.first()
    if first is None:
        return
    layout = recognize(task, path, first, options)
    if layout == "jsonl":
        yield from json_lines(task, lines, options)
    elif layout == "trec":
        lines.latin = True
        yield from _trec(lines, options)
    else:
        yield from _table_lines(task, lines, table_of(task, layout, first.split("\t"), path, options), options)


def recognize(task: str, path: str, first: str, options: Options) -> str:
    """The layout of a file: `options.layout` unless it is auto, else by its name and first line.

    `.jsonl`, `.ndjson` or `.json`, or a first line that is a JSON object with the keys of the texts: jsonl. `.label`, or
    a first line `LABEL:fine text` without tab: trec. Four fields, the second 0 or 1, the third `*` or `?` or nothing:
    cola. Seven or more, the first beginning with `main-`: stsbenchmark. Else table.
    """
    if options.layout != "auto":
        return _given(task, options.layout)
    base = compression.without_suffix(path)
    if base.endswith(JSON_SUFFIXES) or (first.startswith("{") and _has_texts(task, first, options)):
        return "jsonl"
    fields = first.split("\t")
    if options.text_column or options.header:
        return "table"
    if task == "classify" and len(fields) == 1 and (base.endswith(".label") or _TREC.match(first)):
        return "trec"
    if task == "classify" and len(fields) == 4 and fields[1] in ("0", "1") and _MARK.fullmatch(fields[2]):
        return "cola"
    if task == "regress" and len(fields) >= 7 and fields[0].startswith("main-"):
        return "stsbenchmark"
    return "table"


def _given(task: str, layout: str) -> str:
    """`layout`, if the task has it. Raises UsageError."""
    if not layout.startswith(GLUE):
        return layout_of(task, "", layout)
    if glue_task(layout).task != task:
        raise UsageError(f"task {task} has no layout {layout!r}, a layout of {glue_task(layout).task}")
    return layout


def _has_texts(task: str, first: str, options: Options) -> bool:
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and text_keys(task, value, options) is not None


# -- tables -----------------------------------------------------------------------------------------------------------


def _table_lines(task: str, lines: Lines, table: Table, options: Options) -> Iterator[TextExample]:
    if options.labelled and table.label is None:
        raise lines.refuse(1, "no column of labels", "use the training or the development file, not the test file")
    skip = options.labelled and (options.skip_broken or bool(table.published))
    skipped, undecided, blanks, blank = 0, 0, 0, 0
    unsure = table.label is not None and bool(table.header) and table.header[table.label].lower() == UNDECIDED[0]
    for number, line in lines:
        if number == 1 and table.header:
            continue
        if not line and options.labelled:  # not an example if only such lines follow
            blanks, blank = blanks + 1, blank or number
            continue
        if blank:
            if not skip:
                raise lines.refuse(blank, "an empty line", _HINT)
            skipped, blanks, blank = skipped + blanks, 0, 0
        fields = line.split("\t") if line else [""] * table.least
        if len(fields) < table.least or (table.most is not None and len(fields) > table.most):
            if not skip or len(fields) > table.least:
                raise lines.refuse(number, *_refusal(len(fields), table))
            skipped += 1
            continue
        if unsure and table.label is not None and fields[table.label : table.label + 1] == [UNDECIDED[1]]:
            if options.labelled:
                undecided += 1
                continue
            fields[table.label] = ""
        yield _example(task, lines, number, line, fields, table, options)
    if skipped:
        messages.warn(f"{display(lines.path)}: skipped {messages.counted(skipped, 'line')} with too few columns")
    warn_undecided(lines, undecided)


_HINT = "--skip-broken skips such lines"


def _refusal(count: int, table: Table) -> tuple[str, str]:
    """Message and hint for a line of `count` fields."""
    expected = str(table.least) if table.most == table.least else f"at least {table.least}"
    if table.most is not None and table.least < table.most:
        expected = f"{table.least} to {table.most}"
    if count < table.least:
        hint = "separate fields by single tabs, the label last"
        return f"{columns(count)}, expected {expected}", hint if count == 1 else _HINT
    return f"{columns(count)}, expected {expected}", "--text-column names the texts; a text cannot contain a tab"


def _example(
    task: str, lines: Lines, number: int, line: str, fields: Sequence[str], table: Table, options: Options
) -> TextExample:
    label = None
    if table.label is not None and table.label < len(fields):
        label = fields[table.label]
    labels: tuple[str, ...] = ()
    if options.multi_label:
        labels = tuple(part.strip() for part in (label or "").split(options.label_separator) if part.strip())
        label = None
    else:
        label = checked_label(task, label, lines, number, options)
    id = fields[table.id] if table.id is not None and table.id < len(fields) else None
    texts = tuple(fields[place] for place in table.texts)
    return TextExample(texts, label, lines.place(number), id or None, tuple(line.split("\t")), labels, table.header)


# -- TREC -------------------------------------------------------------------------------------------------------------


def _trec(lines: Lines, options: Options) -> Iterator[TextExample]:
    blank = 0
    for number, line in lines:
        if not line and options.labelled:
            blank = blank or number
            continue
        if blank:
            raise lines.refuse(blank, "an empty line", "remove it")
        match = _TREC.match(line)
        if match is None:
            if options.labelled:
                raise lines.refuse(number, f"expected `LABEL:fine text`, got {shown(line)}", "--layout table for TSV")
            yield TextExample((line,), None, lines.place(number), None, (line,))
            continue
        label = match[0].rstrip(" ") if options.fine else match[1]
        yield TextExample((line[match.end() :],), label, lines.place(number), None, (line,))


# -- back -------------------------------------------------------------------------------------------------------------


def columns_with(example: TextExample, prediction: Mapping[str, str | float]) -> str:
    """The line of `example` in its file, with a prediction appended.

    In a table one more field per value of `prediction`, labels escaped as in all our TSV; in JSON lines one more key each
    (an existing key gets the new value). Without values, the line itself.
    """
    if example.columns and isinstance(example.columns[0], JsonLine):
        if not prediction:
            return str(example.columns[0])
        return json.dumps({**json.loads(example.columns[0]), **prediction}, ensure_ascii=False)
    return "\t".join([*example.columns, *map(_field, prediction.values())])


def header_with(example: TextExample, names: Sequence[str]) -> str | None:
    """The header of the file of `example` with the names of new columns; None if the file has no header."""
    return "\t".join([*example.header, *names]) if example.header else None


def _field(value: str | float) -> str:
    return line_records.escape(value) if isinstance(value, str) else f"{value:.6g}"
