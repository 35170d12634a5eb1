"""JSON lines of texts and their vectors, `{"text": ..., "embedding": [...]}`, as `nlptools embed --to jsonl` writes them."""

from __future__ import annotations

import io
import json

import numpy as np

from nlptools import messages
from nlptools.arrays import Floats
from nlptools.errors import BundleError, DataError, display
from nlptools.files import streams
from nlptools.files.line_records import parse_json_object
from nlptools.vectors import checks
from nlptools.vectors.files.array_writer import ArrayWriter
from nlptools.vectors.table import Vectors

_CHUNK = 1 << 22  # bytes read at a time
_TEXT_KEYS = ("text", "word", "token", "id")  # in order of preference


def read(path: str, errors: str = "strict", opened: io.BufferedReader | None = None) -> Vectors:
    """The texts and vectors of a file or stream (`-`), in memory. Rows without a text are numbered from 0.

    Args:
        opened: the stream, if it is open already.

    Raises:
        InputError: no such file.
        BundleError: a line is not such an object, or vectors differ in length; names the line.
    """
    words: list[str] = []
    rows: list[Floats] = []
    joined = number = 0
    try:
        for chunk in streams.line_chunks(path, _CHUNK, opened=opened):
            for line in chunk.removesuffix(b"\n").split(b"\n"):
                number += 1
                text, row = parse_record(_decode(line, path, number, errors), path, number)
                if rows and len(row) != len(rows[0]):
                    checks.refuse(path, f"expected {len(rows[0])} numbers, found {len(row)}", line=number)
                joined += "\n" in text
                words.append(text.replace("\n", " "))
                rows.append(row)
    except DataError as error:
        raise BundleError(str(error), hint=error.hint) from None
    if not rows:
        checks.refuse(path, "the file is empty")
    if joined:
        texts = messages.counted(joined, "text of several lines is", "texts of several lines are")
        messages.warn(f"{display(path)}: {texts} shown on one line")
    return Vectors(words, np.stack(rows), path=path)


def _decode(line: bytes, path: str, number: int, errors: str) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8", errors)
    except UnicodeDecodeError:
        streams.refuse_invalid(path, number, [line])
        raise


def parse_record(line: str, path: str, number: int) -> tuple[str, Floats]:
    """The text and the vector (D,) of line `number`; without a text, `number - 1`. Raises DataError."""
    record = parse_json_object(line, path, number)
    try:
        numbers = np.array(record.get("embedding"))
    except ValueError:  # lists of different lengths
        numbers = np.empty(0)
    with np.errstate(over="ignore"):
        row = numbers.astype(np.float32) if numbers.dtype.kind in "fiu" else np.empty(0, np.float32)
    if row.ndim != 1 or not len(row) or not np.isfinite(row).all():
        raise DataError('expected finite numbers under "embedding"', path=path, line=number)
    text = next((record[key] for key in _TEXT_KEYS if key in record), number - 1)
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False), row


def save(vectors: Vectors, path: str, *, force: bool = False) -> None:
    """Write an object per word. Raises OutputError if the file exists, StreamError."""
    with ArrayWriter(path, "jsonl", vectors.dimensions, force=force) as writer:
        for start, rows in vectors.blocks():
            writer.write(rows, vectors.words[start : start + len(rows)])
