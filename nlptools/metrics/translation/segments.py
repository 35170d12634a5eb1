"""Parallel segments of hypotheses and references: reading them from files, and their numbers of references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nlptools import messages
from nlptools.errors import DataError, display
from nlptools.files import streams
from nlptools.metrics.translation.metric import References

Block = tuple[list[list[str]], References]  # parallel segments: by system, by reference


def reference_counts(references: References) -> list[int]:
    """The number of references of each segment."""
    if all(None not in reference for reference in references):
        return [len(references)] * (len(references[0]) if references else 0)
    return [sum(text is not None for text in segment) for segment in zip(*references)]


def read(
    systems: Sequence[str], references: Sequence[str], num_refs: int = 1, errors: str = "strict"
) -> Iterator[Block]:
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
