"""Parallel segments of hypotheses and references: checks, numbers of references, and reading from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nlptools import messages
from nlptools.errors import DataError, UsageError, display
from nlptools.files import streams
from nlptools.metrics.metric import Table

References = Sequence[Sequence["str | None"]]  # one list per reference; None where a segment has no such reference


def score_type(totals: Table) -> type[np.floating[Any]]:
    """The type in which sums are divided by one another, see `CorpusMetric.scores`."""
    return np.float32 if totals.dtype == np.float32 else np.float64


def check_lengths(hypotheses: int, references: Sequence[int]) -> None:
    """Raises DataError if a reference has more or fewer segments than there are hypotheses; names the first one."""
    for number, length in enumerate(references, 1):
        if length != hypotheses:
            which = f"reference {number} of {len(references)}" if len(references) > 1 else "the reference"
            raise DataError(f"unequal numbers of segments: {hypotheses} hypotheses, {length} in {which}")


def check_segments(hypotheses: Sequence[str], references: References) -> None:
    """Refuse segments that no metric can count.

    Raises:
        DataError: the numbers of segments differ, or a segment has no reference at all.
        UsageError: no references.
    """
    if not references:
        raise UsageError("expected at least one reference")
    check_lengths(len(hypotheses), [len(reference) for reference in references])
    if all(None not in reference for reference in references):
        return
    for i, segment in enumerate(zip(*references)):
        if all(reference is None for reference in segment):
            raise DataError(f"segment {i + 1} has no reference, expected at least one")


def reference_counts(references: References) -> list[int]:
    """The number of references of each segment."""
    if all(None not in reference for reference in references):
        return [len(references)] * (len(references[0]) if references else 0)
    return [sum(text is not None for text in segment) for segment in zip(*references)]


def read(
    systems: Sequence[str], references: Sequence[str], num_refs: int = 1, errors: str = "strict"
) -> Iterator[tuple[list[list[str]], References]]:
    """Blocks of parallel segments of files: (by system, by reference), with trailing white space removed.

    If `num_refs` is not 1, the only file of references has that many fields in each line; 0 allows any number.
    A byte order mark stays as a character of the first line, as sacrebleu counts it. A warning names the file.

    Raises:
        DataError: unequal numbers of lines or of fields.
        InputError, StreamError: see `streams.blocks`.
    """
    before = 0
    paths = [*systems, *references]
    for block in streams.zip_blocks(paths, errors, keep_bom=True):
        if not before:
            _warn_of_marks(paths, [lines[0] for lines in block])
        texts = [list(map(str.rstrip, lines)) for lines in block]
        given: References = texts[len(systems) :]
        if num_refs != 1:
            given = _split_fields(texts[-1], num_refs, references[0], before)
        before += len(texts[0])
        yield texts[: len(systems)], given


def _warn_of_marks(paths: Sequence[str], first_lines: Sequence[str]) -> None:
    for path, line in zip(paths, first_lines, strict=True):
        if line.startswith("\ufeff"):
            messages.warn(
                f"{display(path)}: begins with a byte order mark; the score counts it as a character, as sacrebleu does"
            )


def _split_fields(lines: list[str], num_refs: int, path: str, before: int) -> list[list[str | None]]:
    rows = [line.split("\t", num_refs - 1) if num_refs else line.split("\t") for line in lines]
    for i, row in enumerate(rows):
        if num_refs and len(row) != num_refs:
            raise DataError(f"{len(row)} references, expected {num_refs}", path=path, line=before + i + 1)
    return [[row[k] if k < len(row) else None for row in rows] for k in range(max(map(len, rows)))]
