"""Records of tables and of files of objects, for all commands.

    rows       tables: fields between tabs, or CSV (RFC 4180: a field in quotes may contain commas and line ends)
    objects    a JSON object per line; CSV with a header; Parquet, which needs the package pyarrow; the XML of RTE
Fields between tabs have no quotes and no escapes. The number of a record is the number of its first line, or row of Parquet.
RTE: Dagan et al. 2006, `<pair id="1" entailment="YES"><t>text</t><h>hypothesis</h></pair>`, or `value="TRUE"`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from xml.parsers import expat

from nlptools import configs, messages
from nlptools.configs import units
from nlptools.errors import DataError, Unavailable, UsageError, display
from nlptools.files import atomic, line_records, progress, streams
from nlptools.files.layout_names import TABLES, named_layout
from nlptools.files.streams import LineBlock
from nlptools.formats import values
from nlptools.formats.lines import (
    RETURNS,
    RETURNS_HINT,
    InputLines,
    column_numbers,
    delimiter_hint,
    header_names,
    joined,
)
from nlptools.formats.tables import LABELS, TEXTS
from nlptools.json_types import Json, JsonObject

_ROWS = 1024  # of a block
OBJECTS = ("jsonl", "parquet", "rte")
TABS, COMMA = "", ","  # delimiters: fields between tabs without quotes, and CSV
TEXT_NAMES = tuple(name for (name,) in TEXTS[1])
LABEL_NAMES = ("prediction", *LABELS["classify"], *LABELS["regress"])
_DECLARED = re.compile(r"sep=(.)\r?")  # the first line of Excel's CSV


def delimiter_of(layout: str, delimiter: str | None = None) -> str:
    """The delimiter of a table: `delimiter` (`--delimiter`), else the comma of CSV, or tabs without quotes."""
    return configs.delimiter(delimiter) if delimiter else COMMA if layout == "csv" else TABS


def rows(lines: InputLines, delimiter: str = TABS) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of each record of a table: `TABS`, or of CSV with this delimiter.

    CSV may begin with a line such as `sep=;`, which names another delimiter. Empty lines are records only if CSV has a single
    column.

    Raises:
        DataError: an open quote in CSV, a record with another number of fields than the first, or carriage returns as line
            ends.
    """
    if delimiter == TABS:
        lines.refuse_old_mac()
        for number, line in lines:
            yield number, line.split("\t")
        return
    lines.keep_returns = True
    csv.field_size_limit(units.LARGEST)
    numbered = iter(lines)
    start, first = next(numbered, (0, ""))
    if not start:
        return
    declared = _DECLARED.fullmatch(first)
    source = numbered if declared else chain([(start, first)], numbered)
    delimiter = declared[1] if declared else delimiter
    yield from _csv(lines, (line + "\n" for _, line in source), delimiter, 1 if declared else 0)


def _csv(lines: InputLines, source: Iterable[str], delimiter: str, before: int) -> Iterator[tuple[int, list[str]]]:
    """The records of CSV; `before`: the number of lines before the first one."""
    reader = csv.reader(source, strict=True, delimiter=delimiter)
    width = blank = skipped = 0
    names: list[str] = []
    end = 0
    try:
        for fields in reader:
            number, end = before + end + 1, reader.line_num
            if not fields and width != 1:
                blank += 1
                continue
            skipped, blank = skipped + blank, 0
            if not width:
                width, names = max(1, len(fields)), fields
            if fields and len(fields) != width:
                hint = delimiter_hint(names, delimiter) or "a field with a comma or a quote must be quoted"
                raise lines.refuse(number, f"{len(fields)} fields, expected {width}", hint)
            yield number, fields or [""]
    except csv.Error as error:
        number = before + end + 1
        if "new-line" in str(error) and not width:
            raise lines.refuse(number, RETURNS, RETURNS_HINT) from None
        if "new-line" in str(error):
            hint = f"a field with one must be quoted; if they are line ends: {RETURNS_HINT}"
            raise lines.refuse(number, "a carriage return outside quotes", hint) from None
        hint = delimiter_hint(names, delimiter) or "write a quote within a field twice"
        raise lines.refuse(number, f"malformed CSV: {error}", hint) from None
    lines.note_skipped(skipped)


