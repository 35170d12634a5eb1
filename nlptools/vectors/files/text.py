"""Lines of a word and its numbers: the text of word2vec and fastText (after a line `V D`) and of GloVe (without it).

    the 0.418 0.24968 -0.41242 ...

Fields are separated by U+0020 and by nothing else, since words hold U+00A0 and U+3000. The last D fields are the numbers
and what stands before them is the word, so that words may hold spaces (as in GloVe's 840B file). A space at the end of
a line, which word2vec and fastText leave there, is no field. Written numbers have six significant digits where these
give the same float32 again, nine where they do not; fastText's own `.vec` always has five, and so has ours.
"""

from __future__ import annotations

import io
import os
import re
import stat
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from nlptools.errors import BundleError, DataError, UsageError
from nlptools.files import streams
from nlptools.files.streams import Output
from nlptools.vectors import checks
from nlptools.vectors.table import Floats, Vectors, Words

_CHUNK = 1 << 22
_ODD = (b"\t", b"\r", b"\v", b"\f")  # what float parsing takes for a space, and we do not
_BOM = b"\xef\xbb\xbf"


class Style(NamedTuple):
    """How a format writes lines."""

    header: bool
    digits: int  # 0: as many as the number needs
    end: bytes


WORD2VEC = Style(header=True, digits=0, end=b"\n")
VEC = Style(header=True, digits=5, end=b" \n")
GLOVE = Style(header=False, digits=0, end=b"\n")


# -- reading ----------------------------------------------------------------------------------------------------------


def read(path: str, style: Style, errors: str = "strict", opened: io.BufferedReader | None = None) -> Vectors:
    """The vectors in a text file, compressed or not, or standard input (`-`); `opened` where it is open already.

    Raises:
        InputError: no such file.
        BundleError: no header where one belongs, other counts or dimensions than it says, a number that is none or not
            finite, invalid UTF-8; with the line. Nothing is allocated on the word of a header.
    """
    chunks = _chunks(path, opened)
    first = next(chunks, b"")
    line, _, rest = first.partition(b"\n")
    header = None
    if style.header or re.fullmatch(rb"[0-9]+ [0-9]+ ?\r?", line):  # GloVe's -write-header 1
        header = checks.parse_header(line, path)
        checks.check_room(header, 2 * header.dimensions + 1, _size_after(path, len(line)), path)
        first = rest
    elif not first:
        checks.refuse(path, "the file is empty")
    table = _Table(path, header.dimensions if header else _dimensions(line, path), errors, header)
    table.add(first)
    for chunk in chunks:
        table.add(chunk)
    return table.finish()


def _chunks(path: str, opened: io.BufferedReader | None) -> Iterator[bytes]:
    """Whole lines at a time, without a byte order mark."""
    start = True
    try:
        for chunk in streams.line_chunks(path, _CHUNK, opened=opened):
            yield chunk.removeprefix(_BOM) if start else chunk
            start = False
    except DataError as error:  # damaged compressed data
        raise BundleError(str(error)) from None


def _size_after(path: str, used: int) -> int:
    """How many bytes may follow the first `used`; a guess from above where the size is not known."""
    if path == "-" or path.endswith(streams.COMPRESSED):
        return 1 << 62
    found = os.stat(path)
    return found.st_size - used if stat.S_ISREG(found.st_mode) else 1 << 62


def _dimensions(line: bytes, path: str) -> int:
    """The number of numbers at the end of GloVe's first line; its first field is the word in any case."""
    fields = line.rstrip(b"\r ").split(b" ")
    count = 0
    while count < len(fields) - 1 and _is_number(fields[-1 - count]):
        count += 1
    if not count:
        checks.refuse(path, "expected a word and numbers, separated by spaces", line=1)
    return count


def _is_odd(text: bytes) -> bool:
    return any(mark in text for mark in _ODD)


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return b"_" not in field


