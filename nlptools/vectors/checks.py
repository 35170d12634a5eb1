"""Checks of vector files, most of them made before memory is allocated.

Every failed check raises a BundleError (status 78) that names the file and, if there is one, the line or the word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from nlptools import messages
from nlptools.arrays import Array
from nlptools.errors import BundleError, display

MOST_DIMENSIONS = 1 << 20
_MOST_HEADER = 64
CUT_WORDS = "--encoding-errors replace reads words that were cut inside a character"


class Header(NamedTuple):
    """The first line of word2vec's formats."""

    words: int
    dimensions: int


def refuse(path: str, message: str, *, line: int | None = None, hint: str | None = None) -> NoReturn:
    """Raise a BundleError about `path`."""
    place = display(path) + ("" if line is None else f":{line}")
    raise BundleError(f"{place}: {message}", hint=hint)


def parse_header(text: bytes, path: str) -> Header:
    """Parse `V D`, the numbers of words and dimensions. Raises BundleError."""
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
    """Refuse a header with more rows, of at least `least_row` bytes each, than `available` bytes can hold."""
    if header.words * least_row > available:
        refuse(
            path,
            f"the header promises {header.words:,} words of {header.dimensions:,} dimensions, at least "
            f"{header.words * least_row:,} bytes, and {available:,} follow",
            line=1,
        )


def check_finite(rows: Array, places: int | Sequence[int], path: str) -> None:
    """Refuse rows (N, D) with NaN or infinity. Raises BundleError, which names the word.

    Args:
        places: the places of the rows in the table, or the place of the first of consecutive rows.
    """
    if not np.isfinite(rows).all():
        bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        place = places + bad if isinstance(places, int) else places[bad]
        refuse(path, f"the vector of word {int(place) + 1:,} is not finite")


def decode_words(blob: bytes, path: str, errors: str, offset: int = 0) -> str:
    """Decode words joined by newlines. Raises BundleError with the number of the first word that is not UTF-8."""
    try:
        return blob.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        number = offset + blob.count(b"\n", 0, error.start) + 1
        refuse(
            path,
            f"word {number:,} is not valid UTF-8 (byte 0x{blob[error.start]:02x})",
            hint=CUT_WORDS,
        )


def keep_first(words: Sequence[str], path: str, noun: str = "word") -> list[int] | None:
    """Places of the first occurrence of each word, with a warning; None if no word is repeated."""
    if len(set(words)) == len(words):
        return None
    first: dict[str, int] = {}
    for place, word in enumerate(words):
        first.setdefault(word, place)
    repeated = messages.counted(len(words) - len(first), f"repeated {noun}")
    messages.warn(f"{display(path)}: {repeated}; the first vector of each is kept")
    return list(first.values())
