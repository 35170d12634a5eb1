"""nlptools tokenize: text to tokens or ids, and back."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common, Lines
from nlptools.configs.text import Tokenize


@make_command(
    "tokenize",
    Tokenize,
    Lines,
    formats=(
        "Input is text, one line after another; each line gives one line: tokens separated by single spaces, or ids as "
        "decimals separated by single spaces. An empty line stays empty. With --nbest the alternatives of a line stand "
        "on its line, best first, separated by tabs. With --decode it is the other way round. Tokens hold no spaces: "
        "char writes a space as U+2581 and a U+2581 of the text with a backslash before it; SentencePiece begins words "
        "with U+2581; bytes writes <0x00> to <0xFF>. --decode gives char, bytes and byte-level BPE back exactly, words "
        "up to spacing, SentencePiece up to its normalization, and joins the tokens of whitespace, 13a and intl with "
        "spaces. A vocabulary is a file of token TAB count lines; the id of a token is the number of its line, from 0."
    ),
    examples=(
        ("Cut text into words and punctuation", "nlptools tokenize < text.txt > words.txt"),
        ("Put them back together", "nlptools tokenize --decode < words.txt"),
        ("Ids of a SentencePiece model", "nlptools tokenize -t en.model --to ids < text.txt > ids.txt"),
        ("Characters, with ids from a vocabulary", "nlptools tokenize -t char --vocab chars.tsv --to ids < text.txt"),
        (
            "Another segmentation each time round (subword regularization)",
            "nlptools tokenize -t en.model --sample 0.1 --seed 2",
        ),
    ),
    exit_codes=(0, 2, 65, 66, 73, 74, 78, 130, 141, 143),
)
@inputs_argument
def command(inputs: tuple[str, ...], tokenize: Tokenize, lines: Lines, common: Common) -> None:
    """Split text into tokens or ids, or put it back together.

    Reads the inputs one after the other, or standard input, and writes one line for each line.
    """
    from nlptools.files import streams
    from nlptools.text import tokenization

    found = tokenization.tokenize_files(inputs, tokenize, common.encoding_errors, lines.line_buffered)
    with streams.Output(lines.output, force=lines.force) as output:
        for text in found:
            output.write(text + "\n")
