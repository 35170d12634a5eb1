"""What --shard and --skip-done leave of the inputs of a command."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import click

from nlptools import messages
from nlptools.configs.shares import Shares, shard
from nlptools.errors import UsageError, display
from nlptools.files import input_parts, progress, streams
from nlptools.files.layout_names import named_layout


def remaining_lines(inputs: Sequence[str], shares: Shares, output: str) -> list[str]:
    """The inputs that a command reads that writes a line per line: the part of the shard, after the lines of `output`.

    The command appends to the output (`LineWriter`) with --skip-done.

    Raises:
        UsageError, InputError, OutputError: see `input_parts`.
    """
    names = shard_of(inputs, shares)
    if shares.skip_done and (done := _noted(output, input_parts.done_lines(output))):
        names = input_parts.after(names, done)
        progress.start(names, output)
    return names


def shard_of(inputs: Sequence[str], shares: Shares) -> list[str]:
    """The part of the inputs that --shard names. Raises as `remaining_lines`."""
    names = streams.check_inputs(inputs)
    if shares.shard:
        names = input_parts.shard(names, *shard(shares.shard))
        progress.start(names)
    return names


def record_range(
    names: Sequence[str], count: Callable[[], int], shares: Shares, output: str | None = None
) -> tuple[int, int | None]:
    """The records that a command reads, from the first to the end (exclusive; None: all), for inputs of any layout.

    Args:
        count: the number of all records, which is found by reading them.
        output: the file that has a line per record, which --skip-done looks at.

    Raises:
        UsageError: a shard of standard input; or see `input_parts.done_lines`.
    """
    first, end = 0, None
    if shares.shard:
        input_parts.refuse_standard_input(names)
        part, parts = shard(shares.shard)
        total = count()
        first, end = total * (part - 1) // parts, total * part // parts
    if shares.skip_done and output is not None:
        first += _noted(output, input_parts.done_lines(output))
    return first, end if end is None else max(first, end)


def refuse_tables(
    shares: Shares, names: Sequence[str], columns: bool = False, layouts: Sequence[str] = ("csv", "parquet", "table")
) -> None:
    """Raise UsageError for a share of a table: its records are not lines.

    Args:
        columns: whether options make tables of all inputs that are not JSON lines.
        layouts: the layouts by name that the command reads as tables.
    """
    for name in names if shares.shard or shares.skip_done else ():
        layout = named_layout(name)
        if layout in layouts or (columns and layout != "jsonl"):
            message = f"{display(name)}: --shard and --skip-done count lines, but the records of a table are not lines"
            raise UsageError(message, hint="JSON lines (.jsonl) can be divided")


def _noted(output: str, done: int) -> int:
    """`done`, the number of lines of the output, after a note that names it."""
    if done:
        messages.note(f"{display(output)} has {messages.counted(done, 'line')}: continuing after them")
    return done


def leave_if_done(shares: Shares, *outputs: str | None) -> None:
    """End the command with --skip-done if its output exists: outputs appear when they are complete.

    Raises:
        UsageError: the output is standard output, which cannot be checked.
    """
    if not shares.skip_done:
        return
    files = [output for output in outputs if output is not None]
    if not files or "-" in files:
        raise UsageError("--skip-done needs an output file: -o FILE")
    if all(map(os.path.exists, files)):
        messages.note(f"{display(files[0])} exists: nothing to do")
        raise click.exceptions.Exit(0)