def objects(lines: InputLines, layout: str = "jsonl", delimiter: str | None = None) -> Iterator[tuple[int, JsonObject]]:
    """Number and value of each record of a file in the layout "jsonl", "csv" or "tsv" with a header, "parquet" or "rte".

    Raises:
        DataError: malformed, two columns of the same name; with file and line.
        Unavailable: Parquet without pyarrow.
    """
    if layout == "parquet":
        yield from _parquet(lines.path)
    elif layout == "rte":
        yield from _rte(lines.path)
    elif layout in ("csv", "tsv"):
        names: list[str] = []
        for number, fields in rows(lines, delimiter_of(layout, delimiter)):
            if names and fields != [""]:
                if len(fields) < len(names):
                    hint = "each line has a field for each name in the first line"
                    raise lines.refuse(
                        number, f"{messages.counted(len(fields), 'column')}, expected {len(names)}", hint
                    )
                yield number, dict(zip(names, fields))
            names = names or header_names(fields, lines.path, number)
    else:
        for number, line in lines.filled():
            yield number, line_records.parse_json_object(line, lines.path, number)


def texts(
    paths: Sequence[str],
    names: Sequence[str],
    errors: str = "strict",
    delimiter: str | None = None,
    header: bool = False,
) -> Iterator[LineBlock]:
    """The texts of files, a line each, in blocks. The suffix determines whether a file is a table: CSV, Parquet, JSON lines,
    or `.tsv` between tabs. Other files are tables if there are `names`, else lines.

    In tables, the texts are in the columns `names` (`columns_of`); without names in the only column, or in the column with a
    name that `finetune` knows for texts. Several columns become fields between tabs, with escapes. In a single column, line
    ends become spaces.
    """
    for path in streams.check_inputs(paths):
        kind = named_layout(path)
        if not names and not delimiter and kind not in TABLES:
            if kind:
                raise UsageError(f"{display(path)}: expected text or a table, the name says {kind}")
            yield from streams.blocks(path, errors)
            continue
        block = LineBlock(path, 1, [])
        for number, fields in columns_of(path, names, errors, header, delimiter):
            if len(block.lines) == _ROWS or number != block.start + len(block.lines):
                if block.lines:
                    yield block
                block = LineBlock(path, number, [])
            several = len(names) > 1
            block.lines.append("\t".join(map(line_records.escape, fields)) if several else one_line(fields[0]))
        if block.lines:
            yield block


def one_line(text: str) -> str:
    """A text with spaces for line ends."""
    return re.sub("\r\n?|\n", " ", text)


