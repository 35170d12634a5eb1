"""What readers of vector files check before they take memory, and how they refuse.

Every refusal is a BundleError (status 78) that names the file and, where there is one, the line or the word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from nlptools import messages
from nlptools.errors import BundleError, display

MOST_DIMENSIONS = 1 << 20
_MOST_HEADER = 64


class Header(NamedTuple):
    """The first line of the formats of word2vec."""

    words: int
    dimensions: int


def refuse(path: str, message: str, *, line: int | None = None, hint: str | None = None) -> NoReturn:
    """Raise the BundleError about `path`."""
    place = display(path) + ("" if line is None else f":{line}")
    raise BundleError(f"{place}: {message}", hint=hint)


def parse_header(text: bytes, path: str) -> Header:
    """The numbers of words and dimensions in `V D`. Raises BundleError."""
    parts = text.split()
    if len(text) > _MOST_HEADER or len(parts) != 2 or not all(part.isdigit() for part in parts):
        refuse(
            path,
            "the first line does not hold the numbers of words and dimensions",
            line=1,
            hint="--from glove reads text without that line",
        )
    header = Header(int(parts[0]), int(parts[1]))
    if not 1 <= header.dimensions <= MOST_DIMENSIONS:
        refuse(path, f"{header.dimensions} dimensions", line=1)
    return header


def check_room(header: Header, least_row: int, available: int, path: str) -> None:
    """Refuse a header that promises more rows of `least_row` bytes than the `available` bytes can hold."""
    if header.words * least_row > available:
        refuse(
            path,
            f"the header promises {header.words:,} words of {header.dimensions:,} dimensions, at least "
            f"{header.words * least_row:,} bytes, and {available:,} follow",
            line=1,
        )


def check_finite(rows: np.ndarray[Any, Any], first: int, path: str) -> None:
    """Refuse rows with NaN or infinity; `first` is the number of the first one, from 0. Raises BundleError."""
    if not np.isfinite(rows).all():
        bad = first + int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        refuse(path, f"the vector of word {bad + 1:,} is not finite")


def check_taken(rows: np.ndarray[Any, Any], places: Sequence[int], path: str) -> None:
    """The same of rows that were taken from `places`. Raises BundleError."""
    fine = np.isfinite(rows).all(axis=1)
    if not fine.all():
        refuse(path, f"the vector of word {int(np.asarray(places)[~fine][0]) + 1:,} is not finite")


def decode_words(blob: bytes, path: str, errors: str, offset: int = 0) -> str:
    """Words joined by newlines as text. Raises BundleError with the number of the word that is not UTF-8."""
    try:
        return blob.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        number = offset + blob.count(b"\n", 0, error.start) + 1
        refuse(
            path,
            f"word {number:,} is not valid UTF-8 (byte 0x{blob[error.start]:02x})",
            hint="--encoding-errors replace reads words that were cut inside a character",
        )


def keep_first(words: Sequence[str], path: str) -> list[int] | None:
    """Places of the words without repetitions, or None when nothing is repeated; warns with the count."""
    if len(set(words)) == len(words):
        return None
    first: dict[str, int] = {}
    for place, word in enumerate(words):
        first.setdefault(word, place)
    warn_repeated(len(words) - len(first), path)
    return list(first.values())


def warn_repeated(count: int, path: str) -> None:
    """Tell that words stood more than once."""
    messages.warn(f"{display(path)}: {count:,} repeated words; the first vector of each is kept")
