"""nlptools tokenize: text to tokens or ids, and back."""

from __future__ import annotations

from nlptools.cli.input_shares import refuse_tables, remaining_lines
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, LineOutput
from nlptools.configs.shares import Shares
from nlptools.configs.text import Tokenize


@make_command(
    "tokenize",
    Tokenize,
    Shares,
    LineOutput,
    exit_codes=(0, 2, 65, 66, 73, 74, 78, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], tokenize: Tokenize, shares: Shares, lines: LineOutput, common: Common) -> None:
    """Split text into tokens or ids, or join them again.

    Reads the inputs in order, or standard input, and writes one output line per input line.
    """
    from nlptools.corpora import text_lines
    from nlptools.files import input_parts, streams
    from nlptools.text import tokenization

    columns = () if tokenize.text_column is None else (tokenize.text_column,)
    tables = bool(columns) or tokenize.delimiter is not None
    refuse_tables(shares, inputs, tables)
    names = remaining_lines(inputs, shares, lines.output)
    before = input_parts.lines_before(inputs, names) if tokenize.sample is not None else 0
    blocks = None
    if tables or text_lines.has_tables(names):
        blocks = text_lines.blocks(names, common.encoding_errors, columns, tokenize.delimiter)
    texts = tokenization.tokenize_files(names, tokenize, common.encoding_errors, lines.line_buffered, blocks, before)
    with streams.LineWriter(lines.output, force=lines.force, append=shares.skip_done) as output:
        for text in texts:
            output.write(text + "\n")
