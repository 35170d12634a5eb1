"""Token ids of a text in one memory-mapped file, with what is needed to say whose ids they are.

The file holds uint16 when the vocabulary allows, else uint32. It begins with the end-of-text token and has one after each
document, so that the first token of a document is predicted from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from nlptools.errors import DataError, StreamError, reason
from nlptools.files import atomic
from nlptools.files.streams import Block
from nlptools.text.tokenizer import Tokenizer

_CHUNK_CHARACTERS = 1 << 16  # of a long document that are encoded at a time


@dataclass(frozen=True)
class Counts:
    """What a text holds. Tokens include one end-of-text token per document; words are what white space separates."""

    tokens: int = 0
    documents: int = 0
    lines: int = 0
    words: int = 0
    bytes: int = 0  # of UTF-8, line ends included
    unknown: int = 0  # tokens that stand for what the vocabulary lacks

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(asdict(self).values(), asdict(other).values(), strict=True)))


class Corpus:
    """Token ids, memory-mapped."""

    def __init__(self, path: Path, counts: Counts, digest: str, dtype: str) -> None:
        self.path = path
        self.counts = counts
        self.digest = digest  # SHA-256 of the text
        self.ids = np.memmap(path, dtype=dtype, mode="r")

    def __len__(self) -> int:
        return len(self.ids)


def spool(blocks: Iterable[Block], path: Path, tokenizer: Tokenizer, eos: int, document: str, threads: int) -> Corpus:
    """Encode text into `path`, with its counts and SHA-256 in `path`.json, in place of what is there.

    Raises:
        DataError: the text is empty.
        StreamError: disk full or another write error.
    """
    assert tokenizer.vocab is not None
    dtype = "uint16" if max(len(tokenizer.vocab), eos + 1) <= 1 << 16 else "uint32"
    handle, temporary = atomic.temporary_file(path)
    digest = hashlib.sha256()
    try:
        with open(handle, "wb") as out:
            out.write(np.array([eos], dtype).tobytes())
            counts = Counts()
            for ids, part in encode(_hashed(blocks, digest), tokenizer, eos, document, threads):
                out.write(ids.astype(dtype).tobytes())
                counts += part
        if counts.words == 0:
            raise DataError("no training data: the input has no words")
        atomic.publish(temporary, path)
    except OSError as error:
        raise StreamError(f"{path}: write failed: {reason(error)}") from None
    finally:
        atomic.discard(temporary)
    record = {"dtype": dtype, "sha256": digest.hexdigest(), "counts": asdict(counts)}
    atomic.write_whole(Path(f"{path}.json"), json.dumps(record, indent=2) + "\n")
    return Corpus(path, counts, digest.hexdigest(), dtype)


def encode(
    blocks: Iterable[Block], tokenizer: Tokenizer, eos: int, document: str, threads: int
) -> Iterator[tuple[np.ndarray, Counts]]:
    """(ids, counts) of block after block; an end-of-text token closes each document.

    A document of several lines keeps its line ends, as far as the tokenizer knows them, and is encoded in pieces.
    """
    for chunk in _chunks(blocks, document):
        encoded = tokenizer.encode_lines([text for text, _ in chunk], threads)
        lengths = np.fromiter((len(ids) for ids in encoded), np.int64, len(encoded))
        closes = np.fromiter((closed for _, closed in chunk), np.bool_, len(chunk))
        flat = np.fromiter((id for ids in encoded for id in ids), np.int64, int(lengths.sum()))
        ids = np.insert(flat, lengths.cumsum()[closes], eos)
        yield ids, _counts(chunk, flat, int(closes.sum()), tokenizer)


def _counts(chunk: Sequence[tuple[str, bool]], flat: np.ndarray, documents: int, tokenizer: Tokenizer) -> Counts:
    texts = [text for text, _ in chunk]
    unk = tokenizer.vocab.unk if tokenizer.vocab is not None else None
    return Counts(
        tokens=len(flat) + documents,
        documents=documents,
        lines=sum(text.count("\n") for text in texts) + documents,
        words=sum(len(text.split()) for text in texts),
        bytes=sum(len(text.encode("utf-8", "surrogatepass")) for text in texts) + documents,
        unknown=0 if unk is None else int((flat == unk).sum()),
    )


def _chunks(blocks: Iterable[Block], document: str) -> Iterator[list[tuple[str, bool]]]:
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


def _hashed(blocks: Iterable[Block], digest: hashlib._Hash) -> Iterator[Block]:
    for block in blocks:
        digest.update(("\n".join(block.lines) + "\n").encode("utf-8", "surrogatepass"))
        yield block


def open_spooled(path: Path) -> Corpus:
    """The corpus that `spool` left at `path`."""
    record = json.loads(Path(f"{path}.json").read_text(encoding="utf-8"))
    return Corpus(path, Counts(**record["counts"]), record["sha256"], record["dtype"])
