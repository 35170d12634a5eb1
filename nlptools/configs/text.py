"""Settings of `tokenize`, `split` and `build-vocab`."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import LARGEST_SEED, delimiter_option, option, text_column

KINDS = ("words", "unigram", "bpe", "char", "wordpiece", "byte-bpe")
SENTENCEPIECE_KINDS = ("unigram", "bpe", "char")

TOKENIZER_HELP = (
    "Tokenizer: whitespace, ascii-whitespace, words, 13a, intl, zh, ja-mecab, ko-mecab, char, bytes; or the path of a "
    "SentencePiece .model, tokenizer.json, vocab.txt (WordPiece), .tsv vocabulary, or model directory."
)


@dataclass(frozen=True)
class Tokenize:
    """Tokenizer options"""

    tokenizer: str = option("words", TOKENIZER_HELP, short="-t", metavar="NAME|PATH")
    to: str = option("pieces", "Output tokens or ids; with --decode, the input format.", choices=("pieces", "ids"))
    decode: bool = option(
        False,
        "Join tokens (or ids, with --to ids) into text.",
        excludes=("sample", "nbest", "bos", "eos"),
    )
    lowercase: bool = option(False, "Lower-case the tokens, after sentence ends are detected (words).")
    bos: bool = option(False, "Begin each line with the beginning-of-sentence token (or [CLS]).")
    eos: bool = option(False, "End each line with the end-of-sentence token (or [SEP]).")
    sample: float | None = option(
        None,
        "Draw a random segmentation (SentencePiece). unigram: with probabilities raised to this power; BPE: each merge is "
        "dropped with this probability.",
        low=0,
        metavar="ALPHA",
        excludes=("nbest",),
    )
    nbest: int = option(
        0, "Write the N best segmentations of each line, separated by tabs (unigram).", low=0, metavar="N"
    )
    vocab: str | None = option(None, "Vocabulary (token TAB count) for a tokenizer given by name.", metavar="FILE")
    text_column: str | None = text_column("the text")
    delimiter: str | None = delimiter_option()
    threads: int = option(0, "CPU threads; 0: OMP_NUM_THREADS if set, else all cores available.", low=0, metavar="N")
    seed: int = option(
        1,
        "Seed of --sample; the segmentations of different lines are independent.",
        low=0,
        high=LARGEST_SEED,
        metavar="N",
    )


@dataclass(frozen=True)
class Split:
    """Splitting options"""

    wrapped: bool = option(False, "Paragraphs end at an empty line; otherwise each line is a paragraph.")


@dataclass(frozen=True)
class BuildVocab:
    """Vocabulary options"""

    kind: str = option(
        "words",
        "Kind of vocabulary: words; SentencePiece unigram, bpe or char; wordpiece (BERT); byte-bpe (GPT-2).",
        choices=KINDS,
        needs={kind: ("output",) for kind in KINDS if kind != "words"},
    )
    size: int = option(
        0, "Number of entries, including special tokens; 0: all words, or 8000 pieces.", low=0, metavar="N"
    )
    min_count: int = option(
        0,
        "Omit words (wordpiece, byte-bpe: merges) that occur less often than this.",
        low=0,
        metavar="N",
        only={"kind": ("words", "wordpiece", "byte-bpe")},
    )
    coverage: float = option(
        0.9995, "Fraction of the characters that a SentencePiece model covers.", low=0.9, high=1, metavar="X"
    )
    special: tuple[str, ...] | None = option(
        None,
        "Special tokens, separated by commas. words, byte-bpe: instead of <unk>,<s>,</s> or <|endoftext|>. "
        "Other kinds: in addition to their standard ones.",
        metavar="A,B,...",
    )
    lowercase: bool = option(
        False, "Lower-case the text; models that store this setting will also lower-case their input."
    )
    strip_accents: bool = option(
        False,
        "Remove combining marks from the text, now and when the model is used, as BERT's uncased models do: accents and"
        " umlauts, but also vowel signs and the marks of Japanese sounds.",
        only={"kind": ("wordpiece",)},
    )
    tokenizer: str = option(
        "whitespace",
        "Tokenizer that splits the text into words.",
        short="-t",
        metavar="NAME",
        only={"kind": ("words",)},
    )
    merge: bool = option(
        False,
        "Read vocabularies of words (token TAB count) instead of text, and add their counts. Those of all shards, without"
        " --size and --min-count, give the vocabulary of the whole text.",
        only={"kind": ("words",)},
        excludes=("shard", "max_lines", "lowercase"),
    )
    max_lines: int = option(0, "Learn from a random sample of this many lines; 0: all lines.", low=0, metavar="N")
    threads: int = option(
        0,
        "CPU threads; 0: all cores available to this process. The result does not depend on it.",
        low=0,
        metavar="N",
    )
    seed: int = option(1, "Seed of --max-lines.", low=0, high=LARGEST_SEED, metavar="N")
    output: str = option(
        "-",
        "Output: a file (words), NAME.model and NAME.vocab (SentencePiece), or a directory (wordpiece, byte-bpe).",
        short="-o",
        metavar="PATH",
    )
    force: bool = option(False, "Replace the output if it exists.")
