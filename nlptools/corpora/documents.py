"""Documents of sentences as token ids in memory-mapped files: the data for the pretraining of encoders.

`path`.ids holds the tokens of all sentences, uint16 if the vocabulary allows, else uint32, without special tokens.
`path`.sentences holds the position of the first token of each sentence, `path`.documents the number of the first sentence of
each document; both end with the total (int64). `path`.json holds the counts and the digest. Memory use does not depend on
the length of the text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nlptools.corpora.array_files import ArrayFiles, open_arrays
from nlptools.corpora.counts import Counts
from nlptools.errors import DataError, UsageError
from nlptools.files.json_fields import built, child, text
from nlptools.files.prefetch import one_ahead
from nlptools.files.streams import LineBlock
from nlptools.json_types import JsonObject
from nlptools.text import word_cache
from nlptools.text.flat_ids import id_type
from nlptools.text.sentences import split_sentences
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.unknown import UnknownTokens

SENTENCES = ("lines", "auto")
_PART_BYTES = 1 << 20


@dataclass(frozen=True)
class DocumentCounts(Counts):
    """Counts of a text of documents."""

    tokens: int = 0
    sentences: int = 0  # each piece of a split sentence counts
    documents: int = 0
    bytes: int = 0  # UTF-8, including line ends
    unknown: int = 0  # unknown tokens
    cut: int = 0  # sentences that were too long and were split
    empty: int = 0  # sentences without tokens, which are skipped


class Documents:
    """Sentences in documents.

    Attributes:
        ids: flat tokens, uint16 or uint32, memory-mapped.
        sentences: (sentences + 1,) int64, the beginning of each in `ids`, and the end.
        documents: (documents + 1,) int64, the first sentence of each, and the end. No sentence and no document is empty.
        counts: see `DocumentCounts`.
        digest: SHA-256 of the text.
    """

    def __init__(self, path: Path, record: JsonObject, arrays: dict[str, np.ndarray]) -> None:
        self.path = path
        self.counts = built(DocumentCounts, child(record, "counts", str(path)), str(path))
        self.digest = text(record, "sha256", str(path))
        self.ids, self.sentences, self.documents = arrays["ids"], arrays["sentences"], arrays["documents"]

    def __len__(self) -> int:
        """Number of documents."""
        return len(self.documents) - 1


def open_spooled(path: Path) -> Documents:
    """Open the documents that `spool` wrote to `path`.

    Raises:
        InputError: a file is missing.
        DataError: a file is damaged.
    """
    return Documents(path, *open_arrays(path))


def spool(
    blocks: Iterable[LineBlock],
    path: Path,
    tokenizer: Tokenizer,
    *,
    longest: int,
    sentences: str = "lines",
    threads: int = 1,
    what: str = "training data",
    force: bool | None = None,
) -> Documents:
    """Encode text into files `path`.*; existing files are replaced.

    A document ends at a blank line and at the end of each input.

    Args:
        blocks: lines, as from `nlptools.files.streams.all_blocks`.
        longest: maximum number of tokens of a sentence; a longer one is split into pieces of this length and a rest.
        sentences: "lines": each line is a sentence; "auto": each line is a paragraph, split by `split_sentences`.
        threads: CPU threads of the tokenizer; reading and writing run in parallel to them.
        what: the name of the data in messages.
        force: accept a text of mostly unknown tokens, with a warning; None: accept it without one.

    Raises:
        DataError: no tokens, or more than half of them are unknown; also the errors of `blocks`.
        StreamError: disk full or another write error.
        UsageError: the tokenizer has no vocabulary.
    """
    if tokenizer.vocab is None:
        raise UsageError("the tokenizer has no vocabulary, which is needed for ids", hint="give it a --vocab FILE")
    if sentences not in SENTENCES:
        raise UsageError(f"unknown value of sentences: {sentences!r}, expected one of {', '.join(SENTENCES)}")
    assert longest > 0, longest
    dtype = id_type(len(tokenizer.vocab))

    encode = word_cache.encoder(tokenizer, threads)
    digest = hashlib.sha256()
    unknown = UnknownTokens(tokenizer, f"the {what}")
    with ArrayFiles(path) as files:
        writer = _Writer(files, longest, unknown)
        parts = one_ahead(_parts(blocks, sentences == "auto", digest))
        for part, (ids, lengths) in one_ahead((part, encode(part.texts)) for part in parts):
            writer.write(part, ids.astype(dtype), lengths)
        counts = writer.close()
        if not counts.tokens:
            raise DataError(f"no {what}: the input has no words")
        if force is not None:
            unknown.report(force)
        files.commit({"sha256": digest.hexdigest(), "counts": asdict(counts)})
    return open_spooled(path)


class _Part(NamedTuple):
    """Consecutive sentences."""

    texts: list[str]
    opens: list[bool]  # whether the sentence is the first of a document
    bytes: int


def _parts(blocks: Iterable[LineBlock], split: bool, digest: hashlib._Hash) -> Iterator[_Part]:
    """The sentences of about a megabyte of text at a time, since blocks of compressed files are small."""
    path, new_document = None, True
    texts, opens, size = list[str](), list[bool](), 0
    for block in blocks:
        raw = ("\n".join(block.lines) + "\n").encode("utf-8", "surrogatepass")
        if path not in (None, block.path):
            new_document = True
            digest.update(b"\n")  # as for a blank line
        path = block.path
        digest.update(raw)
        size += len(raw)
        for line in block.lines:
            if not line or line.isspace():
                new_document = True
                continue
            sentences = split_sentences(line) if split else (line,)
            texts += sentences
            opens.append(new_document)
            opens += [False] * (len(sentences) - 1)
            new_document = False
        if size >= _PART_BYTES:
            yield _Part(texts, opens, size)
            texts, opens, size = [], [], 0
    yield _Part(texts, opens, size)


class _Writer:
    """Appends sentences to the files and counts them."""

    def __init__(self, files: ArrayFiles, longest: int, unknown: UnknownTokens) -> None:
        self._files, self._longest, self._unknown = files, longest, unknown
        self._counts = DocumentCounts()
        self._opened = False  # whether the next sentence with tokens begins a document

    def write(self, part: _Part, ids: np.ndarray, lengths: np.ndarray) -> None:
        kept = np.flatnonzero(lengths)
        # number of documents begun up to each sentence; if the first one is empty, the next one begins the document
        begun = np.cumsum(np.array([self._opened, *part.opens], np.int64))
        if len(kept):
            opens = np.flatnonzero(np.diff(begun[kept + 1], prepend=0))
            self._opened = bool(begun[-1] > begun[kept[-1] + 1])
        else:
            opens = np.empty(0, np.int64)
            self._opened = bool(begun[-1])
        pieces = -(-lengths[kept] // self._longest)
        last = np.cumsum(pieces) - 1
        sizes = np.full(int(pieces.sum()), self._longest, np.int64)
        sizes[last] = lengths[kept] - (pieces - 1) * self._longest
        done = self._counts
        self._files.append("ids", ids)
        self._files.append("sentences", done.tokens + np.cumsum(sizes) - sizes)
        self._files.append("documents", done.sentences + (last - pieces + 1)[opens])
        self._counts += DocumentCounts(
            tokens=len(ids),
            sentences=len(sizes),
            documents=len(opens),
            bytes=part.bytes,
            unknown=self._unknown.count(part.texts, ids),
            cut=int(np.count_nonzero(pieces > 1)),
            empty=len(lengths) - len(kept),
        )

    def close(self) -> DocumentCounts:
        """Write the final positions and return the counts."""
        self._files.append("sentences", np.array([self._counts.tokens], np.int64))
        self._files.append("documents", np.array([self._counts.sentences], np.int64))
        return self._counts
