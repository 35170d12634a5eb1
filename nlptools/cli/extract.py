"""nlptools extract: extractive summarization."""

from __future__ import annotations

from nlptools.cli.input_shares import refuse_tables, remaining_lines
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, LineOutput
from nlptools.configs.extract import Extract
from nlptools.configs.shares import Shares


@make_command(
    "extract",
    Extract,
    Shares,
    LineOutput,
    exit_codes=(0, 2, 65, 66, 73, 74, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], extract: Extract, shares: Shares, lines: LineOutput, common: Common) -> None:
    """Summarize each line by its most important sentences.

    Reads the inputs in order, or standard input. A summary consists of sentences of the text, so no model is needed.
    Also a baseline for models that generate summaries (train-seq2seq).
    """
    from nlptools.corpora import text_lines
    from nlptools.files import line_records, streams
    from nlptools.text import extraction

    def summary(line: str) -> str:
        return line_records.escape(extraction.extract(line_records.unescape(line), extract.sentences, extract.method))

    refuse_tables(shares, inputs)
    names = remaining_lines(inputs, shares, lines.output)
    force, buffered = lines.force, lines.line_buffered
    with streams.LineWriter(lines.output, force=force, line_buffered=buffered, append=shares.skip_done) as output:
        for block in text_lines.batches(names, 64, common.encoding_errors):
            output.write_lines(map(summary, block.lines))
