"""Tables of texts and other columns, which are kept: stimuli with items and conditions, lists of candidates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nlptools.errors import DataError
from nlptools.files.layout_names import named_layout
from nlptools.files.line_records import escape, unescape
from nlptools.formats import records, values
from nlptools.formats.lines import InputLines, column_number, header_names
from nlptools.json_types import Json


@dataclass(frozen=True)
class Stimuli:
    """Some records of a table.

    Attributes:
        names: of the columns; empty if the table does not name them.
        place: the column of the texts, from 0.
        rows: the fields of each record, escaped for a table between tabs.
        texts: the text of each record.
        first: whether these are the first records of the first file.
    """

    names: tuple[str, ...]
    place: int
    rows: list[list[str]]
    texts: list[str]
    first: bool

    def other(self, fields: Sequence[str]) -> list[str]:
        """`fields` without the text."""
        return [field for place, field in enumerate(fields) if place != self.place]


def read(paths: Sequence[str], column: str, size: int, errors: str = "strict") -> Iterator[Stimuli]:
    """The records of files, at most `size` at a time. The suffix of a file determines its layout: CSV, Parquet, JSON lines, or
    a table of fields between tabs, with escapes.

    Args:
        column: a name in the first line (a key of JSON), or a number from 1, -1 the last: then there are no names, except
            in Parquet and JSON lines.

    Raises:
        DataError: no such column, a record without it, a file with other columns than the first; with file and line.
    """
    names: tuple[str, ...] | None = None
    for path in paths:
        for window in _windows(path, column, size, errors, names is None):
            if names is not None and window.names != names:
                raise DataError(f"other columns than in {paths[0]}", path=path, line=1)
            names = window.names
            yield window


def _windows(path: str, column: str, size: int, errors: str, first: bool) -> Iterator[Stimuli]:
    lines, kind = InputLines(path, errors), named_layout(path)
    keyed, tabs = kind in ("jsonl", "parquet"), kind != "csv"
    table: Iterator[tuple[int, Sequence[Json]]]
    table = (
        records.with_names(records.objects(lines, kind)) if keyed else records.rows(lines, records.delimiter_of(kind))
    )
    names: tuple[str, ...] = ()
    place, rows, texts = -1, [], []
    for number, fields in table:
        if place < 0:
            numbered = re.fullmatch(r"-?[0-9]+", column) is not None
            head = header_names([str(field) for field in fields], path, number) if keyed or not numbered else []
            names = tuple(map(escape, head))
            place = int(column) if numbered and not keyed else column_number(column, head, len(head), path)
            place -= numbered and not keyed and place > 0
            if names:
                continue
        if not -len(fields) <= place < len(fields):
            raise DataError(f"no column {column}: the line has {len(fields)}", path=path, line=number)
        if names and len(fields) != len(names):
            raise DataError(f"{len(fields)} columns, expected {len(names)}", path=path, line=number)
        plain = ["" if field is None else values.text(field) for field in fields]
        raw = not keyed and tabs
        rows.append(plain if raw else list(map(escape, plain)))
        texts.append(unescape(plain[place]) if raw else plain[place])
        if len(rows) == size:
            yield Stimuli(names, place % len(fields), rows, texts, first)
            rows, texts, first = [], [], False
    if rows or names:
        yield Stimuli(names, place, rows, texts, first)
