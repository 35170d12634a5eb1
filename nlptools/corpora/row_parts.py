"""Inputs divided into parts of rows, for jobs on many machines: a process can read any part without the others.

Text and JSON lines are divided at line ends into parts of nearly equal size. A part of Parquet is a row group.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nlptools.corpora.row_outputs import ERROR
from nlptools.errors import DataError, UsageError
from nlptools.files import input_parts, line_records, streams
from nlptools.files.layout_names import named_layout
from nlptools.formats.records import one_line, row_group, row_groups
from nlptools.json_types import JsonObject

LAYOUTS = ("text", "jsonl", "parquet")


@dataclass(frozen=True)
class InputRow:
    """A row of an input: its keys and values, its text, and the error if it has one."""

    record: JsonObject
    text: str
    error: str | None = None


@dataclass(frozen=True)
class RowParts:
    """The parts of some files of one layout.

    Attributes:
        columns: the keys of the text; several are joined by tabs, with escapes. Lines of text get the first key.
        parts: their number.
        groups: file, row group and number of rows of each part of Parquet.
    """

    inputs: tuple[str, ...]
    columns: tuple[str, ...]
    layout: str
    parts: int
    groups: tuple[tuple[str, int, int], ...] = ()

    @classmethod
    def of(cls, inputs: Sequence[str], columns: Sequence[str], part_bytes: int) -> RowParts:
        """The parts of text, JSON lines (`.jsonl`) or Parquet (`.parquet`).

        Raises:
            UsageError: standard input, several layouts, or another one.
            InputError, DataError, Unavailable: an input cannot be read.
        """
        names = streams.check_inputs(inputs)
        input_parts.refuse_standard_input(names)
        layouts = sorted({named_layout(name) or "text" for name in names})
        if len(layouts) > 1 or layouts[0] not in LAYOUTS:
            raise UsageError(f"the inputs are {' and '.join(layouts)}, expected text, jsonl or parquet, one of them")
        if layouts == ["parquet"]:
            groups = [(name, group, rows) for name in names for group, rows in enumerate(row_groups(name))]
            return cls(tuple(names), tuple(columns), "parquet", len(groups), tuple(groups))
        parts = max(1, math.ceil(sum(map(os.path.getsize, names)) / part_bytes))
        return cls(tuple(names), tuple(columns), layouts[0], parts)

    def describe(self) -> dict[str, object]:
        """The inputs and columns, for the record of a job."""
        sizes = [[name, os.path.getsize(name)] for name in self.inputs]
        return {"inputs": sizes, "columns": self.columns, "parts": self.parts}

    def count(self, part: int) -> int:
        """The number of rows of a part. Text and JSON lines are read for it."""
        return self.groups[part][2] if self.groups else sum(1 for _ in self._lines(part))

    def rows(self, part: int) -> Iterator[InputRow]:
        """The rows of a part, numbered from 0. Raises InputError, DataError if a file cannot be read."""
        if self.groups:
            name, group, _ = self.groups[part]
            yield from (self._checked(record) for record in row_group(name, group))
        else:
            yield from (self._parsed(line, number) for number, line in enumerate(self._lines(part), 1))

    def _lines(self, part: int) -> Iterator[bytes]:
        """The lines of a part, without their ends."""
        for name in input_parts.shard(self.inputs, part + 1, self.parts):
            with input_parts.reader(name) as stream:
                for number, raw in enumerate(stream):
                    if not number and input_parts.begins(name):
                        raw = raw.removeprefix(input_parts.BOM)
                    if raw:
                        yield raw.removesuffix(b"\n").removesuffix(b"\r")

    def _parsed(self, raw: bytes, number: int) -> InputRow:
        try:
            line = raw.decode()
            if self.layout == "jsonl":
                return self._checked(line_records.parse_json_object(line, "line", number))
        except (DataError, UnicodeError) as error:
            record: JsonObject = {self.columns[0]: raw.decode("utf-8", "replace")}
            return InputRow(
                record, "", str(error).removeprefix(f"line:{number}: ")
            )  # its line in the file is not known
        return InputRow({self.columns[0]: line}, line)

    def _checked(self, record: JsonObject) -> InputRow:
        """A row with its text; or with the reason why it has none."""
        texts = [value for name in self.columns if isinstance(value := record.get(name), str)]
        if len(texts) < len(self.columns):
            missing = next(name for name in self.columns if not isinstance(record.get(name), str))
            return InputRow(record, "", f"no text under the key {missing!r}")
        if ERROR in record:
            return InputRow(record, "", f"the key {ERROR!r} is for rows that fail, expected another name")
        return InputRow(record, "\t".join(map(line_records.escape, texts)) if len(texts) > 1 else one_line(texts[0]))
