"""Records of one line each: tab-separated fields, escaped so that they can contain any text, and JSON objects."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence

from nlptools.errors import DataError
from nlptools.files.json_text import KeyTwice, once
from nlptools.json_types import JsonObject


def fields(line: str) -> list[str]:
    """The fields of a TSV line, unescaped."""
    return [unescape(field) for field in line.split("\t")]


def escape(text: str) -> str:
    """`text` as a field of a TSV line: backslash, tab, newline and carriage return become two characters each."""
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def unescape(text: str) -> str:
    """The inverse of `escape`."""
    if "\\" not in text:
        return text
    meaning = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    out, i = [], 0
    while i < len(text):
        if text[i] == "\\" and i + 1 < len(text) and text[i + 1] in meaning:
            out.append(meaning[text[i + 1]])
            i += 2
        else:
            out.append(text[i])
            i += 1
    return "".join(out)


def csv_fields(line: str) -> list[str]:
    """The fields of a line of CSV, without the spaces around them. Fields in quotes may contain commas, not line ends."""
    return [field.strip() for field in next(csv.reader([line]), [])]


def csv_line(fields: Sequence[str], delimiter: str = ",") -> str:
    """Fields as a record of CSV (RFC 4180), without its end: one with a delimiter, a quote or a line end is quoted."""
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\r\n").writerow(fields)  # quotes what contains either
    return line.getvalue().removesuffix("\r\n")


def parse_json_object(line: str, path: str, number: int, hint: str | None = None) -> JsonObject:
    """Parse a line with a JSON object. Raises DataError, with file, line and `hint`, for anything else."""
    try:
        value = json.loads(line, object_pairs_hook=once)
    except KeyTwice as error:
        raise DataError(str(error), path=path, line=number, hint="rename one of them") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"not valid JSON: {error}", path=path, line=number, hint=hint) from None
    if not isinstance(value, dict):
        raise DataError(f"expected a JSON object, found {type(value).__name__}", path=path, line=number, hint=hint)
    return value


def json_line(value: Mapping[str, object]) -> str:
    """JSON in one line; only characters that UTF-8 cannot encode are escaped (half a surrogate pair)."""
    line = json.dumps(value, ensure_ascii=False)
    return line if is_text(line) else json.dumps(value)


def is_text(text: str) -> bool:
    """Whether UTF-8 can encode `text`: JSON's escapes can produce half a surrogate pair."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False
