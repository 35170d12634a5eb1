"""Writes vectors while they are computed, before their number is known: `.npy`, JSON lines, TSV, word2vec's text.

npy: in a file, the header has room for any number of rows and is completed at the end. The file is then one array, which can be
mapped, and its lines are in `NAME.vocab.tsv`. Standard output that is a file is also completed, but gets no file of lines. A
pipe, a compressed file and a file that is appended to cannot be completed: they get a whole array for each written part.
`nlptools.vectors.files.npy` reads these as one array.

jsonl: {"text": ..., "embedding": [...]} per line. tsv: the text, escaped, then the numbers, separated by tabs. Numbers of
these and of word2vec have eight significant digits if these give the same float32 again, else nine; float16 has four or
five.

word2vec: a line `V D`, completed like the header of npy; where that is impossible, a temporary file holds all lines until V
is known. Spaces in a text are written as `_`, since a space ends the word for other readers; such texts are counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import IO

import numpy as np

from nlptools import messages
from nlptools.arrays import Array
from nlptools.configs.vectors import STREAMED
from nlptools.errors import BundleError, StreamError, UsageError, display, reason
from nlptools.files.line_records import escape
from nlptools.files.streams import LineWriter
from nlptools.vectors.files.decimals import rows_of_decimals
from nlptools.vectors.files.npy import DTYPES, matrix_header, words_beside

_TEXT_HEADER = 40  # bytes of word2vec's first line
_NUMBERS = 1 << 18  # numbers formatted at a time


def _word2vec_line(text: str, numbers: str) -> str:
    if "\n" in text:
        raise UsageError(f"a text with a newline cannot be written in word2vec's format: {text!r}")
    return f"{text.replace(' ', '_')} {numbers}\n"


# format -> separator of numbers, and a line of a text and its numbers
_LINES: dict[str, tuple[str, Callable[[str, str], str]]] = {
    "jsonl": (",", lambda text, row: f'{{"text": {json.dumps(text, ensure_ascii=False)}, "embedding": [{row}]}}\n'),
    "tsv": ("\t", lambda text, row: f"{escape(text)}\t{row}\n"),
    "word2vec": (" ", _word2vec_line),
}


class _Rewritable(LineWriter):
    """An output. Its first bytes can be rewritten if it is a file that is neither compressed nor appended to.

    Attributes:
        rewinds: whether they can be.
    """

    def __init__(self, path: str, *, force: bool, line_buffered: bool, append: bool = False) -> None:
        super().__init__(path, force=force, line_buffered=line_buffered, append=append, layout=None)
        self.rewinds = False
        if not isinstance(self._stream, (io.BufferedWriter, io.FileIO)):  # compressed
            return
        try:
            descriptor = self._stream.fileno()
            self._stream.flush()
            plain = stat.S_ISREG(os.fstat(descriptor).st_mode)
            if plain and not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
                self._start = os.lseek(descriptor, 0, os.SEEK_CUR)
                self.rewinds = True
        except OSError as error:
            self._refuse(error)

    def is_file(self) -> bool:
        """Whether this is a named, uncompressed file."""
        return self.rewinds and self._final is not None

    def rewrite(self, data: bytes) -> None:
        """Overwrite the first bytes. Raises StreamError."""
        try:
            self._stream.flush()
            if data:
                os.pwrite(self._stream.fileno(), data, self._start)
        except OSError as error:
            self._refuse(error)


class ArrayWriter:
    """Writes vectors and their texts to a file or standard output. Use as a context manager.

    A file gets its name when it is complete, and does not appear if the context ends with an error.
    """

    def __init__(
        self,
        path: str,
        format: str,
        dimensions: int,
        dtype: str = "float32",
        *,
        force: bool = False,
        line_buffered: bool = False,
        append: bool = False,
        keep_lines: bool = True,
    ) -> None:
        """
        Args:
            path: the file; `-` is standard output.
            format: one of `nlptools.configs.vectors.STREAMED`.
            dimensions: D, also for an output without any vector.
            dtype: "float32" or "float16", which has fewer digits in text.
            line_buffered: write every line by itself.
            append: write to the end of an existing file.
            keep_lines: whether to write the lines of `NAME.npy` to `NAME.vocab.tsv`.

        Raises:
            UsageError: no such format or type.
            OutputError: a file exists and `force` is not set, or cannot be created.
            StreamError: a write failed.
        """
        if format not in STREAMED or dtype not in DTYPES:
            raise UsageError(f"{format} of {dtype}: expected one of {', '.join(STREAMED)}, of {' or '.join(DTYPES)}")
        if dimensions < 1:
            raise UsageError(f"vectors of {dimensions} dimensions")
        self.format, self.dimensions, self.dtype, self.rows = format, dimensions, dtype, 0
        self._spaced = 0  # texts with spaces, in word2vec's format
        self._beside: LineWriter | None = None
        self._spool: IO[bytes] | None = None
        with contextlib.ExitStack() as stack:
            self._out = _Rewritable(path, force=force, line_buffered=line_buffered, append=append)
            stack.push(self._out)
            if format == "npy" and keep_lines and self._out.is_file():
                self._beside = stack.enter_context(LineWriter(words_beside(path), force=force))
            if self._out.rewinds:
                self._out.write(self._header())
            elif format == "word2vec":
                self._spool = stack.enter_context(tempfile.TemporaryFile())
            self._files = stack.pop_all()

    def write(self, vectors: Array, lines: Sequence[str]) -> None:
        """Write vectors (N, D) and their N texts, and flush.

        Raises:
            BundleError: a number is not finite, or too large for float16.
            UsageError: a wrong shape, or a text that the format cannot represent.
            StreamError: a write failed.
        """
        if vectors.shape != (len(lines), self.dimensions):
            raise UsageError(f"vectors of shape {vectors.shape} for {len(lines)} lines of {self.dimensions} dimensions")
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(vectors, DTYPES[self.dtype])
        self._check_finite(rows)
        size = max(1, len(lines) if self.format == "npy" else _NUMBERS // self.dimensions)
        size = 1 if self._out.line_buffered else size
        for start in range(0, len(lines), size):
            self._write_part(rows[start : start + size], lines[start : start + size])

    def _complete(self) -> None:
        """Write the headers of the final number of rows. Raises StreamError."""
        if self._out.rewinds:
            self._out.rewrite(self._header())
        elif self.format == "npy" and not self.rows:
            self._out.write(matrix_header(0, self.dimensions, self.dtype))
        if self._spool is not None:
            self._out.write(self._header().rstrip() + b"\n")
            self._spool.seek(0)
            while data := self._spool.read(1 << 20):
                self._out.write(data)

    def _write_part(self, rows: Array, lines: Sequence[str]) -> None:
        if self.format == "npy":
            if not self._out.rewinds:
                self._out.write(matrix_header(len(rows), self.dimensions, self.dtype))
            self._out.write(rows.tobytes())
            if self._beside is not None:
                self._beside.write_lines([escape(line) for line in lines])
        else:
            text = self._text(rows, lines).encode("utf-8", "surrogatepass")
            if self._spool is None:
                self._out.write(text)
            else:
                self._keep(text)
        self.rows += len(rows)

    def _text(self, rows: Array, lines: Sequence[str]) -> str:
        separator, line_of = _LINES[self.format]
        if self.format == "word2vec":
            self._spaced += sum(" " in line for line in lines)
        return "".join(map(line_of, lines, rows_of_decimals(rows, separator)))

    def _header(self) -> bytes:
        """The header for the rows so far, always of the same length; nothing in formats without one."""
        if self.format == "npy":
            return matrix_header(self.rows, self.dimensions, self.dtype)
        if self.format == "word2vec":
            return f"{self.rows} {self.dimensions}".ljust(_TEXT_HEADER - 1).encode() + b"\n"
        return b""

    def _keep(self, data: bytes) -> None:
        assert self._spool is not None
        try:
            self._spool.write(data)
        except OSError as error:
            raise StreamError(f"{display(tempfile.gettempdir())}: write failed: {reason(error)}") from None

    def _check_finite(self, rows: Array) -> None:
        fine = np.isfinite(rows).all(axis=1)
        if not fine.all():
            number = self.rows + int(np.flatnonzero(~fine)[0]) + 1
            hint = "float32 holds larger numbers" if self.dtype == "float16" else None
            raise BundleError(f"the vector of line {number:,} is not finite", hint=hint)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._files.__exit__(kind, error, trace)
            return
        with self._files:  # gives the files their names
            self._complete()
        if self._spaced:
            texts = messages.counted(self._spaced, "text contains", "texts contain")
            messages.note(f"{texts} spaces, which word2vec's text has as _; --to jsonl keeps them")
