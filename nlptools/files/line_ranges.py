"""Ranges of input lines: the shard of one job of many, and the lines that an earlier run has not processed.

Shards are consecutive ranges, so that the concatenated outputs of all shards are the output of the whole input.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from nlptools.errors import OutputError, UsageError, display
from nlptools.files import compression, streams
from nlptools.files.streams import LineBlock

PIECE = 1 << 20  # bytes read at a time


def share(names: Sequence[str], part: int, parts: int) -> tuple[int, int]:
    """The range (first, end) of lines of part `part` (from 1) of `parts`; lines of all inputs together, counted from 0.

    Raises:
        UsageError: standard input: its lines cannot be counted in advance.
        InputError, DataError: see `streams.blocks`.
    """
    if "-" in names:
        raise UsageError("--shard needs files: the lines of standard input cannot be counted in advance")
    count = sum(_count(name) for name in names)
    return count * (part - 1) // parts, count * part // parts


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


def done_lines(path: str) -> int:
    """Number of complete lines in the output file `path`, 0 if it does not exist; an incomplete last line is removed.

    Raises:
        UsageError: standard output, or a compressed file, which cannot be continued.
        OutputError: the file cannot be read or truncated.
    """
    if path == "-" or Path(path).suffix in compression.SUFFIXES:
        raise UsageError("--skip-done needs an output file, not compressed: -o FILE")
    try:
        with open(path, "r+b") as stream:
            count, end, place = 0, 0, 0
            while data := stream.read(PIECE):
                count += data.count(b"\n")
                last = data.rfind(b"\n")
                end = place + last + 1 if last >= 0 else end
                place += len(data)
            stream.truncate(end)
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise OutputError(f"{display(path)}: {os.strerror(error.errno or 0)}") from None
    return count


def _count(name: str) -> int:
    """Number of lines of an input; the last one may lack its newline."""
    count, last = 0, b"\n"
    for chunk in streams.line_chunks(name, PIECE):
        count += chunk.count(b"\n")
        last = chunk[-1:]
    return count + (last != b"\n")
