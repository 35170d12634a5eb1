"""nlptools dedupe: lines without near-duplicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Compute, LineOutput
from nlptools.configs.clustering import Dedupe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nlptools.files.streams import LineBlock


@make_command(
    "dedupe",
    Dedupe,
    Compute,
    LineOutput,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], dedupe: Dedupe, compute: Compute, lines: LineOutput, common: Common) -> None:
    """Leave out lines that nearly repeat an earlier line.

    Lines are compared by their n-grams, or with --model or --vectors by their vectors. Of similar lines, the first one is
    written. Lines are written unchanged.
    """
    dedupe.check()
    from nlptools import messages
    from nlptools.files import streams

    names = streams.check_inputs(inputs)
    total = kept = 0
    with streams.LineWriter(lines.output, force=lines.force, line_buffered=lines.line_buffered) as out:
        blocks = streams.batches(names, 1 if lines.line_buffered else 256, common.encoding_errors)
        by_text = dedupe.model is None and dedupe.vectors is None
        found = (
            _by_text(blocks, dedupe, compute.seed)
            if by_text
            else _by_vectors(blocks, dedupe, compute, common.encoding_errors)
        )
        for number, (line, first) in enumerate(found, 1):
            total, kept = total + 1, kept + (first == number)
            if dedupe.labels:
                out.write_lines([f"{first}\t{line}"])
            elif first == number:
                out.write_lines([line])
    messages.note(f"{messages.counted(total, 'line')}, {total - kept:,} of them duplicates")


def _by_text(blocks: Iterable[LineBlock], dedupe: Dedupe, seed: int) -> Iterator[tuple[str, int]]:
    """Each line and the number of the first line like it, from 1."""
    from nlptools.corpora.near_duplicates import DuplicateIndex

    index, before = DuplicateIndex(dedupe.threshold, dedupe.ngrams, dedupe.n, seed), 0
    for block in blocks:
        numbers = range(before + 1, before + 1 + len(block.lines))
        yield from zip(block.lines, index.add(block.lines, numbers), strict=True)
        before += len(block.lines)


def _by_vectors(
    blocks: Iterable[LineBlock], dedupe: Dedupe, compute: Compute, errors: str
) -> Iterator[tuple[str, int]]:
    """As `_by_text`, by cosines."""
    from nlptools.inference.line_groups import vector_duplicates

    return vector_duplicates(blocks, dedupe.model, dedupe.vectors, dedupe.threshold, compute, errors)