class _Table:
    """Words and rows as they arrive; memory follows what has been read, not what a header says."""

    def __init__(self, path: str, dimensions: int, errors: str, header: checks.Header | None) -> None:
        self.path, self.dimensions, self.errors, self.header = path, dimensions, errors, header
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
        spaces = line.count(b" ")
        if spaces == self.dimensions:
            word, _, rest = line.partition(b" ")
            return word, rest
        if spaces < self.dimensions:
            checks.refuse(self.path, f"expected a word and {self.dimensions} numbers, found {spaces + 1} fields",
                          line=number)  # fmt: skip
        fields = line.rsplit(b" ", self.dimensions)
        if self.header is None or not _is_number(fields[0].rpartition(b" ")[2]):
            return fields[0], line[len(fields[0]) + 1 :]
        # the word would end with a number: after a header, this is a row that is too long
        return checks.refuse(self.path, f"expected {self.dimensions} numbers, found more", line=number)

    def _decode(self, words: list[bytes]) -> list[str]:
        try:
            return b"\n".join(words).decode("utf-8", self.errors).split("\n")
        except UnicodeDecodeError:
            for offset, word in enumerate(words):
                try:
                    word.decode("utf-8")
                except UnicodeDecodeError as error:
                    hint = "--encoding-errors replace reads words that were cut inside a character"
                    message = f"the word is not valid UTF-8 (byte 0x{word[error.start]:02x})"
                    checks.refuse(self.path, message, line=self.line + offset, hint=hint)
            raise

    def _parse(self, numbers: list[bytes]) -> Floats:
        """Rows of numbers, float32 (N, D)."""
        joined = b" ".join(numbers)
        values = floats(joined)
        # each line has as many spaces as it should: two in a row leave a number too few
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
        """The table. Raises BundleError when the header says otherwise."""
        count = len(self.words)
        if self.header is not None and count != self.header.words:
            checks.refuse(self.path, f"the header says {self.header.words:,} words, {count:,} lines follow",
                          line=min(count, self.header.words) + 1)  # fmt: skip
        self.matrix.resize((count, self.dimensions), refcheck=False)
        return Vectors(Words.of(self.words), self.matrix, path=self.path)


def floats(text: bytes) -> Floats:
    """Numbers separated by spaces, float32; none of them, or those before it, where one is no number."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about what is no number; the caller counts
        try:
            found: Any = np.fromstring(text, np.float64, sep=" ")  # type: ignore[call-overload, unused-ignore]
        except ValueError:  # of newer versions of numpy
            return np.empty(0, np.float32)
    with np.errstate(over="ignore"):
        return np.asarray(found.astype(np.float32))


# -- writing ----------------------------------------------------------------------------------------------------------


def write(vectors: Vectors, out: Output, style: Style) -> None:
    """Write all vectors, a block at a time.

    Raises:
        UsageError: a word holds a newline, or a vector nothing that the format can show.
        StreamError: a write failed.
    """
    if style.header:
        out.write(f"{len(vectors)} {vectors.dimensions}\n")
    for start, rows in vectors.blocks():
        words = vectors.words[start : start + len(rows)]
        for word in words:
            if "\n" in word:
                raise UsageError(f"a word with a newline cannot stand in this format: {word!r}")
        size = max(1, (1 << 18) // vectors.dimensions)
        for i in range(0, len(rows), size):
            out.write(_lines(words[i : i + size], rows[i : i + size], style))


def _lines(words: list[str], rows: Floats, style: Style) -> bytes:
    fields = _numbers(rows.ravel(), style.digits)
    width, end = rows.shape[1], style.end.decode()
    parts = [f"{word} {' '.join(fields[i * width : (i + 1) * width])}{end}" for i, word in enumerate(words)]
    return "".join(parts).encode("utf-8", "surrogatepass")


def _numbers(values: Floats, digits: int) -> list[str]:
    """Decimal numbers of `digits` significant digits; 0: six, or nine where six would not give the same float32."""
    plain = values.tolist()
    fields = (" ".join([f"%.{digits or 6}g"] * len(plain)) % tuple(plain)).split(" ")
    if not digits:
        back = floats(" ".join(fields).encode())
        for i in np.flatnonzero(back != values).tolist():
            fields[i] = f"{plain[i]:.9g}"
    return fields
