"""Pairs of texts, a source and a target each, from a table of two columns or from two files side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from nlptools import messages
from nlptools.errors import DataError, UsageError, display
from nlptools.files import atomic, streams
from nlptools.files.layout_names import named_layout
from nlptools.files.line_records import escape, unescape
from nlptools.formats import records


class PairBlock(NamedTuple):
    """Consecutive pairs of one input; of two inputs side by side, `path` is the file of the sources."""

    path: str
    start: int  # number of the first line, from 1
    sources: list[str]
    targets: list[str]


def read_pairs(
    inputs: Sequence[str], errors: str = "strict", columns: Sequence[str] = (), delimiter: str | None = None
) -> Iterator[PairBlock]:
    """The pairs in lines of `source TAB target`, or in two `columns` of tables; no input means standard input.

    Raises:
        DataError: a line does not have exactly two fields, and what `streams.blocks` raises.
        InputError: see `streams.blocks`.
    """
    other = next((path for path in inputs if named_layout(path) in ("csv", "jsonl", "parquet")), None)
    other = "--delimiter" if delimiter else other
    if other is not None and not columns:
        message = f"{display(other)}: which columns have the sources and the targets?"
        raise UsageError(message, hint="--text-column, given twice, names them")
    for block in records.texts(inputs, columns, errors, delimiter) if columns else streams.all_blocks(inputs, errors):
        rows = [line.split("\t") for line in block.lines]
        for number, row in enumerate(rows, block.start):
            if len(row) != 2:
                fields = messages.counted(len(row), "field")
                raise DataError(f"expected source TAB target, found {fields}", path=block.path, line=number)
        sources, targets = ([unescape(row[side]) for row in rows] for side in (0, 1))
        yield PairBlock(block.path, block.start, sources, targets)


def read_parallel(source_path: str, target_path: str, errors: str = "strict") -> Iterator[PairBlock]:
    """The pairs in two files, line by line, without unescaping.

    Raises:
        DataError: the files differ in their number of lines, and what `streams.blocks` raises.
        InputError: see `streams.blocks`.
        UsageError: both are standard input.
    """
    paths = streams.check_inputs([source_path, target_path])
    start = 1
    for sources, targets in streams.zip_blocks(paths, errors):
        yield PairBlock(source_path, start, sources, targets)
        start += len(sources)


def in_parts(blocks: Iterator[PairBlock], size: int) -> Iterator[PairBlock]:
    """Blocks of at most `size` pairs."""
    for block in blocks:
        for i in range(0, len(block.sources), size):
            part = slice(i, i + size)
            yield PairBlock(block.path, block.start + i, block.sources[part], block.targets[part])


def kept(blocks: Iterator[PairBlock], path: Path) -> Iterator[PairBlock]:
    """Pass `blocks` on, and write all of them to the file `path` as a table, since a pipe can be read only once.

    Raises:
        StreamError: disk full or another write error.
    """
    lines = []
    for block in blocks:
        lines += [f"{escape(a)}\t{escape(b)}\n" for a, b in zip(block.sources, block.targets, strict=True)]
        yield block
    atomic.write_whole(path, "".join(lines).encode("utf-8", "replace"))
