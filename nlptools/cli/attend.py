"""nlptools attend: attention weights between the words of a text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from nlptools.cli.input_shares import leave_if_done, remaining_lines
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, LineOutput
from nlptools.configs.attend import PICTURES, Attend, AttendCompute, output_format
from nlptools.configs.shares import Shares

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nlptools.files.streams import LineWriter
    from nlptools.plots.attention_maps import AttentionMap


@make_command(
    "attend",
    Attend,
    AttendCompute,
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
    attend: Attend,
    compute: AttendCompute,
    shares: Shares,
    lines: LineOutput,
    common: Common,
) -> None:
    """Show what the words of a text attend to: as numbers, as pictures or as a page.

    MODEL is a directory of an encoder, a language model or a translation model with attention.
    """
    from nlptools.files import streams
    from nlptools.inference import uses
    from nlptools.inference.attention import AttentionMapper
    from nlptools.inference.loading import load
    from nlptools.plots import attention_picture

    kind = output_format(attend, lines.output)
    if kind in PICTURES:
        attention_picture.check_packages()
    if kind != "jsonl":
        leave_if_done(shares, lines.output)
        shares = replace(shares, skip_done=False)
    names = remaining_lines(inputs, shares, lines.output)
    with streams.LineWriter(
        lines.output,
        force=lines.force,
        line_buffered=lines.line_buffered,
        layout="jsonl" if kind == "jsonl" else None,
        append=shares.skip_done,
    ) as output:
        mapper = AttentionMapper(load(model, use=uses.ATTEND, compute=compute), attend)
        blocks = streams.batches(names, 1 if lines.line_buffered else 16, common.encoding_errors)
        _write(output, kind, (found for block in blocks for found in mapper.maps(block)), attend.view)
    mapper.reader.finish()


def _write(output: LineWriter, kind: str, maps: Iterator[AttentionMap], view: str | None) -> None:
    from nlptools.plots import attention_page, attention_picture

    if kind == "jsonl":
        for found in maps:
            output.write_lines([found.as_json()])
    elif kind == "html":
        output.write(attention_page.page(attention_page.checked(maps)))
    else:
        output.write(attention_picture.picture(attention_picture.checked(maps), f".{kind}", view))
