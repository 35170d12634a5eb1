"""The tokenizer protocol, and the function that loads a tokenizer by name or path."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from nlptools.errors import BundleError, InputError, UsageError, display, reading
from nlptools.files import hub_cache
from nlptools.text import classic_files, huggingface, marian, sentencepiece_file
from nlptools.text.boundaries import Boundaries
from nlptools.text.builtin import MARKER, RULES, VOCAB_FILE, NamedTokenizer
from nlptools.text.pieces import SENTENCEPIECE_FILE, SentencePiece
from nlptools.text.vocab import Vocab

NAMES = tuple(RULES)

# The tokenizer of a directory is the first of these files that exists.
BUNDLE_FILES = (
    "tokenizer.json",
    SENTENCEPIECE_FILE,
    "spiece.model",
    "sentencepiece.bpe.model",
    "spm.model",
    "vocab.json",
    "vocab.txt",
    VOCAB_FILE,
)


class Tokenizer(Protocol):
    """Text to tokens to ids and back. Training, scoring and decoding need only these methods."""

    kind: str  # "sentencepiece", "tokenizers", or one of NAMES
    lowercase: bool  # whether text is lower-cased; `words` lower-cases after splitting

    def __hash__(self) -> int:
        """By identity: caches have tokenizers as keys."""

    @property
    def vocab(self) -> Vocab | None:
        """Tokens by id and the special tokens; None: tokens only, no ids."""

    def tokens(self, text: str) -> list[str]:
        """The tokens of one line."""

    def tokens_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[str]]:
        """The tokens of each of many lines."""

    def encode(self, text: str) -> list[int]:
        """The ids of one line, without beginning and end marks."""

    def encode_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The ids of each of many lines; faster than one by one."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without special tokens. Raises IndexError for an id out of range."""

    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """The text of `tokens`."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The span of characters of `text` that each token covers."""

    def save(self, directory: Path, boundaries: Boundaries | None = None) -> list[str]:
        """Write the tokenizer's files into `directory` and return their names; `load(directory)` reads them back.

        `boundaries`: the tokens around the texts of the model, which the files tell other programs; None: as in the files that
        were loaded.
        """

    def json_obstacle(self) -> str:
        """Why `save` writes no tokenizer.json; "": it writes one, or other files that transformers reads."""


def load(name_or_path: str | Path, vocab: str | Path | Vocab | None = None, lowercase: bool = False) -> Tokenizer:
    """Load a tokenizer by name or path.

    Args:
        name_or_path: a name (see `builtin`); or a file: SentencePiece `.model`,
            Hugging Face `tokenizer.json`, WordPiece `vocab.txt`, vocabulary `.tsv` (tokens separated by white space,
            ids by line); or a model directory with one of these files, or with `vocab.json` and `merges.txt`. If a
            directory has two tokenizers, the source tokenizer is loaded.
        vocab: the ids of a named tokenizer: a `token TAB count` file, or a Vocab.
        lowercase: lower-case the tokens, even if the directory does not record this setting.

    Raises:
        InputError: neither a name nor a file.
        UsageError: a vocabulary for a tokenizer that has its own.
        BundleError: a damaged, unsafe or unknown file.
    """
    name = str(name_or_path)
    if name in RULES:
        return _named(name, vocab, lowercase)
    path = hub_cache.locate(name)
    if vocab is not None:
        raise UsageError(
            f"--vocab: {display(name)} has its own vocabulary", hint=f"--vocab is for the tokenizers {', '.join(NAMES)}"
        )
    if not path.exists():
        close = difflib.get_close_matches(name, NAMES, n=1)
        hint = f"did you mean {close[0]}?" if close else f"expected one of {', '.join(NAMES)}, or a path"
        raise InputError(f"no such tokenizer: {display(name)}", hint=hint)
    return load_path(path, lowercase)


def load_path(path: Path, lowercase: bool = False) -> Tokenizer:
    """As `load`, of a file or directory that exists, even if its name is that of a tokenizer. Raises BundleError."""
    with reading(path):
        return _load_directory(path, lowercase) if path.is_dir() else _load_file(path, lowercase)


def _named(name: str, vocab: str | Path | Vocab | None, lowercase: bool) -> NamedTokenizer:
    if name == "bytes" and vocab is not None:
        raise UsageError("--vocab: the tokenizer 'bytes' has its own vocabulary")
    loaded = vocab if vocab is None or isinstance(vocab, Vocab) else Vocab.load(vocab)
    return NamedTokenizer(name, loaded, lowercase)


def _load_file(path: Path, lowercase: bool) -> Tokenizer:
    """The tokenizer in a file; the name of the file determines its format."""
    if path.suffix == ".model":
        if changed := classic_files.of_sentencepiece(path, lowercase):
            return changed
        model = huggingface.read_bytes(path, sentencepiece_file.MAX_FILE_BYTES)
        return SentencePiece(model, str(path), lowercase)
    if path.name == "vocab.json":
        return huggingface.from_merges(path, path.with_name("merges.txt"), lowercase, classic_files.completed)
    if path.suffix == ".json":
        return huggingface.from_json(path, lowercase)
    if path.suffix == ".txt":
        return huggingface.from_vocab_txt(path, lowercase, classic_files.completed)
    if path.suffix == ".tsv":
        return NamedTokenizer("whitespace", Vocab.load(path), lowercase)
    raise BundleError(
        f"{display(str(path))}: not a known name of a tokenizer file",
        hint="expected .model (SentencePiece), tokenizer.json, vocab.txt (WordPiece), .tsv, or a directory",
    )


def _load_directory(directory: Path, lowercase: bool) -> Tokenizer:
    """The tokenizer in a model directory."""
    marker = huggingface.read_marker(directory)
    kind = marker.get("kind")
    lowercase = lowercase or bool(marker.get("lowercase"))
    if (directory / marian.SOURCE).is_file():
        return marian.read_directory(directory, lowercase)[0]
    if kind in RULES:
        vocab = directory / VOCAB_FILE
        return _named(str(kind), vocab if kind != "bytes" and vocab.is_file() else None, lowercase)
    if kind == "pixels":
        from nlptools.text import pixels  # which needs NumPy

        return pixels.read(marker, str(directory / MARKER))
    if kind not in (None, SentencePiece.kind, huggingface.HuggingFace.kind):
        raise BundleError(f"{display(str(directory))}: unknown kind of tokenizer {kind!r}")
    if kind == SentencePiece.kind and (directory / SENTENCEPIECE_FILE).is_file():
        return _load_file(directory / SENTENCEPIECE_FILE, lowercase)
    for name in BUNDLE_FILES:
        if (directory / name).is_file() and (name != "vocab.json" or (directory / "merges.txt").is_file()):
            return _load_file(directory / name, lowercase)
    raise BundleError(
        f"{display(str(directory))}: no tokenizer in this directory", hint=f"expected one of {', '.join(BUNDLE_FILES)}"
    )
