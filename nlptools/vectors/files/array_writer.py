"""Vectors written as they are made, when nobody knows yet how many there will be: `.npy`, JSON lines, TSV, word2vec's text.

npy: in a file, the header has room for any number of rows, says none while rows are written, and is completed at the end:
one array that can be mapped, with its lines in `NAME.vocab.tsv` beside it, as `nlptools.vectors.files.directory` reads them.
Standard output that is a file is completed too, without lines beside it. What cannot be gone back in (a pipe, a compressed
file, a file that is appended to) gets a whole `.npy` of its own for each part that is written, one behind the other: what
`numpy.lib.format.read_array` reads one after the other, and `nlptools.vectors.files.array_reader` as one.

jsonl: {"text": ..., "embedding": [...]} on each line. tsv: the text, then the numbers, between tabs; the text escaped. Their
numbers, and word2vec's, have eight significant digits where these give the same float32 again, else nine; float16 has four
or five.

word2vec: a line `V D`, completed as that of npy; where that cannot be, all waits in a temporary file until V is known. A
space in the text ends the word for readers of this format: it is written as `_`, and the texts it happens to are counted.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import stat
import tempfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from nlptools import messages
from nlptools.errors import BundleError, StreamError, UsageError, display, reason
from nlptools.files.line_records import escape
from nlptools.files.streams import Output
from nlptools.vectors.files.directory import words_beside
from nlptools.vectors.files.text import floats

FORMS = ("npy", "jsonl", "tsv", "word2vec")
DTYPES = {"float32": "<f4", "float16": "<f2"}
_DIGITS = {"float32": (8, 9), "float16": (4, 5)}  # most often enough, always enough
_HEADER = 128  # bytes of npy's header: the data begins at a multiple of 64
_TEXT_HEADER = 40  # and of word2vec's first line
_NUMBERS = 1 << 18  # made text at a time

Array = np.ndarray[Any, Any]


def npy_header(rows: int, dimensions: int, dtype: str) -> bytes:
    """The header of a matrix in the format of numpy, of the same length for any number of rows."""
    told = f"{{'descr': '{DTYPES[dtype]}', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}"
    return b"\x93NUMPY\x01\x00" + (_HEADER - 10).to_bytes(2, "little") + told.ljust(_HEADER - 11).encode() + b"\n"


def decimals(values: Array) -> list[str]:
    """Each number of an array of float32 or float16, flattened, as a short text that gives the same number again."""
    plain = values.ravel().tolist()
    if not plain:
        return []
    some, enough = _DIGITS[values.dtype.name]
    fields = (" ".join([f"%.{some}g"] * len(plain)) % tuple(plain)).split(" ")
    back = floats(" ".join(fields).encode()).astype(values.dtype)
    for i in np.flatnonzero(back != values.ravel()).tolist():
        fields[i] = f"{plain[i]:.{enough}g}"
    return fields


class _Rewritable(Output):
    """An output of which the beginning can be written again, if it is a file and neither compressed nor appended to.

    Attributes:
        rewinds: whether it can.
    """

    def __init__(self, path: str, *, force: bool, line_buffered: bool) -> None:
        super().__init__(path, force=force, line_buffered=line_buffered)
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
        """Whether this is a file that has, or will get, its own name, and is not compressed."""
        return self.rewinds and self._final is not None

    def rewrite(self, data: bytes) -> None:
        """Write over the first bytes. Raises StreamError."""
        try:
            self._stream.flush()
            if data:
                os.pwrite(self._stream.fileno(), data, self._start)
        except OSError as error:
            self._refuse(error)


class ArrayWriter:
    """Vectors and their lines to a file or standard output, in one of `FORMS`.

    A file appears under its name when it is whole, and not at all if an error ends the context. Use as a context manager.
    """

    def __init__(
        self,
        path: str,
        form: str,
        dimensions: int,
        dtype: str = "float32",
        *,
        force: bool = False,
        line_buffered: bool = False,
        keep_lines: bool = True,
    ) -> None:
        """
        Args:
            path: the file; `-` is standard output.
            dimensions: D, also for an output without any vector.
            dtype: "float32" or "float16", of which the other forms write fewer digits.
            line_buffered: hand over every line on its own.
            keep_lines: whether `NAME.npy` gets its lines beside it.

        Raises:
            UsageError: no such form or type.
            OutputError: a file exists and `force` is not set, or cannot be made.
            StreamError: a write failed.
        """
        if form not in FORMS or dtype not in DTYPES:
            raise UsageError(f"{form} of {dtype}: expected one of {', '.join(FORMS)}, of {' or '.join(DTYPES)}")
        if dimensions < 1:
            raise UsageError(f"vectors of {dimensions} dimensions")
        self.form, self.dimensions, self.dtype, self.rows = form, dimensions, dtype, 0
        self._path = path
        self._spaced = 0  # texts with spaces, which word2vec has no room for
        self._beside: Output | None = None
        self._spool: IO[bytes] | None = None
        self._out = _Rewritable(path, force=force, line_buffered=line_buffered)
        try:
            if form == "npy" and keep_lines and self._out.is_file():
                self._beside = Output(words_beside(path), force=force)
            if self._out.rewinds:
                self._out.write(self._header())
            elif form == "word2vec":
                self._spool = tempfile.TemporaryFile()  # noqa: SIM115
        except BaseException as error:
            self._out.__exit__(type(error))
            raise

    def write(self, vectors: Array, lines: Sequence[str]) -> None:
        """Write vectors (N, D) and the N texts that they belong to, and flush.

        Raises:
            BundleError: a number is not finite, or too large for float16.
            UsageError: other shapes than promised, or a text that the form has no room for.
            StreamError: a write failed.
        """
        if vectors.shape != (len(lines), self.dimensions):
            raise UsageError(f"vectors of shape {vectors.shape} for {len(lines)} lines of {self.dimensions} dimensions")
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(vectors, DTYPES[self.dtype])
        self._check_finite(rows)
        size = (
            1 if self._out.line_buffered else max(1, _NUMBERS // self.dimensions) if self.form != "npy" else len(lines)
        )
        for start in range(0, len(lines), size or 1):
            self._write_part(rows[start : start + size], lines[start : start + size])

    def close(self) -> None:
        """Complete headers and give the files their names. Raises StreamError."""
        if self._out.rewinds:
            self._out.rewrite(self._header())
        elif self.form == "npy" and not self.rows:
            self._out.write(npy_header(0, self.dimensions, self.dtype))
        if self._spool is not None:
            self._out.write(self._header().rstrip() + b"\n")
            self._spool.seek(0)
            while data := self._spool.read(1 << 20):
                self._out.write(data)
            self._spool.close()
        if self._beside is not None:
            self._beside.close()
        self._out.close()
        if self._spaced:
            told = messages.counted(self._spaced, "text holds", "texts hold")
            messages.note(f"{told} spaces, which word2vec's text has as _; --to jsonl keeps them")

    def _write_part(self, rows: Array, lines: Sequence[str]) -> None:
        if self.form == "npy":
            if not self._out.rewinds:
                self._out.write(npy_header(len(rows), self.dimensions, self.dtype))
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
        fields, width = decimals(rows), self.dimensions
        between = {"jsonl": ",", "tsv": "\t", "word2vec": " "}[self.form]
        numbers = [between.join(fields[i * width : (i + 1) * width]) for i in range(len(lines))]
        if self.form == "jsonl":
            texts = [json.dumps(line, ensure_ascii=False) for line in lines]
            made = [f'{{"text": {text}, "embedding": [{row}]}}\n' for text, row in zip(texts, numbers, strict=True)]
        elif self.form == "tsv":
            made = [f"{escape(line)}\t{row}\n" for line, row in zip(lines, numbers, strict=True)]
        else:
            for line in lines:
                if "\n" in line:
                    raise UsageError(f"a text with a newline cannot stand in word2vec's format: {line!r}")
            self._spaced += sum(" " in line for line in lines)
            made = [f"{line.replace(' ', '_')} {row}\n" for line, row in zip(lines, numbers, strict=True)]
        return "".join(made)

    def _header(self) -> bytes:
        """What stands at the beginning, of the rows so far; always of the same length. Forms without one: nothing."""
        if self.form == "npy":
            return npy_header(self.rows, self.dimensions, self.dtype)
        if self.form == "word2vec":
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
            hint = "float32 has room for larger numbers" if self.dtype == "float16" else None
            raise BundleError(f"the vector of line {number:,} is not finite", hint=hint)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.close()
        except BaseException as error:
            kind = type(error)
            raise
        finally:
            for out in (self._beside, self._out):
                if out is not None:
                    out.__exit__(kind or GeneratorExit)  # closed before, or not at all
            if self._spool is not None:
                self._spool.close()
