"""Texts of the inputs of a command, a line each: the lines of files, or a column of tables.

In every command, the suffix of a file determines whether it is a table (CSV, JSON lines, Parquet, `.tsv`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nlptools.files import progress, streams
from nlptools.files.layout_names import named_layout
from nlptools.files.streams import LineBlock


def blocks(
    paths: Sequence[str], errors: str = "strict", columns: Sequence[str] = (), delimiter: str | None = None
) -> Iterator[LineBlock]:
    """The texts of several inputs in turn, in blocks; see `formats.records.texts`. No path means standard input.

    Raises:
        DataError: a malformed record, or it is not clear which column has the texts; and the errors of `streams.blocks`.
    """
    if not columns and delimiter is None and not has_tables(paths):
        return streams.all_blocks(paths, errors)
    from nlptools.formats import records  # lines of text, which most inputs are, do without it

    return records.texts(paths, columns, errors, delimiter)


def batches(paths: Sequence[str], size: int, errors: str = "strict") -> Iterator[LineBlock]:
    """The blocks of several inputs in turn, each in parts of at most `size` lines, for commands that are slow."""
    for part in streams.windows(blocks(paths, errors), size):
        yield part
        progress.done(len(part.lines))


def has_tables(paths: Sequence[str]) -> bool:
    """Whether one of the inputs is no text by its name."""
    return any(map(named_layout, paths))
