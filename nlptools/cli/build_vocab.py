"""nlptools build-vocab: learn a vocabulary from text."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common
from nlptools.configs.text import BuildVocab


@make_command(
    "build-vocab",
    BuildVocab,
    formats=(
        "Input is text, one sentence per line. words writes lines of token TAB count, special tokens first, the others "
        "sorted by descending count; tab, newline and backslash in a token are written \\t, \\n, \\\\. With -t char, the "
        "newline is a token, too. unigram, bpe and "
        "char write NAME.model, a SentencePiece model, and NAME.vocab with lines of piece TAB score; ids 0 to 2 are "
        "<unk>, <s>, </s>. wordpiece and byte-bpe write a directory with tokenizer.json, the classic files (vocab.txt, "
        "or vocab.json and merges.txt) and tokenizer_config.json. The same text, options and seed give the same bytes."
    ),
    examples=(
        ("Count words", "nlptools build-vocab < text.txt > vocab.tsv"),
        (
            "The 50,000 most frequent words of tokenized text",
            "nlptools tokenize text.txt | nlptools build-vocab --size 50000 -o v.tsv",
        ),
        (
            "A SentencePiece model: en.model and en.vocab",
            "nlptools build-vocab --kind unigram --size 8000 -o en.model text.txt",
        ),
        (
            "A WordPiece vocabulary as that of BERT, in lower case and without accents",
            "nlptools build-vocab --kind wordpiece --size 30522 --lowercase --strip-accents -o wp/ text.txt",
        ),
        (
            "Characters and the line end, for a language model",
            "nlptools build-vocab -t char -o chars.tsv text.txt",
        ),
    ),
    exit_codes=(0, 2, 65, 66, 73, 74, 78, 130, 143),
)
@inputs_argument
def command(inputs: tuple[str, ...], buildvocab: BuildVocab, common: Common) -> None:
    """Learn a vocabulary from text: words, or SentencePiece, WordPiece, byte-level BPE pieces.

    Reads the inputs in order, or standard input. Counting words needs memory for the distinct words only; learning
    subword pieces needs memory for the text, which --max-lines limits.
    """
    from nlptools.corpora import text_lines
    from nlptools.files import progress
    from nlptools.text import tokenization

    progress.start(inputs, buildvocab.output)
    blocks = text_lines.blocks(inputs, common.encoding_errors) if text_lines.has_tables(inputs) else None
    tokenization.build_vocab(inputs, buildvocab, common.encoding_errors, blocks)
