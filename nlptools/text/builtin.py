"""Tokenizers selected by name: whitespace, ascii-whitespace, words, 13a, intl, zh, ja-mecab, ko-mecab, char, bytes.

Ids come from a vocabulary file; `bytes` has its own vocabulary. `decode` restores the exact text for `char` and `bytes`,
and the text up to spacing for `words` (see `word_joining.py`); for the others it joins the tokens with single spaces.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

from nlptools.errors import DataError, UsageError
from nlptools.files import atomic
from nlptools.text import exported_json, mecab, mteval, word_joining, words
from nlptools.text.boundaries import Boundaries
from nlptools.text.packages import FastTokenizer
from nlptools.text.vocab import Vocab

MARKER = "nlptools_tokenizer.json"  # names the kind of tokenizer in a directory
VOCAB_FILE = "vocab.tsv"
SPACE = "\u2581"  # represents a space in the tokens of `char`


def _split_characters(text: str) -> list[str]:
    """Each character; a space becomes U+2581, and a U+2581 in the text gets a backslash before it."""
    if SPACE in text:
        return ["\\" + SPACE if c == SPACE else SPACE if c == " " else c for c in text]
    return list(text.replace(" ", SPACE))


def _join_characters(tokens: Sequence[str]) -> str:
    return "".join([" " if t == SPACE else SPACE if t == "\\" + SPACE else t for t in tokens])


def _split_bytes(text: str) -> list[str]:
    names = byte_vocab().tokens
    return [names[value] for value in text.encode("utf-8", "replace")]


def _join_bytes(tokens: Sequence[str]) -> str:
    """Text from tokens such as `<0x41>`; invalid UTF-8 becomes U+FFFD. Raises DataError."""
    ids = byte_vocab().ids
    try:
        return bytes([ids[token] for token in tokens]).decode("utf-8", "replace")
    except KeyError as error:
        raise DataError(f"not a byte: {error.args[0]!r}, expected <0x00> to <0xFF>") from None


@lru_cache(maxsize=1)
def byte_vocab() -> Vocab:
    """The 256 bytes, with the names that SentencePiece uses; the id is the value of the byte."""
    return Vocab([f"<0x{value:02X}>" for value in range(256)])


class _Rule(NamedTuple):
    """The functions of a named tokenizer: split lines, join tokens, and locate tokens in a text."""

    split: Callable[[Sequence[str]], list[list[str]]]
    join: Callable[[Sequence[str]], str]
    spans: Callable[[list[str], str], list[tuple[int, int]]]
    sees_case: bool = False  # `split` depends on letter case: tokens are lower-cased, not the text


def _each(split: Callable[[str], list[str]]) -> Callable[[Sequence[str]], list[list[str]]]:
    return partial(_split_each, split)


def _split_each(split: Callable[[str], list[str]], lines: Sequence[str]) -> list[list[str]]:
    return list(map(split, lines))


def _character_spans(tokens: list[str], text: str) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(len(text))]


def _byte_spans(tokens: list[str], text: str) -> list[tuple[int, int]]:
    return [(i, i + 1) for i, c in enumerate(text) for _ in c.encode("utf-8", "replace")]


RULES = {
    "whitespace": _Rule(_each(str.split), " ".join, words.spans),
    "ascii-whitespace": _Rule(_each(words.split_ascii), " ".join, words.spans),
    "words": _Rule(_each(words.split_words), word_joining.join_words, words.spans, sees_case=True),
    "13a": _Rule(mteval.split_13a, " ".join, mteval.spans_13a),
    "intl": _Rule(mteval.split_intl, " ".join, words.spans),
    "zh": _Rule(mteval.split_zh, " ".join, words.spans),
    **{name: _Rule(_each(partial(mecab.split, name)), " ".join, words.spans) for name in mecab.NAMES},
    "char": _Rule(_each(_split_characters), _join_characters, _character_spans),
    "bytes": _Rule(_each(_split_bytes), _join_bytes, _byte_spans),
}


AT_WHITE_SPACE = ("whitespace", "ascii-whitespace")  # tokenizers that only split


class NamedTokenizer:
    """A tokenizer of `RULES`, with or without a vocabulary.

    Attributes:
        kind: the name.
        vocab: tokens by id; None: tokens only, no ids.
        lowercase: whether tokens are lower-cased.
    """

    def __init__(self, kind: str, vocab: Vocab | None = None, lowercase: bool = False) -> None:
        self.kind = kind
        self.vocab = byte_vocab() if kind == "bytes" else vocab
        self.lowercase = lowercase
        self._rule = RULES[kind]

    def tokens(self, text: str) -> list[str]:
        """The tokens of one line."""
        return self.tokens_lines([text])[0]

    def tokens_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[str]]:
        """The tokens of each of many lines."""
        split = self._rule.split
        if not self.lowercase:
            return split(lines)
        if self._rule.sees_case:
            return [" ".join(tokens).lower().split() for tokens in split(lines)]
        return split([line.lower() for line in lines])

    def encode(self, text: str) -> list[int]:
        """The ids of one line. Raises UsageError without a vocabulary, DataError for an unknown token without <unk>."""
        return self.encode_lines([text])[0]

    def encode_lines(self, lines: Sequence[str], threads: int = 1) -> list[list[int]]:
        """The ids of each of many lines. Raises as `encode` does."""
        if self.kind == "bytes":
            return [list((t.lower() if self.lowercase else t).encode("utf-8", "replace")) for t in lines]
        vocab = self._vocab()
        ids, unk = vocab.ids, vocab.unk
        if unk is not None:
            return [[ids.get(token, unk) for token in row] for row in self.tokens_lines(lines)]
        with all_known():
            return [[ids[token] for token in row] for row in self.tokens_lines(lines)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, without special tokens. Raises IndexError for an id out of range."""
        vocab = self._vocab()
        marks = vocab.marks
        return self._rule.join([vocab.token(id) for id in ids if id not in marks])

    def decode_tokens(self, tokens: Sequence[str]) -> str:
        """The text of `tokens`, without special tokens."""
        if self.vocab is not None and (marks := self.vocab.marks):
            tokens = [token for token in tokens if self.vocab.ids.get(token) not in marks]
        return self._rule.join(tokens)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The span of characters of `text` that each token covers."""
        lowered = text.lower() if self.lowercase and not self._rule.sees_case else text
        spans = self._rule.spans(self._rule.split([lowered])[0], lowered)
        return original_spans(spans, text) if len(lowered) != len(text) else spans

    def save(self, directory: Path, boundaries: Boundaries | None = None) -> list[str]:
        """See `tokenizer.Tokenizer`; `load` reads no tokenizer.json of these tokenizers."""
        names = [write_marker(directory, self.kind, self.lowercase)]
        if self.vocab is not None and self.kind != "bytes":
            self.vocab.save(Path(directory) / VOCAB_FILE)
            names.append(VOCAB_FILE)
        return [*names, *exported_json.write(self, Path(directory), boundaries)]

    def as_json(self) -> tuple[FastTokenizer, Vocab]:
        """See `exported_json.Convertible`."""
        vocab, lowercase = self._vocab(), self.lowercase
        if self.kind == "bytes":
            return exported_json.of_bytes(vocab, lowercase=lowercase)
        if self.kind == "char":
            return exported_json.of_characters(vocab, SPACE, lowercase=lowercase), vocab
        if self.kind in AT_WHITE_SPACE:
            ascii_only = self.kind == "ascii-whitespace"
            return exported_json.of_words(vocab, ascii_only=ascii_only, lowercase=lowercase), vocab
        raise exported_json.Inexpressible(f"it has no form for the rules of {self.kind}")

    def json_obstacle(self) -> str:
        """See `tokenizer.Tokenizer`."""
        return "" if self.vocab is None else exported_json.obstacle(self)

    def _vocab(self) -> Vocab:
        if self.vocab is None:
            raise UsageError(f"the tokenizer '{self.kind}' has no vocabulary", hint="give it a --vocab FILE")
        return self.vocab


@contextlib.contextmanager
def all_known() -> Iterator[None]:
    """Look up tokens in a vocabulary without <unk>. Raises DataError for an unknown token."""
    try:
        yield
    except KeyError as error:
        raise DataError(f"token {error.args[0]!r} is not in the vocabulary, which has no <unk>") from None


def write_marker(directory: Path, kind: str, lowercase: bool) -> str:
    """Write the file that records the kind of the tokenizer in `directory`; returns the name of the file."""
    settings = {"kind": kind, "lowercase": lowercase}
    atomic.write_whole(Path(directory) / MARKER, json.dumps(settings, indent=2) + "\n")
    return MARKER


def original_spans(spans: list[tuple[int, int]], text: str) -> list[tuple[int, int]]:
    """Map `spans` of `text.lower()` to spans of `text`: a few characters become two when lower-cased."""
    places = [i for i, c in enumerate(text) for _ in c.lower()]
    return [
        (places[a], places[b - 1] + 1) if b > a else (places[a] if a < len(places) else len(text),) * 2
        for a, b in spans
    ]


_SURROGATES = re.compile("[\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """`text` with lone surrogates, which UTF-8 cannot encode, replaced by U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)
