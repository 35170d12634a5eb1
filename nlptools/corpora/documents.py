"""Sentences in documents as token ids, in memory-mapped files: what encoders are pretrained on.

`path`.ids holds the tokens of all sentences, uint16 when the vocabulary allows, else uint32, without marks; `path`.sentences
where each sentence begins, `path`.documents with which sentence each document begins, both with the end behind (int64).
`path`.json has the counts and the digest. Memory does not grow with the text, neither while it is read nor afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from nlptools.corpora.array_files import ArrayFiles, open_arrays
from nlptools.errors import DataError, UsageError
from nlptools.files.streams import Block
from nlptools.text import word_cache
from nlptools.text.sentences import split_sentences
from nlptools.text.tokenizer import Tokenizer

SENTENCES = ("lines", "auto")
_PART_BYTES = 1 << 20
_FEW_THREADS = 3  # more of them cut text faster than one looks words up

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Counts:
    """What a text holds."""

    tokens: int = 0
    sentences: int = 0  # pieces of cut ones count each
    documents: int = 0
    bytes: int = 0  # of UTF-8, line ends included
    unknown: int = 0  # tokens that stand for what the vocabulary lacks
    cut: int = 0  # sentences that were too long and became several
    empty: int = 0  # sentences left out because they have no tokens

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))


class Documents:
    """Sentences in documents.

    Attributes:
        ids: flat tokens, uint16 or uint32, memory-mapped.
        sentences: (sentences + 1,) int64, where each begins in `ids`, and the end.
        documents: (documents + 1,) int64, the first sentence of each, and the end. No sentence and no document is empty.
        counts: see `Counts`.
        digest: SHA-256 of the text.
    """

    def __init__(self, path: Path, record: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        self.path = path
        self.counts = Counts(**record["counts"])
        self.digest: str = record["sha256"]
        self.ids, self.sentences, self.documents = arrays["ids"], arrays["sentences"], arrays["documents"]

    def __len__(self) -> int:
        """Documents."""
        return len(self.documents) - 1


def open_spooled(path: Path) -> Documents:
    """The documents that `spool` left at `path`.

    Raises:
        InputError: there are none, or not all of the files.
        DataError: a file is damaged.
    """
    return Documents(path, *open_arrays(path))


def spool(
    blocks: Iterable[Block],
    path: Path,
    tokenizer: Tokenizer,
    *,
    longest: int,
    sentences: str = "lines",
    threads: int = 1,
    what: str = "training data",
) -> Documents:
    """Encode text into files `path`.*, in place of what is there.

    Documents end at blank lines and with each input.

    Args:
        blocks: lines, as `nlptools.files.streams.all_blocks` reads them.
        longest: most tokens of a sentence; a longer one is cut into pieces of this length, and the rest.
        sentences: "lines": each line is a sentence; "auto": each line is a paragraph, split by `split_sentences`.
        threads: how many cut text into tokens; reading and writing go on beside them.
        what: the name of the data where there is none.

    Raises:
        DataError: no tokens, and what `blocks` raises.
        StreamError: disk full or another write error.
        UsageError: the tokenizer has no vocabulary.
    """
    if tokenizer.vocab is None:
        raise UsageError("text becomes ids, and this tokenizer has no vocabulary", hint="give it a --vocab FILE")
    if sentences not in SENTENCES:
        raise UsageError(f"sentences are {sentences!r}, expected one of {', '.join(SENTENCES)}")
    assert longest > 0, longest
    dtype = np.dtype("uint16" if len(tokenizer.vocab) <= 1 << 16 else "uint32")

    encode = _encoder(tokenizer, threads)
    digest = hashlib.sha256()
    with ArrayFiles(path) as files:
        writer = _Writer(files, longest, tokenizer.vocab.unk)
        for part, ids, lengths in _beside(encode, _parts(blocks, sentences == "auto", digest)):
            writer.write(part, ids.astype(dtype), lengths)
        counts = writer.close()
        if not counts.tokens:
            raise DataError(f"no {what}: the input has no words")
        files.commit({"sha256": digest.hexdigest(), "counts": asdict(counts)})
    return open_spooled(path)


class _Part(NamedTuple):
    """Some sentences in a row."""

    texts: list[str]
    opens: list[bool]  # whether a document begins with it
    bytes: int


def _encoder(tokenizer: Tokenizer, threads: int) -> Callable[[_Part], tuple[_Part, np.ndarray, np.ndarray]]:
    """A function from a part to the part, its ids, and how many each sentence has."""
    looks_up = threads <= _FEW_THREADS and word_cache.fits(tokenizer)
    cache = word_cache.WordCache(tokenizer) if looks_up else None

    def encode(part: _Part) -> tuple[_Part, np.ndarray, np.ndarray]:
        if cache is not None:
            return part, *cache.encode_lines(part.texts)
        encoded = tokenizer.encode_lines(part.texts, threads) if part.texts else []
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return part, np.fromiter(chain.from_iterable(encoded), np.int64, int(lengths.sum())), lengths

    return encode


def _parts(blocks: Iterable[Block], split: bool, digest: hashlib._Hash) -> Iterator[_Part]:
    """The sentences of about a megabyte of text at a time: blocks of compressed files are small."""
    path, fresh = None, True
    texts, opens, size = list[str](), list[bool](), 0
    for block in blocks:
        raw = ("\n".join(block.lines) + "\n").encode("utf-8", "surrogatepass")
        if path not in (None, block.path):
            fresh = True
            digest.update(b"\n")  # as a blank line would
        path = block.path
        digest.update(raw)
        size += len(raw)
        for line in block.lines:
            if not line or line.isspace():
                fresh = True
                continue
            found = split_sentences(line) if split else (line,)
            texts += found
            opens.append(fresh)
            opens += [False] * (len(found) - 1)
            fresh = False
        if size >= _PART_BYTES:
            yield _Part(texts, opens, size)
            texts, opens, size = [], [], 0
    yield _Part(texts, opens, size)


class _Writer:
    """Appends sentences to the files, and counts."""

    def __init__(self, files: ArrayFiles, longest: int, unknown: int | None) -> None:
        self._files, self._longest, self._unknown = files, longest, unknown
        self._counts = Counts()
        self._opened = False  # a document begins with the next sentence that has tokens

    def write(self, part: _Part, ids: np.ndarray, lengths: np.ndarray) -> None:
        kept = np.flatnonzero(lengths)
        # how many documents have begun up to each sentence: an empty one hands its beginning on to the next
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
        self._counts += Counts(
            tokens=len(ids),
            sentences=len(sizes),
            documents=len(opens),
            bytes=part.bytes,
            unknown=0 if self._unknown is None else int(np.count_nonzero(ids == self._unknown)),
            cut=int(np.count_nonzero(pieces > 1)),
            empty=len(lengths) - len(kept),
        )

    def close(self) -> Counts:
        """Write the ends."""
        self._files.append("sentences", np.array([self._counts.tokens], np.int64))
        self._files.append("documents", np.array([self._counts.sentences], np.int64))
        return self._counts


def _beside(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """`map(function, items)`, one item ahead in a second thread."""
    with ThreadPoolExecutor(1) as pool:
        ahead = None
        for item in items:
            started = pool.submit(function, item)
            if ahead is not None:
                yield ahead.result()
            ahead = started
        if ahead is not None:
            yield ahead.result()
