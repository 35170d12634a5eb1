"""nlptools split: text to sentences."""

from __future__ import annotations

from nlptools.cli.input_shares import leave_if_done, refuse_tables, shard_of
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, LineOutput
from nlptools.configs.shares import Shares
from nlptools.configs.text import Split
from nlptools.errors import UsageError


@make_command(
    "split",
    Split,
    Shares,
    LineOutput,
    exit_codes=(0, 2, 65, 66, 73, 74, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], split: Split, shares: Shares, lines: LineOutput, common: Common) -> None:
    """Split text into sentences, one per line.

    Reads the inputs in order, or standard input. The rules cover many languages and need no model. pretrain-bert
    --sentences auto uses the same rules.
    """
    from nlptools.corpora import text_lines
    from nlptools.files import streams
    from nlptools.text.sentences import split_lines

    if split.wrapped and shares.shard:
        raise UsageError("--shard divides lines, and with --wrapped a paragraph has several")
    leave_if_done(shares, lines.output)
    refuse_tables(shares, inputs)
    names = shard_of(inputs, shares)
    with streams.LineWriter(lines.output, force=lines.force, line_buffered=lines.line_buffered) as output:
        for path in names:
            blocks = (block.lines for block in text_lines.blocks([path], common.encoding_errors))
            for sentences in split_lines(blocks, split.wrapped):
                output.write_lines(sentences)
