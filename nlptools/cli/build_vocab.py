"""nlptools build-vocab: learn a vocabulary from text."""

from __future__ import annotations

from nlptools.cli.input_shares import leave_if_done, refuse_tables, shard_of
from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common
from nlptools.configs.shares import Shares
from nlptools.configs.text import BuildVocab
from nlptools.errors import UsageError


@make_command(
    "build-vocab",
    BuildVocab,
    Shares,
    exit_codes=(0, 2, 65, 66, 73, 74, 78, 130, 143),
)
@inputs_argument
def command(inputs: tuple[str, ...], buildvocab: BuildVocab, shares: Shares, common: Common) -> None:
    """Learn a vocabulary from text: words, or SentencePiece, WordPiece, byte-level BPE pieces.

    Reads the inputs in order, or standard input. Counting words needs memory for the distinct words only; learning
    subword pieces needs memory for the text, which --max-lines limits.
    """
    from nlptools.corpora import text_lines
    from nlptools.files import progress
    from nlptools.text import vocabulary_building

    if shares.shard and buildvocab.kind != "words":
        raise UsageError("--shard applies to --kind words only: pieces are learned from the whole text")
    leave_if_done(shares, *vocabulary_building.vocab_files(buildvocab))
    progress.start(inputs, buildvocab.output)
    refuse_tables(shares, inputs)
    names = shard_of(inputs, shares)
    tables = not buildvocab.merge and text_lines.has_tables(names)
    blocks = text_lines.blocks(names, common.encoding_errors) if tables else None
    vocabulary_building.build_vocab(names, buildvocab, common.encoding_errors, blocks)
