"""nlptools split: text to sentences."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, LineOutput
from nlptools.configs.text import Split


@make_command(
    "split",
    Split,
    LineOutput,
    exit_codes=(0, 2, 65, 66, 73, 74, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], split: Split, lines: LineOutput, common: Common) -> None:
    """Split text into sentences, one per line.

    Reads the inputs in order, or standard input. The rules cover many languages and need no model. pretrain-bert
    --sentences auto uses the same rules.
    """
    from nlptools.corpora import text_lines
    from nlptools.files import streams
    from nlptools.text.sentences import split_lines

    with streams.LineWriter(lines.output, force=lines.force, line_buffered=lines.line_buffered) as output:
        for path in streams.check_inputs(inputs):
            blocks = (block.lines for block in text_lines.blocks([path], common.encoding_errors))
            for sentences in split_lines(blocks, split.wrapped):
                output.write_lines(sentences)
