"""Numbered lines of one file of examples, which readers may look at in advance, and columns by name or number.

Published files are read unchanged: quotes and backslashes are text, tabs separate fields, nothing is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from nlptools import messages
from nlptools.errors import DataError, UsageError, display, shown
from nlptools.files import streams
from nlptools.formats.examples import Place

_ESCAPED = re.compile("[\udc80-\udcff]")
RETURNS = "the lines of the file end at a carriage return alone, as on an old Mac, expected line feeds"
RETURNS_HINT = "tr '\\r' '\\n' < FILE > NEW"
_COLUMN_HINT = "give a name, or a number from 1; -1 is the last"


@dataclass
class InputLines:
    """The lines of a file (`-`: standard input), once.

    Attributes:
        latin: lines that are not UTF-8 are Latin-1, as in TREC's files; may be set until the lines are read.
        keep_returns: keep the carriage return before the end of a line, which a quoted field of CSV may contain; may be set
            until the lines are read.
    """

    path: str
    errors: str = "strict"
    latin: bool = False
    keep_returns: bool = False

    def __post_init__(self) -> None:
        # Bytes that are not UTF-8 stay recognizable until the layout is known.
        self._blocks = streams.blocks(self.path, "surrogateescape", keep_returns=True)
        self._ahead: list[streams.LineBlock] = []  # blocks that were looked at

    def _looked_at(self) -> Iterator[streams.LineBlock]:
        """The blocks from the first, which iteration gives again."""
        yield from self._ahead
        for block in self._blocks:
            self._ahead.append(block)
            yield block

    def ahead(self) -> Iterator[tuple[int, str]]:
        """Number and text of each line in advance; iteration still begins at the first line."""
        for block in self._looked_at():
            for number, line in enumerate(block.lines, block.start):
                yield number, _ESCAPED.sub("\ufffd", line.removesuffix("\r"))

    def first(self) -> str | None:
        """The first line, None in an empty file."""
        return next((line for _, line in self.ahead()), None)

    def refuse_old_mac(self) -> None:
        """Raise DataError for a table with carriage returns as line ends, which reads as one long line."""
        block = next(self._looked_at(), None)
        rows = block.lines[0].rstrip("\r").split("\r") if block and len(block.lines) == 1 else []
        if len(rows) > 1 and len({row.count("\t") for row in rows}) == 1 and "\t" in rows[0]:
            raise self.refuse(1, RETURNS, RETURNS_HINT)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Number, from 1, and text of each line.

        Raises:
            DataError: invalid UTF-8 while `errors` is "strict".
        """
        ahead, self._ahead = self._ahead, []
        for block in chain(ahead, self._blocks):
            for number, line in enumerate(block.lines, block.start):
                if not line.isascii() and _ESCAPED.search(line):
                    line = self._decode(number, line)
                yield number, line if self.keep_returns else line.removesuffix("\r")

    def filled(self) -> Iterator[tuple[int, str]]:
        """As iteration, without blank lines; those before the end are counted in a note."""
        blank = skipped = 0
        for number, line in self:
            if not line.strip():
                blank += 1
            else:
                skipped, blank = skipped + blank, 0
                yield number, line
        self.note_skipped(skipped)

    def note_skipped(self, count: int) -> None:
        """Report the number of skipped empty lines, if any."""
        if count:
            messages.note(f"{display(self.path)}: skipped {messages.counted(count, 'empty line')}")

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


def header_names(fields: Sequence[str], path: str, line: int = 1) -> list[str]:
    """The names of columns in a header, without spaces around them. Raises DataError for two of the same name."""
    names = [name.strip() for name in fields]
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"two columns have the name {shown(twice)}", path=path, line=line, hint="rename one of them")
    return names


def delimiter_hint(fields: Sequence[str], delimiter: str) -> str | None:
    """The cure for a line of CSV with a single field that contains another delimiter; None if it contains none."""
    if len(fields) != 1 or not delimiter:
        return None
    others = {
        "\t": "tabs: --layout table or --delimiter tab",
        ";": "semicolons: --delimiter ';'",
        "|": "bars: --delimiter '|'",
    }
    others[","] = "commas: --delimiter ,"
    return next(
        (f"fields between {text}" for mark, text in others.items() if mark in fields[0] and mark != delimiter), None
    )


def joined_names(column: str, known: Collection[str]) -> list[str]:
    """The names of the columns that `column` stands for: one of `known`, or several between commas, which are joined."""
    if "," not in column or column.strip().lower() in {name.strip().lower() for name in known}:
        return [column]
    return [name.strip() for name in column.split(",")]


def column_numbers(column: str, header: Sequence[str], width: int, path: str) -> tuple[int, ...]:
    """The places of the columns that `column` stands for; see `joined_names` and `column_number`, also for errors."""
    return tuple(column_number(name, header, width, path) for name in joined_names(column, header))


def joined(fields: Iterable[str]) -> str:
    """The text of one or several columns, with spaces between them; empty ones are left out."""
    several = list(fields)
    return several[0] if len(several) == 1 else " ".join(filter(None, several))


def column_number(column: str, header: Sequence[str], width: int, path: str) -> int:
    """The place, from 0, of `column` (a name in `header`, or a number from 1, -1 the last) in lines of `width` fields.

    Raises:
        DataError: the file has no such column, or two names that differ in case only.
        UsageError: the number 0.
    """
    names = [name.strip() for name in header]
    if column in names:
        return names.index(column)
    lowered = [name.lower() for name in names]
    if lowered.count(column.lower()) > 1:
        message = f"several columns are called {column!r}, in upper or lower case"
        raise DataError(message, path=path, line=1, hint="write the name exactly as in the first line")
    if column.lower() in lowered:
        return lowered.index(column.lower())
    if re.fullmatch(r"-?[0-9]{1,9}", column):
        number = int(column)
        if not number:
            raise UsageError("no column 0: columns are counted from 1 (-1 is the last)")
        if abs(number) > width:
            message = f"no column {number}: the first line has {messages.counted(width, 'column')}"
            raise DataError(message, path=path, line=1, hint=_COLUMN_HINT)
        return number - 1 if number > 0 else width + number
    named = f"the columns are {', '.join(header)}" if header else "the first line does not name it"
    hint = delimiter_hint(header, ",") or _COLUMN_HINT
    raise DataError(f"no column {column!r}: {named}", path=path, line=1, hint=hint)
