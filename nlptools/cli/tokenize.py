"""nlptools tokenize: text to tokens or ids, and back."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, LineOutput
from nlptools.configs.text import Tokenize


@make_command(
    "tokenize",
    Tokenize,
    LineOutput,
    exit_codes=(0, 2, 65, 66, 73, 74, 78, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], tokenize: Tokenize, lines: LineOutput, common: Common) -> None:
    """Split text into tokens or ids, or join them again.

    Reads the inputs in order, or standard input, and writes one output line per input line.
    """
    from nlptools.corpora import text_lines
    from nlptools.files import streams
    from nlptools.text import tokenization

    columns = () if tokenize.text_column is None else (tokenize.text_column,)
    tables = bool(columns) or tokenize.delimiter is not None or text_lines.has_tables(inputs)
    blocks = text_lines.blocks(inputs, common.encoding_errors, columns, tokenize.delimiter) if tables else None
    texts = tokenization.tokenize_files(inputs, tokenize, common.encoding_errors, lines.line_buffered, blocks)
    with streams.LineWriter(lines.output, force=lines.force) as output:
        for text in texts:
            output.write(text + "\n")
