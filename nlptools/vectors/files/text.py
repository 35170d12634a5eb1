"""Lines of a word and its numbers: the text of word2vec and fastText (after a line `V D`), of GloVe (without it), and TSV.

    the 0.418 0.24968 -0.41242 ...

Only U+0020 separates fields, since words contain U+00A0 and U+3000. The last D fields are the numbers and all before them is
the word, so words may contain spaces (as in GloVe's 840B file). A space at the end of a line, as word2vec and fastText write
it, is not a field. In TSV, tabs separate fields, and words are escaped as in all our tables. Numbers are written with six
significant digits if these give the same float32 again, else with nine; in fastText's `.vec` always with five, as fastText
does.
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nlptools.arrays import Floats
from nlptools.errors import BundleError, DataError, UsageError
from nlptools.files import compression, streams
from nlptools.files.input_parts import BOM
from nlptools.files.line_records import escape, unescape
from nlptools.files.streams import LineWriter
from nlptools.vectors import checks
from nlptools.vectors.files.decimals import floats, rows_of_decimals
from nlptools.vectors.table import Vectors

_CHUNK = 1 << 22
_ODD = (b"\t", b"\r", b"\v", b"\f")  # spaces for float parsing, but not in this format


@dataclass(frozen=True)
class TextFormat:
    """A layout of lines, with the methods of every format in `nlptools.configs.vectors.FORMATS`.

    Attributes:
        header: whether the first line is `V D`. GloVe's files may have it, too (-write-header 1).
        digits: significant digits, and those for numbers that need more to be the same float32 again.
        end: the end of a line.
        separator: what separates fields.
    """

    header: bool = True
    digits: tuple[int, int] = (6, 9)
    end: str = "\n"
    separator: str = " "

    def read(self, path: str, errors: str = "strict", opened: io.BufferedReader | None = None) -> Vectors:
        """The vectors of a file, compressed or not, or standard input (`-`), in memory.

        Args:
            opened: the stream, if it is open already.

        Raises:
            InputError: no such file.
            BundleError: a missing header, other counts or dimensions than the header has, a field that is not a finite
                number, invalid UTF-8; names the line. Nothing is allocated from what a header claims.
        """
        chunks = _chunks(path, opened)
        first = next(chunks, b"")
        line, _, rest = first.partition(b"\n")
        header = None
        if self.header or re.fullmatch(rb"[0-9]+[ \t][0-9]+ ?\r?", line):
            header = checks.parse_header(line.replace(b"\t", b" ") if self.separator == "\t" else line, path)
            checks.check_room(header, 2 * header.dimensions + 1, _size_after(path, len(line)), path)
            first = rest
        elif not first:
            checks.refuse(path, "the file is empty")
        separator = self.separator.encode()
        dimensions = header.dimensions if header else _dimensions(line, path, separator)
        table = _Table(path, dimensions, errors, header, separator)
        table.add(first)
        for chunk in chunks:
            table.add(chunk)
        return table.finish()

    def save(self, vectors: Vectors, path: str, *, force: bool = False) -> None:
        """Write all vectors, a block at a time.

        Raises:
            OutputError: the file exists.
            UsageError: a word contains a newline.
            StreamError: a write failed.
        """
        with LineWriter(path, force=force, layout=None) as out:
            if self.header:
                out.write(f"{len(vectors)} {vectors.dimensions}\n")
            size = max(1, (1 << 18) // vectors.dimensions)
            for start, rows in vectors.blocks():
                words = vectors.words[start : start + len(rows)]
                for word in words:
                    if "\n" in word:
                        raise UsageError(f"a word with a newline cannot be written in this format: {word!r}")
                for i in range(0, len(rows), size):
                    out.write(self._lines(words[i : i + size], rows[i : i + size]))

    def _lines(self, words: list[str], rows: Floats) -> bytes:
        numbers = rows_of_decimals(rows, self.separator, self.digits)
        if self.separator == "\t":
            words = list(map(escape, words))
        lines = [f"{word}{self.separator}{row}{self.end}" for word, row in zip(words, numbers, strict=True)]
        return "".join(lines).encode("utf-8", "surrogatepass")


WORD2VEC = TextFormat()
VEC = TextFormat(digits=(5, 5), end=" \n")
GLOVE = TextFormat(header=False)
TSV = TextFormat(header=False, separator="\t")


def _chunks(path: str, opened: io.BufferedReader | None) -> Iterator[bytes]:
    """Whole lines at a time, without a byte order mark."""
    start = True
    try:
        for chunk in streams.line_chunks(path, _CHUNK, opened=opened):
            yield chunk.removeprefix(BOM) if start else chunk
            start = False
    except DataError as error:  # damaged compressed data, or a line beyond --max-line
        raise BundleError(str(error), hint=error.hint) from None


def _size_after(path: str, used: int) -> int:
    """Upper bound on the number of bytes after the first `used`."""
    if path == "-" or compression.is_compressed(path):
        return 1 << 62
    status = os.stat(path)
    return status.st_size - used if stat.S_ISREG(status.st_mode) else 1 << 62


def _dimensions(line: bytes, path: str, separator: bytes) -> int:
    """How many numbers end the first line, of GloVe or TSV; its first field is the word in any case."""
    fields = line.rstrip(b"\r ").split(separator)
    count = 0
    while count < len(fields) - 1 and _is_number(fields[-1 - count]):
        count += 1
    if not count:
        between = "tabs" if separator == b"\t" else "spaces"
        checks.refuse(path, f"expected a word and numbers, separated by {between}", line=1, hint=_hint(line, separator))
    return count


def _hint(line: bytes, separator: bytes) -> str | None:
    """What to do where a line of words between spaces has tabs."""
    return "--from tsv reads tab-separated fields" if separator == b" " and b"\t" in line else None


def _is_odd(text: bytes) -> bool:
    return any(mark in text for mark in _ODD)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


class _Table:
    """Words and rows read so far. Memory grows with what has been read, not with what a header claims."""

    def __init__(self, path: str, dimensions: int, errors: str, header: checks.Header | None, separator: bytes) -> None:
        self.path, self.dimensions, self.errors, self.header = path, dimensions, errors, header
        self.separator = separator
        self.words: list[str] = []
        self.matrix: Floats = np.empty((0, dimensions), np.float32)
        self.line = 2 if header else 1

    def add(self, chunk: bytes) -> None:
        """Parse whole lines."""
        lines = chunk.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if not lines:
            return
        words, numbers = [], []
        for offset, line in enumerate(lines):
            word, rest = self._split(line, self.line + offset)
            words.append(word)
            numbers.append(rest)
        text = self._decode(words)
        self._store(self._parse(numbers))
        self.words += text
        self.line += len(lines)

    def _split(self, line: bytes, number: int) -> tuple[bytes, bytes]:
        """The word of a line, and its numbers as text."""
        line = line.rstrip(b"\r ") if line[-1:] in (b" ", b"\r") else line
        between = line.count(self.separator)
        if between == self.dimensions:
            word, _, rest = line.partition(self.separator)
            return word, rest
        if between < self.dimensions:
            checks.refuse(self.path, f"expected a word and {self.dimensions} numbers, found {between + 1} fields",
                          line=number, hint=_hint(line, self.separator))  # fmt: skip
        fields = line.rsplit(self.separator, self.dimensions)
        if self.header is None or not _is_number(fields[0].rpartition(self.separator)[2]):
            return fields[0], line[len(fields[0]) + 1 :]
        # the word would end with a number: with a header, this row is too long
        return checks.refuse(self.path, f"expected {self.dimensions} numbers, found more", line=number)

    def _decode(self, words: list[bytes]) -> list[str]:
        try:
            names = b"\n".join(words).decode("utf-8", self.errors).split("\n")
        except UnicodeDecodeError as error:
            line = self.line + error.object.count(b"\n", 0, error.start)
            message = f"the word is not valid UTF-8 (byte 0x{error.object[error.start]:02x})"
            checks.refuse(self.path, message, line=line, hint=checks.CUT_WORDS)
        return list(map(unescape, names)) if self.separator == b"\t" else names

    def _parse(self, numbers: list[bytes]) -> Floats:
        """Rows of numbers, float32 (N, D)."""
        joined = b" ".join(numbers)
        if self.separator == b"\t":
            numbers, joined = [text.replace(b"\t", b" ") for text in numbers], joined.replace(b"\t", b" ")
        values = floats(joined)
        # each line has the right number of spaces, so two in a row leave too few numbers
        if len(values) != len(numbers) * self.dimensions or _is_odd(joined) or not np.isfinite(values).all():
            self._refuse_number(numbers)
        return values.reshape(-1, self.dimensions)

    def _refuse_number(self, numbers: list[bytes]) -> None:
        for offset, text in enumerate(numbers):
            for field in text.split(b" "):
                value = floats(field)
                if len(value) != 1 or _is_odd(field) or not _is_number(field) or not np.isfinite(value[0]):
                    shown = field[:40].decode("utf-8", "replace")
                    checks.refuse(self.path, f"expected a finite number, found {shown!r}", line=self.line + offset)
        raise AssertionError("every field is a number")

    def _store(self, rows: Floats) -> None:
        used = len(self.words)
        if used + len(rows) > len(self.matrix):  # realloc moves pages, not bytes
            self.matrix.resize((max(used + len(rows), len(self.matrix) * 3 // 2), self.dimensions), refcheck=False)
        self.matrix[used : used + len(rows)] = rows

    def finish(self) -> Vectors:
        """The table, without repeated words. Raises BundleError if the header has another number of words."""
        count = len(self.words)
        if self.header is not None and count != self.header.words:
            checks.refuse(self.path, f"the header says {self.header.words:,} words, {count:,} lines follow",
                          line=min(count, self.header.words) + 1)  # fmt: skip
        self.matrix.resize((count, self.dimensions), refcheck=False)
        keep = checks.keep_first(self.words, self.path)
        if keep is not None:
            self.words, self.matrix = [self.words[place] for place in keep], self.matrix[keep]
        return Vectors(self.words, self.matrix, path=self.path)