def columns_of(
    path: str,
    names: Sequence[str],
    errors: str = "strict",
    header: bool = False,
    delimiter: str | None = None,
    labels: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    """Number of the line, and the fields in the columns `names` of each record of a file. The suffix determines the layout:
    CSV, Parquet, JSON lines, or a table between tabs. `delimiter`: CSV with this delimiter.

    `header`: the first line names the columns. It also does if one of `names` is not a number, and in Parquet and JSON lines.
    Columns between commas in one name are joined with spaces.
    Without `names`: the only column, or the column with a name for texts in the first line. With `labels`: the only column,
    perhaps with a name for labels in the first line.

    Raises:
        DataError: no such column, a malformed record, an object without one of the columns, a number that is not finite, or
            half a surrogate pair, which `errors` "replace" replaces; with file and line.
    """
    lines = InputLines(path, errors)
    kind = named_layout(path)
    keyed = kind in ("parquet", "jsonl") and not delimiter
    needed: list[str] = []  # filled below, when the first object has given the names
    table: Iterator[tuple[int, Sequence[Json]]]
    table = with_names(objects(lines, kind), path, needed) if keyed else rows(lines, delimiter_of(kind, delimiter))
    first = next(table, None)
    if first is None:
        return
    fields = [str(name) for name in first[1]]
    named = bool(names) and not all(re.fullmatch("-?[0-9]+(,-?[0-9]+)*", name) for name in names)
    nameless = kind not in ("csv", "jsonl", "parquet") and len(fields) == 1
    known = "" if names or nameless or (labels and len(fields) > 1) else _known_name(fields, labels)
    header |= keyed or named or bool(known)
    if not names:
        names = [known or _only_column(fields, path, keyed, labels)]
    shown_names = header_names(fields, path, first[0]) if header else ()
    groups = [column_numbers(name, shown_names, len(fields), path) for name in names]
    last = max(map(max, groups))
    needed += (fields[place] for group in groups for place in group if keyed)
    for number, record in table if header else chain([first], table):
        if len(record) <= last:
            message = f"{messages.counted(len(record), 'column')}, expected at least {last + 1}"
            raise DataError(message, path=path, line=number)
        chosen = [[record[place] for place in group] for group in groups]
        odd = next((name for name, some in zip(names, chosen) if not all(map(values.is_finite, some))), None)
        if odd is not None:
            raise DataError(f"no value: {odd!r} is NaN or infinity", path=path, line=number)
        texts = [joined("" if value is None else values.text(value) for value in some) for some in chosen]
        if keyed:  # JSON's escapes can produce half a surrogate pair; bytes that are no UTF-8 have been refused above
            texts = [_whole(text, name, errors, path, number) for name, text in zip(names, texts, strict=True)]
        yield number, texts


def _whole(text: str, name: str, errors: str, path: str, number: int) -> str:
    """The text, if UTF-8 can encode it; with `errors` "replace", U+FFFD replaces halves of surrogate pairs."""
    if line_records.is_text(text):
        return text
    if errors == "strict":
        raise DataError(f"the text under {name!r} holds half a surrogate pair", path=path, line=number)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _known_name(header: Sequence[str], labels: bool) -> str:
    """The first known name of a column of texts, or of labels, that a header has; "" if it has none."""
    lowered = {name.strip().lower() for name in header}
    return next((name for name in (LABEL_NAMES if labels else TEXT_NAMES) if name in lowered), "")


def _only_column(fields: Sequence[str], path: str, keyed: bool, labels: bool) -> str:
    """The only column, as a number. Raises DataError if there are several."""
    if len(fields) > 1:
        found = f"the columns are {', '.join(fields)}" if keyed else messages.counted(len(fields), "column")
        hint = "call it text in the first line, or name it with --text-column, where a command has that option"
        if labels:
            hint = "--text-column names the predictions, --gold-column the gold labels"
        what = "which column is compared?" if labels else "which column has the texts?"
        raise DataError(f"{what} {found}", path=path, line=1, hint=hint)
    return "1"


def with_names(
    objects: Iterator[tuple[int, JsonObject]], path: str = "", needed: Collection[str] = ()
) -> Iterator[tuple[int, Sequence[Json]]]:
    """Objects as rows, the names of the first one before them. Missing fields are None.

    Raises DataError for an object of the file `path` that lacks one of the names that are `needed` at the time it is read.
    """
    names: list[str] = []
    for number, value in objects:
        if absent := [name for name in needed if name not in value]:
            hint = f"for an empty text, write {json.dumps(absent[0])}: null"
            raise DataError(f"no key {absent[0]!r}", path=path, line=number, hint=hint)
        if not names:
            names = list(value)
            yield number, names
        yield number, [value.get(name) for name in names]


def _parquet(path: str, groups: Sequence[int] | None = None) -> Iterator[tuple[int, JsonObject]]:
    """The rows of these row groups, numbered from 1; None: of all."""
    number = 0
    with _open_parquet(path, lambda: number + 1) as file:
        size, total = progress.size_of(path) or 0, max(1, file.metadata.num_rows)
        for batch in file.iter_batches(1024, row_groups=groups):
            progress.read(path, round(size * len(batch) / total), len(batch))
            for value in _shortest(batch).to_pylist():
                number += 1
                yield number, value


@contextmanager
def _open_parquet(path: str, place: Callable[[], int]) -> Iterator[Any]:
    """Context with a `ParquetFile`. Raises DataError, with the row `place()`, also for an error while it is read."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise Unavailable(f"{display(path)}: reading Parquet needs the pyarrow package", extra="parquet") from None
    with streams.open_bytes(path) as stream:
        try:
            file = parquet.ParquetFile(stream if stream.seekable() else io.BytesIO(stream.read()))
            header_names(file.schema_arrow.names, path)
            yield file
        except (ArrowException, OSError) as error:
            raise DataError(f"cannot be read as Parquet: {error}", path=path, line=place()) from None


def row_groups(path: str) -> list[int]:
    """The number of rows in each row group of a file of Parquet. Raises DataError, Unavailable."""
    with _open_parquet(path, lambda: 1) as file:
        return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]


def row_group(path: str, group: int) -> Iterator[JsonObject]:
    """The rows of a row group of a file of Parquet. Raises DataError, Unavailable."""
    return (row for _, row in _parquet(path, [group]))


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]], types: Mapping[str, str]) -> None:
    """Write rows to a file of Parquet, whole or not at all; missing keys are null.

    `types`: of the columns with these names, by Arrow's names; a name in brackets is a list. Other types follow from the values.

    Raises:
        DataError: values of different types have one key.
    """
    import pyarrow as pa
    from pyarrow import parquet

    def column(name: str) -> Any:
        arrow = None
        if name in types:
            inner = pa.type_for_alias(types[name].strip("[]"))
            arrow = pa.list_(inner) if types[name].startswith("[") else inner
        return pa.array([row.get(name) for row in rows], arrow)

    names = dict.fromkeys([*types, *(name for row in rows for name in row)])
    try:
        table = pa.table({name: column(name) for name in names})
    except pa.ArrowException as error:
        raise DataError(f"cannot be written as Parquet: {error}", path=str(path)) from None
    atomic.fill_named(path, lambda temporary: parquet.write_table(table, temporary))


def _shortest(batch: Any) -> Any:
    """A batch of Parquet with the shortest decimals for numbers of 32 bits: 0.1, not 0.10000000149."""
    import pyarrow as pa

    for place, field in enumerate(batch.schema):
        if pa.types.is_float32(field.type):
            column = batch.column(place).cast(pa.string()).cast(pa.float64())
            batch = batch.set_column(place, field.name, column)
    return batch


def _rte(path: str) -> Iterator[tuple[int, JsonObject]]:
    """The pairs of a file, with the keys premise, hypothesis, label and id."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    done: list[tuple[int, dict[str, str | None]]] = []
    texts: list[dict[str, str]] = []
    inside: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        inside.append(name)
        if name == "pair":
            label = attributes.get("entailment", attributes.get("value"))
            done.append((parser.CurrentLineNumber, {"id": attributes.get("id"), "label": label}))
            texts.append({"premise": "", "hypothesis": ""})

    def text(data: str) -> None:
        if done and inside[-1] in ("t", "h"):
            texts[-1]["premise" if inside[-1] == "t" else "hypothesis"] += data

    parser.StartElementHandler, parser.CharacterDataHandler = start, text
    parser.EndElementHandler = lambda name: inside.pop()
    with streams.open_bytes(path) as stream:
        try:
            parser.ParseFile(stream)
        except expat.ExpatError as error:
            raise DataError(f"not valid XML: {error}", path=path, line=error.lineno) from None
    for (number, attributes), pair in zip(done, texts, strict=True):
        yield number, {**attributes, **pair}
