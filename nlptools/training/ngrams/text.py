"""Text as ids for counting, in memory or in a file."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlptools.arrays import Ints, Longs
from nlptools.corpora import text_lines, token_file
from nlptools.corpora.columns import Column, ColumnWriter, pieces
from nlptools.corpora.token_file import TextCounts
from nlptools.errors import DataError
from nlptools.files.streams import LineBlock
from nlptools.models.language.ngram import SPECIAL, NGramConfig
from nlptools.text import documents
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.unknown import UnknownTokens
from nlptools.text.vocab import Vocab

_DIGESTED = 1 << 20  # ids at a time


@dataclass(frozen=True, eq=False)
class CountedText:
    """A text to count.

    Attributes:
        tokenizer: its tokenizer, with a vocabulary.
        eos: the id of the token that ends each document.
        counts: its sizes.
    """

    tokenizer: Tokenizer
    eos: int
    counts: TextCounts
    _ids: Ints | Column
    _places: Longs | None = None  # the final id of each id

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self._ids)

    @property
    def digest(self) -> str:
        """SHA-256 of the vocabulary and the ids."""
        assert self.tokenizer.vocab is not None
        found = hashlib.sha256("\n".join(self.tokenizer.vocab.tokens).encode("utf-8", "surrogatepass"))
        for piece in self.pieces(_DIGESTED):
            found.update(piece.tobytes())
        return found.hexdigest()

    def pieces(self, size: int) -> Iterator[Longs]:
        """The ids, `size` at a time."""
        for piece in pieces(self._ids, size):
            yield piece.astype(np.int64) if self._places is None else self._places[piece]

    def config(self, order: int) -> NGramConfig:
        """The sizes of a model; <s> is the vocabulary's token for this role, or an additional word."""
        vocab = self.tokenizer.vocab
        assert vocab is not None
        V = max(len(vocab), self.eos + 1)
        return NGramConfig(V, order, vocab.bos) if vocab.bos not in (None, self.eos) else NGramConfig(V + 1, order, V)


def read(
    inputs: Sequence[str],
    tokenizer: Tokenizer,
    name: str,
    document: str,
    *,
    folder: Path,
    most: int,
    force: bool,
    errors: str,
) -> CountedText:
    """Read and encode a text. A tokenizer without a vocabulary gets one of all tokens of the text.

    Args:
        name: the name of the tokenizer, for messages.
        folder: place for a file, if the text has more than `most` tokens.
        force: accept a text of mostly unknown tokens.

    Raises:
        DataError: the text has no words, or more than half of its tokens are unknown.
        InputError, BundleError, StreamError: see `streams.blocks`, `documents.end_of_text`, `ColumnWriter`.
    """
    grows = tokenizer.vocab is None
    reading = _growing(tokenizer, document) if grows else tokenizer
    assert reading.vocab is not None
    eos = documents.end_of_text(reading, name)
    unknown = UnknownTokens(reading, "the training data")
    collected, counts = _Collected(folder / "ids", most), TextCounts()
    for ids, part in encoded(inputs, reading, eos, document, errors, unknown):
        collected.append(ids)
        counts += part
    if counts.words == 0:
        raise DataError("no training data: the input has no words")
    flat = collected.close()
    if not grows:
        unknown.report(force)
        return CountedText(tokenizer, eos, counts, flat)
    places, vocab = _sorted(list(reading.vocab.ids), flat)
    return CountedText(
        NamedTokenizer(tokenizer.kind, vocab, tokenizer.lowercase), int(places[eos]), counts, flat, places
    )


def encoded(
    inputs: Sequence[str],
    tokenizer: Tokenizer,
    eos: int,
    document: str,
    errors: str,
    unknown: UnknownTokens | None = None,
) -> Iterator[tuple[Longs, TextCounts]]:
    """The ids and the counts of chunks of a text, see `token_file.encode`."""
    blocks: Iterable[LineBlock] = text_lines.blocks(inputs, errors)
    return token_file.encode(blocks, unknown or UnknownTokens(tokenizer, "the text"), eos, document, 1)


class _Collected:
    """Ids in memory, and in the file `path` once there are more than `most`."""

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most = path, most
        self._parts: list[Ints] = []
        self._held = 0
        self._writer: ColumnWriter | None = None

    def append(self, ids: Longs) -> None:
        self._parts.append(ids.astype(np.int32))
        self._held += len(ids)
        if self._held > self._most:
            self._flush()

    def _flush(self) -> None:
        self._writer = self._writer or ColumnWriter(self._path, np.int32)
        for part in self._parts:
            self._writer.append(part)
        self._parts, self._held = [], 0

    def close(self) -> Ints | Column:
        if self._writer is None:
            return np.concatenate([np.zeros(0, np.int32), *self._parts])
        self._flush()
        return self._writer.close()


def _growing(tokenizer: Tokenizer, document: str) -> NamedTokenizer:
    """The tokenizer with a vocabulary to which each new token is added."""
    vocab = Vocab([*SPECIAL, "\n"] if documents.has_line_ends(tokenizer.kind, document) else SPECIAL)
    ids: defaultdict[str, int] = defaultdict(None, vocab.ids)
    ids.default_factory = ids.__len__
    vocab.ids, vocab.unk = ids, None  # no token is unknown
    return NamedTokenizer(tokenizer.kind, vocab, tokenizer.lowercase)


def _sorted(tokens: Sequence[str], ids: Ints | Column) -> tuple[Longs, Vocab]:
    """The new ids of `tokens`, the most frequent first after the special ones, and the vocabulary in this order."""
    counts = np.zeros(len(tokens), np.int64)
    for piece in pieces(ids):
        counts += np.bincount(piece, minlength=len(tokens))
    first = len(SPECIAL)
    order = np.concatenate([np.arange(first), first + np.argsort(-counts[first:], kind="stable")])
    places = np.empty(len(tokens), np.int64)
    places[order] = np.arange(len(tokens))
    return places, Vocab([tokens[i] for i in order.tolist()], counts[order].tolist())
