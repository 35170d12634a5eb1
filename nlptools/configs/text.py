"""Settings of cutting text into tokens and of learning vocabularies."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import LARGEST_SEED, option

KINDS = ("words", "unigram", "bpe", "char", "wordpiece", "byte-bpe")
SENTENCEPIECE_KINDS = ("unigram", "bpe", "char")

TOKENIZER_HELP = (
    "Tokenizer: whitespace, words, 13a, intl, char, bytes; or the path of a SentencePiece .model, tokenizer.json, "
    "vocab.txt (WordPiece), .tsv vocabulary, or model directory."
)


@dataclass(frozen=True)
class Tokenize:
    """Tokenizer options"""

    tokenizer: str = option("words", TOKENIZER_HELP, short="-t", metavar="NAME|PATH")
    to: str = option("pieces", "Write tokens or ids; with --decode, what is read.", choices=("pieces", "ids"))
    decode: bool = option(False, "Put tokens (or ids, with --to ids) back together.")
    lowercase: bool = option(False, "Lower-case the text first.")
    bos: bool = option(False, "Begin each line with the beginning-of-sentence token (or [CLS]).")
    eos: bool = option(False, "End each line with the end-of-sentence token (or [SEP]).")
    sample: float | None = option(
        None,
        "Draw a segmentation at random (SentencePiece): for unigram, with probabilities to the power of this; for BPE, "
        "dropping each merge with this probability.",
        low=0,
        metavar="ALPHA",
    )
    nbest: int = option(
        0, "Write the N best segmentations of each line, separated by tabs (unigram).", low=0, metavar="N"
    )
    vocab: str | None = option(None, "Ids for a tokenizer given by name: token TAB count.", metavar="FILE")
    threads: int = option(0, "CPU threads; 0 takes all cores this process may use.", low=0, metavar="N")
    seed: int = option(
        1, "Seed of --sample; lines are drawn independently of each other.", low=0, high=LARGEST_SEED, metavar="N"
    )


@dataclass(frozen=True)
class BuildVocab:
    """Vocabulary options"""

    kind: str = option(
        "words",
        "What to learn: words; SentencePiece unigram, bpe or char; wordpiece (BERT); byte-bpe (GPT-2).",
        choices=KINDS,
    )
    size: int = option(0, "Number of entries, special ones included; 0: all words, or 8000 pieces.", low=0, metavar="N")
    min_count: int = option(
        0, "Leave out words (wordpiece, byte-bpe: merges) that occur less often than this.", low=0, metavar="N"
    )
    coverage: float = option(
        0.9995, "Share of the characters that SentencePiece models shall cover.", low=0.9, high=1, metavar="X"
    )
    special: tuple[str, ...] | None = option(
        None,
        "Special tokens, separated by commas. words, byte-bpe: instead of <unk>,<s>,</s> or <|endoftext|>. "
        "Otherwise: besides those that the kind always has.",
        metavar="A,B,...",
    )
    lowercase: bool = option(False, "Lower-case the text; models that can do so will from then on lower-case theirs.")
    tokenizer: str = option(
        "whitespace", "Tokenizer that makes the words, for --kind words.", short="-t", metavar="NAME"
    )
    max_lines: int = option(0, "Learn from this many lines drawn at random; 0: from all.", low=0, metavar="N")
    threads: int = option(
        0, "CPU threads; 0 takes all cores this process may use. The result does not depend on it.", low=0, metavar="N"
    )
    seed: int = option(1, "Seed of --max-lines.", low=0, high=LARGEST_SEED, metavar="N")
    output: str = option(
        "-",
        "Where to write: a file (words), NAME.model and NAME.vocab (SentencePiece), a directory (wordpiece, byte-bpe).",
        short="-o",
        metavar="PATH",
    )
    force: bool = option(False, "Replace the output if it exists.")
