"""Ranges of lines."""

from __future__ import annotations

from collections.abc import Iterator

from nlptools.files.streams import LineBlock


def lines_from(blocks: Iterator[LineBlock], first: int, end: int | None) -> Iterator[tuple[int, LineBlock]]:
    """The blocks of lines `first` to `end` (exclusive; None: all), each with the number of its first line, from 0."""
    place = 0
    for block in blocks:
        if end is not None and place >= end:
            return
        skipped = min(max(0, first - place), len(block.lines))
        kept = block.lines[skipped : None if end is None else end - place]
        if kept:
            yield place + skipped, LineBlock(block.path, block.start + skipped, kept)
        place += len(block.lines)


def numbered(blocks: Iterator[LineBlock], first: int) -> Iterator[tuple[int, LineBlock]]:
    """The blocks, each with the number of its first line, when the first line of all has the number `first`."""
    for block in blocks:
        yield first, block
        first += len(block.lines)
