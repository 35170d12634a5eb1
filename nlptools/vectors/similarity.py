"""Word similarity: pairs of words with human scores, compared with the cosines of their vectors.

Finkelstein et al. 2002, "Placing search in context" (WordSim-353), and its many successors: a pair per line, two words
and a number. Fields are separated by commas in `.csv` files, elsewhere by tabs, or by spaces in a line without tabs. The
column of scores is the first number after the words in the second line (in the first if there is only one); columns
after it are ignored. Without such a number, a number before the words is the score. A first line without a number in that
column is a header; if its first column has no name, as in numbered rows written by pandas, that column is ignored. Where
each word ends in a part of speech, as in MEN (`sun-n`), the words are read without it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nlptools import messages
from nlptools.arrays import Doubles
from nlptools.errors import DataError, display, shown
from nlptools.files.compression import without_suffix
from nlptools.files.streams import blocks
from nlptools.vectors.rows import scaled
from nlptools.vectors.vocabulary import EvaluationVocabulary, UnitVectors

_TAGGED = re.compile(".-[a-z]$")


class Pairs(NamedTuple):
    """The pairs of a file, in order; `scores` float64 (N,)."""

    path: str
    words: list[tuple[str, str]]
    scores: Doubles


class _Line(NamedTuple):
    number: int
    text: str
    fields: list[str]


def read(path: str, errors: str = "strict") -> Pairs:
    """The pairs in a file (`-`: standard input); empty lines and those that begin with # are skipped.

    Raises:
        DataError: a line without two words and a finite number (names it), or no pair at all.
        InputError, StreamError: see `streams.blocks`.
    """
    lines = [
        _Line(number, line, _fields(line, path, number))
        for block in blocks(path, errors)
        for number, line in enumerate(block.lines, block.start)
        if line.strip(" \t") and not line.startswith("#")
    ]
    if not lines:
        raise DataError("no word pairs: expected lines of two words and a number", path=path)
    first, column = _layout(lines, path)
    header = lines[0] if len(lines) > 1 and _is_header(lines[0], column) else None
    words, scores = [], []
    for line in lines[1:] if header else lines:
        pair, score = line.fields[first : first + 2], line.fields[column : column + 1]
        if not score or not all(pair) or not math.isfinite(_number(score[0])):
            raise _refusal(line, path)
        words.append((pair[0], pair[1]))
        scores.append(_number(score[0]))
    if all(_TAGGED.search(word) for pair in words for word in pair):
        words = [(one[:-2], other[:-2]) for one, other in words]
        messages.note(f"{display(path)}: read without the parts of speech at the ends of the words")
    if header:
        messages.note(f"{display(path)}:{header.number}: read as a header: {shown(header.text)}")
    return Pairs(path, words, np.array(scores))


def is_csv(path: str) -> bool:
    """Whether a file is CSV by its name, compressed or not."""
    return without_suffix(path).lower().endswith(".csv")


def _fields(line: str, path: str, number: int) -> list[str]:
    if is_csv(path):
        import csv

        try:
            fields = next(csv.reader([line], strict=True))
        except csv.Error as error:
            raise DataError(f"not valid CSV: {error}", path=path, line=number) from None
        return [field.strip(" \t") for field in fields]
    if "\t" in line:
        return [field.strip(" ") for field in line.split("\t")]
    parts = [part for part in line.split(" ") if part]
    # a word with a space would shift the columns of this line alone, which nothing shows
    return parts if len(parts) == 3 else []


def _layout(lines: Sequence[_Line], path: str) -> tuple[int, int]:
    """Columns of the first word and of the score. Raises DataError."""
    typical = lines[min(1, len(lines) - 1)]
    first = int(len(lines) > 1 and len(lines[0].fields) > 3 and not lines[0].fields[0])
    column = first + 2
    while column < len(typical.fields) and not _is_number(typical.fields[column]):
        column += 1
    number_first = bool(typical.fields) and _is_number(typical.fields[first])
    if column >= len(typical.fields) > first + 2 and number_first:
        return first + 1, first
    # row numbers without a header would be read as the first word
    if column >= len(typical.fields) or (column > first + 2 and number_first):
        raise _refusal(typical, path)
    return first, column


def _is_header(line: _Line, column: int) -> bool:
    return len(line.fields) > column and not _is_number(line.fields[column])


def _is_number(text: str) -> bool:
    """Whether `text` is a number, finite or not."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def _number(text: str) -> float:
    return float(text) if _is_number(text) else math.nan


def _refusal(line: _Line, path: str) -> DataError:
    hint = "fields are separated by tabs or spaces, in .csv files by commas"
    return DataError(
        f"expected two words and a finite number, got {shown(line.text)}", path=path, line=line.number, hint=hint
    )


def similarities(
    vocabulary: EvaluationVocabulary, words: Sequence[tuple[str, str]], *, subwords: bool = False
) -> Doubles:
    """The cosine of each pair, NaN if a word is unknown; float64 (N,), rounded to float32.

    Raises:
        BundleError: a vector is not finite.
    """
    directions = UnitVectors(vocabulary, subwords=subwords)
    numbers = [(directions.number(one), directions.number(other)) for one, other in words]
    known = [place for place, pair in enumerate(numbers) if None not in pair]
    cosines = np.full(len(words), np.nan)
    if known:
        matrix = scaled(directions.matrix())
        left, right = np.array([numbers[place] for place in known], np.int64).T
        # differences below the precision of float32 are rounding, and must not break ties
        products = np.einsum("ij,ij->i", matrix[left], matrix[right])
        cosines[known] = products.astype(np.float32)
    return cosines
