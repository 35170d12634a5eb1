"""nlptools extract: extractive summarization."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Lines
from nlptools.configs.extract import Extract


@make_command(
    "extract",
    Extract,
    Lines,
    formats=(
        "Input is one text per line, output its summary, one per line, in order; an empty line stays empty. In both, \\n, "
        "\\t and \\\\ represent a line end, a tab and a backslash, as in a field of TSV.\n\n"
        "A sentence ends at a line end; at . ! ? and ... before white space, unless the next word begins in lower case or "
        "the period belongs to an abbreviation or to initials; and at the full stops of Chinese and Japanese. The sentences "
        "of a summary keep the order of the text and are separated by spaces; white space inside a sentence becomes one "
        "space.\n\n"
        "textrank is PageRank on a graph of sentences. Sentences that share words are neighbors; the weight is the number of "
        "shared words over the sum of the logarithms of both lengths. Between equal scores the earlier sentence wins. Time "
        "and memory grow with the square of the number of sentences in one text, not with the number of texts."
    ),
    examples=(
        ("The most central sentence of each text", "nlptools extract < texts.txt > summaries.txt"),
        (
            "The first three sentences: a strong baseline for news",
            "nlptools extract --method lead --sentences 3 news.txt",
        ),
        (
            "Score a baseline on lines of source, tab, summary",
            "cut -f 2 test.tsv > gold.txt\n"
            "cut -f 1 test.tsv | nlptools extract | nlptools evaluate -m rouge1,rouge2,rougeL -r gold.txt",
        ),
        (
            "A whole file as one text",
            'awk \'{ gsub(/\\\\/, "&&"); printf "%s\\\\n", $0 }\' report.txt | nlptools extract --sentences 5',
        ),
    ),
    exit_codes=(0, 2, 65, 66, 73, 74, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], extract: Extract, lines: Lines, common: Common) -> None:
    """Summarize each line by its most important sentences.

    Reads the inputs in order, or standard input. The summary consists of sentences of the text; nothing is trained. Useful
    as a baseline for models that generate summaries (train-seq2seq), and where no such model is available.
    """
    from nlptools.corpora import text_lines
    from nlptools.files import line_records, streams
    from nlptools.text import extraction

    def summary(line: str) -> str:
        return line_records.escape(extraction.extract(line_records.unescape(line), extract.sentences, extract.method))

    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered) as output:
        for block in text_lines.batches(inputs, 64, common.encoding_errors):
            output.write_lines(map(summary, block.lines))
