"""nlptools fill: the words at the masks of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nlptools.cli.input_shares import leave_if_done, remaining_lines, shard_of
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Compute, LineOutput
from nlptools.configs.fill import Fill
from nlptools.configs.shares import Shares

if TYPE_CHECKING:
    from nlptools.inference.filling import Filler


@make_command(
    "fill",
    Fill,
    Compute,
    Shares,
    LineOutput,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@filter_inputs
def command(
    model: str,
    inputs: tuple[str, ...],
    fill: Fill,
    compute: Compute,
    shares: Shares,
    lines: LineOutput,
    common: Common,
) -> None:
    """Fill the masks of a text with the most probable words.

    MODEL is an encoder with its head for masked tokens (a directory of pretrain-bert, or a published BERT, RoBERTa and
    so on), or a T5, which fills a gap with one word or several.
    """
    from nlptools.files import input_parts, streams
    from nlptools.inference import uses
    from nlptools.inference.loading import load

    if fill.to == "tsv":  # a row per word, with the number of the line
        leave_if_done(shares, lines.output)
        names, append = shard_of(inputs, shares), False
    else:
        names, append = remaining_lines(inputs, shares, lines.output), shares.skip_done
    with streams.LineWriter(
        lines.output,
        force=lines.force,
        line_buffered=lines.line_buffered,
        layout={"tsv": "table"}.get(fill.to, fill.to),
        append=append,
    ) as output:
        filler = load(model, use=uses.FILL, settings=fill, compute=compute)
        read = input_parts.lines_before(inputs, names) if fill.to == "tsv" else 0
        for block in streams.batches(names, 1 if lines.line_buffered else 256, common.encoding_errors):
            for line, masks in zip(block.lines, filler.fill(block), strict=True):
                read += 1
                output.write_lines(_FORMATS[fill.to](read, line, masks))
    filler.unknown.report()


def _fields(number: int, line: str, masks: list[list[Filler]]) -> list[str]:
    from nlptools.files.line_records import escape

    return ["\t".join(f"{escape(each.text)}\t{each.probability:.4g}" for fillers in masks for each in fillers)]


def _rows(number: int, line: str, masks: list[list[Filler]]) -> list[str]:
    from nlptools.files.line_records import escape

    return [
        f"{number}\t{mask}\t{rank}\t{escape(each.text)}\t{each.probability:.6g}"
        for mask, fillers in enumerate(masks, 1)
        for rank, each in enumerate(fillers, 1)
    ]


def _json(number: int, line: str, masks: list[list[Filler]]) -> list[str]:
    import json

    found = [[[each.text, float(f"{each.probability:.6g}")] for each in fillers] for fillers in masks]
    return [json.dumps({"text": line, "fillers": found}, ensure_ascii=False)]


_FORMATS = {"text": _fields, "tsv": _rows, "jsonl": _json}
