"""Token ids of a text in one memory-mapped file, with the counts and the SHA-256 of the text.

`path`.ids holds uint16 if the vocabulary allows, else uint32. It begins with the end-of-text token and has one after each
document, so that a model predicts the first token of a document from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from nlptools.corpora.array_files import ArrayFiles, open_arrays
from nlptools.corpora.counts import Counts
from nlptools.errors import DataError
from nlptools.files.json_fields import built, child, text
from nlptools.files.streams import LineBlock
from nlptools.text import byte_spelling
from nlptools.text.builtin import AT_WHITE_SPACE
from nlptools.text.flat_ids import encode_flat, flat_ids, id_type
from nlptools.text.open_words import OpenWords
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.unknown import UnknownTokens

_CHUNK_CHARACTERS = 1 << 16  # a long document is encoded in chunks of about this length


@dataclass(frozen=True)
class TextCounts(Counts):
    """Counts of a text. Tokens include one end-of-text token per document; words are separated by white space."""

    tokens: int = 0
    documents: int = 0
    lines: int = 0
    words: int = 0
    bytes: int = 0  # UTF-8, including line ends
    unknown: int = 0  # unknown tokens


@dataclass(frozen=True, eq=False)
class Corpus:
    """Token ids of a text.

    Attributes:
        path: common beginning of the file names.
        ids: (counts.tokens + 1,) uint16 or uint32, memory-mapped.
        counts: see `TextCounts`.
        digest: SHA-256 of the text.
        spellings: (F, C) int16, of words outside the vocabulary, if they have ids: those that follow the vocabulary.
    """

    path: Path
    ids: np.ndarray
    counts: TextCounts
    digest: str
    spellings: np.ndarray | None = None

    def __len__(self) -> int:
        """Number of ids, including the first end-of-text token."""
        return len(self.ids)


def open_spooled(path: Path) -> Corpus:
    """Open the corpus that `spool` wrote to `path`.

    Raises:
        InputError: a file is missing.
        DataError: a file is damaged.
    """
    record, arrays = open_arrays(path)
    spellings = arrays["spellings"].reshape(-1, byte_spelling.COLUMNS) if "spellings" in arrays else None
    counts = built(TextCounts, child(record, "counts", str(path)), str(path))
    return Corpus(path, arrays["ids"], counts, text(record, "sha256", str(path)), spellings)


def spool(
    blocks: Iterable[LineBlock],
    path: Path,
    tokenizer: Tokenizer,
    eos: int,
    document: str,
    threads: int,
    force: bool | None = None,
    words: OpenWords | None = None,
) -> Corpus:
    """Encode text into the files `path`.*, with its counts and SHA-256 in `path`.json; existing files are replaced.

    Args:
        eos: id of the end-of-text token.
        document: "line", "paragraph" (paragraphs are separated by blank lines) or "file".
        threads: CPU threads of the tokenizer.
        force: accept a text of mostly unknown tokens, with a warning; None: accept it without one.
        words: also gives ids to words outside the vocabulary, and keeps their spellings.

    Raises:
        DataError: the text has no words, or more than half of its tokens are unknown.
        StreamError: disk full or another write error.
    """
    assert tokenizer.vocab is not None
    dtype = id_type(max(len(tokenizer.vocab), eos + 1)) if words is None else np.dtype("uint32")
    digest, counts = hashlib.sha256(), TextCounts()
    unknown = UnknownTokens(tokenizer, "the training data")
    with ArrayFiles(path) as files:
        files.append("ids", np.array([eos], dtype))
        for ids, part in encode(_hashed(blocks, digest), unknown, eos, document, threads, words):
            files.append("ids", ids.astype(dtype))
            counts += part
        if counts.words == 0:
            raise DataError("no training data: the input has no words")
        if force is not None:
            unknown.report(force)
        if words is not None:
            files.append("spellings", byte_spelling.spell(words.further))
        files.commit({"sha256": digest.hexdigest(), "counts": asdict(counts)})
    return open_spooled(path)


def encode(
    blocks: Iterable[LineBlock],
    unknown: UnknownTokens,
    eos: int,
    document: str,
    threads: int,
    words: OpenWords | None = None,
) -> Iterator[tuple[np.ndarray, TextCounts]]:
    """The ids (int64) and the counts of each chunk of text; an end-of-text token follows each document.

    A document of several lines keeps its line ends, if the tokenizer has a token for them; a long one is encoded in chunks.
    `unknown` has the tokenizer, and counts its unknown tokens. With `words`, words outside the vocabulary have separate ids.
    """
    for chunk in _chunks(blocks, document):
        texts = [text for text, _ in chunk]
        if words is None:
            flat, lengths = encode_flat(unknown.tokenizer, texts, threads)
        else:
            flat, lengths = flat_ids(words.encode_lines(texts, threads))
        ends = np.fromiter((ends for _, ends in chunk), np.bool_, len(chunk))
        ids = np.insert(flat, lengths.cumsum()[ends], eos)
        missed = unknown.count(texts, flat if words is None else words.tokens(flat))
        split = len(flat) if unknown.tokenizer.kind in AT_WHITE_SPACE else None
        yield ids, text_counts(texts, len(flat), int(ends.sum()), missed, split)


def text_counts(
    texts: Sequence[str], tokens: int, documents: int, unknown: int, words: int | None = None
) -> TextCounts:
    """The counts of texts with this number of tokens, to which one end-of-text token for each document is added.

    Without a number of `words`, these are counted.
    """
    whole = "\n".join(texts)
    joins = max(0, len(texts) - 1)
    return TextCounts(
        tokens=tokens + documents,
        documents=documents,
        lines=whole.count("\n") - joins + documents,
        words=len(whole.split()) if words is None else words,
        bytes=len(whole if whole.isascii() else whole.encode("utf-8", "surrogatepass")) - joins + documents,
        unknown=unknown,
    )


def _chunks(blocks: Iterable[LineBlock], document: str) -> Iterator[list[tuple[str, bool]]]:
    """Lists of (text, whether the document ends after it)."""
    if document == "line":
        for block in blocks:
            yield [(line, True) for line in block.lines]
        return
    path, held, size = None, list[str](), 0
    for block in blocks:
        out: list[tuple[str, bool]] = []
        if document == "file" and path not in (None, block.path):
            out.append(("\n".join(held), True))
            held, size = [], 0
        path = block.path
        for line in block.lines:
            if document == "paragraph" and not line.strip():
                if held:
                    out.append(("\n".join(held), True))
                held, size = [], 0
                continue
            held.append(line)
            size += len(line)
            if size >= _CHUNK_CHARACTERS:
                out.append(("\n".join(held) + "\n", False))
                held, size = [], 0
        yield out
    if held:
        yield [("\n".join(held), True)]


def _hashed(blocks: Iterable[LineBlock], digest: hashlib._Hash) -> Iterator[LineBlock]:
    for block in blocks:
        digest.update(("\n".join(block.lines) + "\n").encode("utf-8", "surrogatepass"))
        yield block
