"""Files of TREC's evaluations: rankings of documents for queries, and which documents are relevant.

A ranking (run): `QUERY Q0 DOCUMENT RANK SCORE TAG` per line, separated by white space. Relevance (qrels): `QUERY 0 DOCUMENT
GRADE` per line, or BEIR's three columns `QUERY DOCUMENT GRADE` after a header. Grades are integers; 0 and less is not relevant.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

from nlptools.errors import DataError, shown
from nlptools.files import streams

Run = dict[str, dict[str, float]]  # query -> document -> score
Relevance = dict[str, dict[str, int]]  # query -> document -> grade

_RUN = "QUERY Q0 DOCUMENT RANK SCORE TAG"
_RELEVANCE = "QUERY 0 DOCUMENT GRADE"


def read_run(path: str, errors: str = "strict") -> Run:
    """A ranking; the ranks in the file do not count. Raises DataError with the line for anything else."""
    run: Run = {}
    for number, fields in _rows(path, errors):
        if len(fields) != 6:
            raise DataError(f"{len(fields)} fields, expected 6: {_RUN}", path=path, line=number)
        query, _, document, _, text, _ = fields
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise DataError(f"the score is {shown(text)}, expected a finite number", path=path, line=number)
        _add(run, query, document, score, path, number)
    return run


def read_relevance(path: str, errors: str = "strict") -> Relevance:
    """The grades of documents. Raises DataError with the line for anything else."""
    relevance: Relevance = {}
    rows = _rows(path, errors)
    first = next(rows, None)
    if first is None:
        return relevance
    three = len(first[1]) == 3
    skipped = three and not _is_integer(first[1][2])  # BEIR's header
    for number, fields in rows if skipped else chain([first], rows):
        if len(fields) != (3 if three else 4):
            expected = "3, as in the first line" if three else f"4: {_RELEVANCE}"
            raise DataError(f"{len(fields)} fields, expected {expected}", path=path, line=number)
        if not _is_integer(fields[-1]):
            raise DataError(f"the grade is {shown(fields[-1])}, expected an integer", path=path, line=number)
        _add(relevance, fields[0], fields[-2], int(fields[-1]), path, number)
    return relevance


def _rows(path: str, errors: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the fields of each line that is not empty."""
    for number, line in enumerate(streams.lines(path, errors), 1):
        if fields := line.split():
            yield number, fields


def _add(table: dict[str, dict[str, float]] | dict[str, dict[str, int]], query: str, document: str, value: int | float,
         path: str, number: int) -> None:  # fmt: skip
    row = table.setdefault(query, {})
    if document in row:
        raise DataError(f"document {shown(document)} occurs twice for query {shown(query)}", path=path, line=number)
    row[document] = value  # type: ignore[assignment]


def _is_integer(text: str) -> bool:
    return text.lstrip("+-").isdecimal() and len(text) < 10
