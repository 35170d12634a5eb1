"""Numbered lines of one file of examples, with a look at the first, and columns by name or number.

Published files are read unchanged: quotes and backslashes are text, tabs separate fields, nothing is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from nlptools import messages
from nlptools.errors import DataError, UsageError
from nlptools.files import streams
from nlptools.formats.examples import Place

_ESCAPED = re.compile("[\udc80-\udcff]")
_COLUMN_HINT = "give a name, or a number from 1; -1 is the last"


@dataclass
class Lines:
    """The lines of a file (`-`: standard input), once.

    Attributes:
        latin: lines that are not UTF-8 are Latin-1, as in TREC's files; may be set until the lines are read.
    """

    path: str
    errors: str = "strict"
    latin: bool = False

    def __post_init__(self) -> None:
        # Bytes that are not UTF-8 stay recognizable until the layout is known.
        self._blocks = streams.blocks(self.path, "surrogateescape")

    def first(self) -> str | None:
        """The first line, None in an empty file."""
        block = next(self._blocks, None)
        if block is None:
            return None
        self._blocks = chain([block], self._blocks)
        return _ESCAPED.sub("\ufffd", block.lines[0])

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Number, from 1, and text of each line.

        Raises:
            DataError: invalid UTF-8 while `errors` is "strict".
        """
        for block in self._blocks:
            for number, line in enumerate(block.lines, block.start):
                if not line.isascii() and _ESCAPED.search(line):
                    line = self._decode(number, line)
                yield number, line

    def until_blank_end(self) -> Iterator[tuple[int, str]]:
        """As iteration, without the blank lines at the end. Raises DataError for one before the end."""
        blank = 0
        for number, line in self:
            if not line.strip():
                blank = blank or number
            elif blank:
                raise self.refuse(blank, "an empty line", "remove it")
            else:
                yield number, line

    def _decode(self, number: int, line: str) -> str:
        raw = line.encode("utf-8", "surrogateescape")
        if self.latin:
            return raw.decode("latin-1")
        if self.errors == "strict":
            streams.refuse_invalid(self.path, number, [raw])
        return raw.decode("utf-8", self.errors)

    def refuse(self, number: int, message: str, hint: str | None = None) -> DataError:
        """The error for line `number`."""
        return self.place(number).error(message, hint)

    def place(self, number: int) -> Place:
        """The place of line `number`."""
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
            raise UsageError("no column 0: columns are counted from 1 (-1 is the last)")
        if abs(number) > width:
            message = f"no column {number}: the first line has {messages.counted(width, 'column')}"
            raise DataError(message, path=path, line=1, hint=_COLUMN_HINT)
        return number - 1 if number > 0 else width + number
    named = f"the columns are {', '.join(header)}" if header else "the first line does not name it"
    raise DataError(f"no column {column!r}: {named}", path=path, line=1, hint=_COLUMN_HINT)
