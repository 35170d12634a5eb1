"""Records of tables and of files of objects: one reader for every command.

    rows       tables: fields between tabs, or CSV (RFC 4180: quotes around fields, which may then hold commas and line ends)
    objects    a JSON object per line; CSV with a header; Parquet, which needs the package pyarrow; the XML of RTE
Fields between tabs are never quoted or escaped. The number of a record is that of its first line, in Parquet of the row.
RTE: Dagan et al. 2006, `<pair id="1" entailment="YES"><t>text</t><h>hypothesis</h></pair>`, or `value="TRUE"`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any
from xml.parsers import expat

from nlptools import messages
from nlptools.configs import LARGEST
from nlptools.errors import DataError, Unavailable, display
from nlptools.files import compression, line_records, streams
from nlptools.files.streams import Block
from nlptools.formats.lines import Lines, column_number

_ROWS = 1024  # of a block
OBJECTS = ("jsonl", "parquet", "rte")
SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl", ".xml": "rte"}


def rows(lines: Lines, comma: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Number and fields of each line of a table between tabs, or with `comma` of each record of a CSV file.

    Raises:
        DataError: CSV with a quote that is not closed, or with a record of another number of fields than the first.
    """
    if not comma:
        for number, line in lines:
            yield number, line.split("\t")
        return
    csv.field_size_limit(LARGEST)
    reader = csv.reader((line + "\n" for _, line in lines), strict=True)
    number = width = 1
    try:
        for fields in reader:
            width = len(fields) if number == 1 else width
            if fields and len(fields) != width:
                hint = "a field with a comma or a quote must be quoted"
                raise lines.refuse(number, f"{len(fields)} fields, expected {width}", hint)
            yield number, fields or [""]
            number = reader.line_num + 1
    except csv.Error as error:
        raise lines.refuse(number, f"malformed CSV: {error}", "write a quote within a field twice") from None


def objects(lines: Lines, layout: str = "jsonl") -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and value of each record of a file in the layout "jsonl", "csv" or "tsv" with a header, "parquet" or "rte".

    Raises:
        DataError: malformed, with file and line.
        Unavailable: Parquet without pyarrow.
    """
    if layout == "parquet":
        yield from _parquet(lines.path)
    elif layout == "rte":
        yield from _rte(lines.path)
    elif layout in ("csv", "tsv"):
        names: list[str] = []
        for number, fields in rows(lines, comma=layout == "csv"):
            if names and fields != [""]:
                if len(fields) < len(names):
                    hint = "each line has a field for each name in the first line"
                    raise lines.refuse(
                        number, f"{messages.counted(len(fields), 'column')}, expected {len(names)}", hint
                    )
                yield number, dict(zip(names, fields))
            names = names or [name.strip() for name in fields]
    else:
        for number, line in lines.until_blank_end():
            yield number, line_records.parse_json_object(line, lines.path, number)


def texts(paths: Sequence[str], names: Sequence[str], errors: str = "strict") -> Iterator[Block]:
    """The lines of files in blocks, or with `names` those columns of tables; see `columns_of`.

    Of several columns, tabs separate the fields, which are escaped as in all our tables. Line ends in a single one become
    spaces.
    """
    if not names:  # train-seq2seq reads lines as well
        yield from streams.all_blocks(paths, errors)
        return
    for path in streams.check_inputs(paths):
        block = Block(path, 1, [])
        for number, fields in columns_of(path, names, errors):
            if len(block.lines) == _ROWS or number != block.start + len(block.lines):
                if block.lines:
                    yield block
                block = Block(path, number, [])
            several = len(names) > 1
            block.lines.append("\t".join(map(line_records.escape, fields)) if several else fields[0].replace("\n", " "))
        if block.lines:
            yield block


def columns_of(
    path: str, names: Sequence[str], errors: str = "strict", header: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Number of the line, and the fields in the columns `names` of each record of a file, whose suffix names the layout:
    CSV, Parquet, JSON lines, or else a table between tabs.

    `header`: the first line names the columns. It does too if one of `names` is not a number, and in Parquet and JSON lines.

    Raises:
        DataError: no such column, or a malformed record; with file and line.
    """
    lines = Lines(path, errors)
    kind = next((kind for end, kind in SUFFIXES.items() if compression.without_suffix(path).endswith(end)), "")
    keyed = kind in ("parquet", "jsonl")
    table = _table(objects(lines, kind)) if keyed else rows(lines, kind == "csv")
    first = next(table, None)
    if first is None:
        return
    header |= keyed or not all(name.lstrip("-").isdecimal() for name in names)
    places = [column_number(name, first[1] if header else (), len(first[1]), path) for name in names]
    for number, fields in table if header else chain([first], table):
        if len(fields) <= max(places):
            message = f"{messages.counted(len(fields), 'column')}, expected at least {max(places) + 1}"
            raise DataError(message, path=path, line=number)
        yield number, [fields[place] for place in places]


def _table(values: Iterator[tuple[int, dict[str, Any]]]) -> Iterator[tuple[int, list[str]]]:
    """Objects as rows, the names of the first one before them."""
    names: list[str] = []
    for number, value in values:
        if not names:
            names = list(value)
            yield number, names
        yield number, ["" if (field := value.get(name)) is None else str(field) for name in names]


def _parquet(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise Unavailable(f"{display(path)}: reading Parquet needs the pyarrow package", extra="parquet") from None
    number = 0
    with streams.open_bytes(path) as stream:
        try:
            file = parquet.ParquetFile(stream if stream.seekable() else io.BytesIO(stream.read()))
            for batch in file.iter_batches(1024):
                for value in batch.to_pylist():
                    number += 1
                    yield number, value
        except (ArrowException, OSError) as error:
            raise DataError(f"cannot be read as Parquet: {error}", path=path, line=number + 1) from None


def _rte(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The pairs of a file, with the keys premise, hypothesis, label and id."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    done: list[tuple[int, dict[str, Any]]] = []
    inside: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        inside.append(name)
        if name == "pair":
            label = attributes.get("entailment", attributes.get("value"))
            value = {"id": attributes.get("id"), "premise": "", "hypothesis": "", "label": label}
            done.append((parser.CurrentLineNumber, value))

    def text(data: str) -> None:
        if done and inside[-1] in ("t", "h"):
            done[-1][1]["premise" if inside[-1] == "t" else "hypothesis"] += data

    parser.StartElementHandler, parser.CharacterDataHandler = start, text
    parser.EndElementHandler = lambda name: inside.pop()
    with streams.open_bytes(path) as stream:
        try:
            parser.ParseFile(stream)
        except expat.ExpatError as error:
            raise DataError(f"not valid XML: {error}", path=path, line=error.lineno) from None
    yield from done
