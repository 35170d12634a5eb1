"""nlptools build-vocab: learn a vocabulary from text."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common
from nlptools.configs.text import BuildVocab


@make_command(
    "build-vocab",
    BuildVocab,
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
