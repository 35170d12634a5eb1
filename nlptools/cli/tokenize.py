"""nlptools tokenize: text to tokens or ids, and back."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Lines
from nlptools.configs.text import Tokenize


@make_command(
    "tokenize",
    Tokenize,
    Lines,
    formats=(
        "Input is text. Each input line gives one output line: tokens, or ids as decimal numbers, separated by single "
        "spaces. An empty line stays empty. With --nbest, the segmentations of a line are on one line, best first, "
        "separated by tabs. With --decode, input and output are swapped. Tokens contain no spaces: char writes a space "
        "as U+2581, and a U+2581 in the text with a backslash before it; SentencePiece begins words with U+2581; bytes "
        "writes <0x00> to <0xFF>. --decode restores the exact text for char, bytes and byte-level BPE, the text up to "
        "spacing for words, and the normalized text for SentencePiece; it joins the tokens of the others with spaces. "
        "whitespace splits at all white space of Unicode, ascii-whitespace as KenLM does, so that no-break spaces stay in words. "
        "zh splits Chinese into characters; ja-mecab and ko-mecab split Japanese and Korean into words with MeCab (extras "
        "ja and ko); these and 13a and intl equal the tokenizers of sacrebleu. "
        "A vocabulary file has lines of token TAB count; the line number, counted from 0, is the id."
    ),
    examples=(
        ("Split text into words and punctuation", "nlptools tokenize < text.txt > words.txt"),
        ("Join the tokens again", "nlptools tokenize --decode < words.txt"),
        ("Token ids from a SentencePiece model", "nlptools tokenize -t en.model --to ids < text.txt > ids.txt"),
        ("Characters, with ids from a vocabulary", "nlptools tokenize -t char --vocab chars.tsv --to ids < text.txt"),
        (
            "A random segmentation, different for each seed (subword regularization)",
            "nlptools tokenize -t en.model --sample 0.1 --seed 2",
        ),
    ),
    exit_codes=(0, 2, 65, 66, 73, 74, 78, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], tokenize: Tokenize, lines: Lines, common: Common) -> None:
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
    with streams.Output(lines.output, force=lines.force) as output:
        for text in texts:
            output.write(text + "\n")
