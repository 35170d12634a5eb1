"""nlptools extract: summaries made of sentences of the text."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common, Lines
from nlptools.configs.extract import Extract


@make_command(
    "extract",
    Extract,
    Lines,
    formats=(
        "A text per line in, its summary in one line out, in order; an empty line stays empty. In a text \\n, \\t and \\\\ "
        "stand for a line end, a tab and a backslash, as in a field of TSV; in a summary they are written so again.\n\n"
        "A sentence ends with its line, at . ! ? and ... before white space, unless what follows begins in lower case or "
        "the period belongs to an abbreviation or to initials, and at the full stops of Chinese and Japanese. The sentences "
        "of a summary stand in the order of the text, separated by spaces; white space inside a sentence becomes one "
        "space.\n\n"
        "textrank is PageRank on a graph of sentences, where those that share words are neighbors: the words that both "
        "have, over the sum of the logarithms of their lengths. Of equals the earlier one is taken. Its time and memory "
        "grow with the square of the number of sentences in one text, not with the number of texts."
    ),
    examples=(
        ("The most central sentence of each text", "nlptools extract < texts.txt > summaries.txt"),
        (
            "The first three: the baseline that is hard to beat for news",
            "nlptools extract --method lead --sentences 3 news.txt",
        ),
        (
            "Score a baseline on lines of source, tab, summary",
            "cut -f 2 test.tsv > gold.txt\n"
            "cut -f 1 test.tsv | nlptools extract | nlptools evaluate -m rouge1,rouge2,rougeL -r gold.txt",
        ),
        (
            "The whole of a file as one text",
            'awk \'{ gsub(/\\\\/, "&&"); printf "%s\\\\n", $0 }\' report.txt | nlptools extract --sentences 5',
        ),
    ),
    exit_codes=(0, 2, 65, 66, 73, 74, 130, 141, 143),
)
@inputs_argument
def command(inputs: tuple[str, ...], extract: Extract, lines: Lines, common: Common) -> None:
    """Summarize each line by its most important sentences.

    Reads the inputs one after the other, or standard input. Nothing is learned and nothing is said that the text does not
    say: a baseline for models that write summaries (train-seq2seq), and a summary where there is no such model.
    """
    from nlptools.files import line_records, streams
    from nlptools.text import extraction

    def summary(line: str) -> str:
        return line_records.escape(extraction.extract(line_records.unescape(line), extract.sentences, extract.method))

    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered) as output:
        for block in streams.all_blocks(inputs, common.encoding_errors):
            if block.lines:  # a byte order mark alone is no line
                output.write_lines(summary(line) for line in block.lines)
