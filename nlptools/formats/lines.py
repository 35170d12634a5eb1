"""Numbered lines of one task file, with a look at the first before anything is decided, and columns by name or number.

Published files are taken as they stand: quotes and backslashes are text, tabs separate fields, nothing is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nlptools.errors import DataError, UsageError
from nlptools.errors import shown as shown
from nlptools.files import streams
from nlptools.formats.examples import Place

_ESCAPED = re.compile("[\udc80-\udcff]")
_COLUMN_CURE = "a column is named, or numbered from 1; -1 is the last"


@dataclass
class Lines:
    """The lines of a file (`-`: standard input), once.

    Attributes:
        latin: bytes that are no UTF-8 are Latin-1, as in TREC's files; may be set until the lines are read.
    """

    path: str
    errors: str = "strict"
    latin: bool = False

    def __post_init__(self) -> None:
        # Bytes that are no UTF-8 stay recognizable until it is known what the file is.
        self._blocks = streams.blocks(self.path, "surrogateescape")
        self._first = next(self._blocks, None)

    def first(self) -> str | None:
        """The first line, None in an empty file."""
        if self._first is None:
            return None
        return _ESCAPED.sub("\ufffd", self._first.lines[0])

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Number, from 1, and text of each line.

        Raises:
            DataError: invalid UTF-8 while `errors` is "strict".
        """
        block = self._first
        while block is not None:
            for number, line in enumerate(block.lines, block.start):
                if not line.isascii() and _ESCAPED.search(line):
                    line = self._decode(number, line)
                yield number, line
            block = next(self._blocks, None)

    def _decode(self, number: int, line: str) -> str:
        raw = line.encode("utf-8", "surrogateescape")
        if self.latin:
            return raw.decode("latin-1")
        if self.errors == "strict":
            streams.refuse_invalid(self.path, number, [raw])
        return raw.decode("utf-8", self.errors)

    def refuse(self, number: int, message: str, hint: str | None = None) -> DataError:
        """The error for line `number`."""
        return DataError(message, path=self.path, line=number, hint=hint)

    def place(self, number: int) -> Place:
        """Where line `number` is."""
        return Place(self.path, number)


def column_number(column: str, header: Sequence[str], width: int, path: str) -> int:
    """The place, from 0, of `column` (a name in `header`, or a number from 1, -1 the last) in lines of `width` fields.

    Raises:
        DataError: there is no such column in the file.
        UsageError: 0.
    """
    lowered = [name.strip().lower() for name in header]
    if column.lower() in lowered:
        return lowered.index(column.lower())
    if re.fullmatch(r"-?[0-9]+", column):
        number = int(column)
        if not number:
            raise UsageError("columns are counted from 1 (-1 is the last): there is no column 0")
        if abs(number) > width:
            told = f"no column {number}: the first line has {columns(width)}"
            raise DataError(told, path=path, line=1, hint=_COLUMN_CURE)
        return number - 1 if number > 0 else width + number
    named = f"the columns are {', '.join(header)}" if header else "the columns have no names"
    raise DataError(f"no column {column!r}: {named}", path=path, line=1, hint=_COLUMN_CURE)


def columns(count: int) -> str:
    """`count` columns, in words."""
    return f"{count} column{'s' if count != 1 else ''}"
