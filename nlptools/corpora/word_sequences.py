"""Sequences of tokens, one per line, as ids in one memory-mapped file: the training data of word vectors.

The text is read once. Several processes give each word a provisional id at its first occurrence; final ids, by descending
count, follow at the end. Spaces and tabs separate tokens. A line is a sequence; as in word2vec, one of more than 1,000 words
is cut into several, so that the text may be one long line. Memory grows with the vocabulary only.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nlptools.arrays import Array, Ints, Longs
from nlptools.errors import DataError, StreamError, UsageError, display, reason
from nlptools.files import streams
from nlptools.files.input_parts import BOM
from nlptools.files.json_fields import texts, whole, wholes
from nlptools.files.layout_names import named_layout
from nlptools.json_types import JsonObject
from nlptools.text.vocab import Vocab

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

LONGEST = 1000  # words of a sequence
CHUNK = 1 << 17  # bytes; their words fit the cache
_WORDS = 1 << 20  # ids handled at a time
_END = 0  # provisional id of the end of a line


@dataclass(frozen=True)
class Sequences:
    """Token ids of a text.

    Attributes:
        ids: int32, memory-mapped; the id V (`len(words)`) ends a sequence. Words outside the vocabulary are omitted.
        words: the vocabulary, most frequent first.
        counts: int64 (V,), the occurrences of each word in the text, or its count in the vocabulary file.
        tokens: number of tokens in the vocabulary.
        left_out: number of tokens outside the vocabulary.
        digest: SHA-256 of the text.
        sample: the first lines of the text.
    """

    ids: Ints
    words: list[str]
    counts: Longs
    tokens: int
    left_out: int
    digest: str
    sample: list[str]

    def facts(self) -> JsonObject:
        """All but the ids, for `opened` in another process."""
        return {
            "words": [*self.words],
            "counts": self.counts.tolist(),
            "tokens": self.tokens,
            "left_out": self.left_out,
            "digest": self.digest,
        }


def opened(path: Path, facts: JsonObject) -> Sequences:
    """The sequences that another process has spooled to `path`."""
    where = str(path)
    words, counts = texts(facts, "words", where), np.array(wholes(facts, "counts", where), np.int64)
    tokens, left_out = whole(facts, "tokens", where), whole(facts, "left_out", where)
    return Sequences(_mapped(path), words, counts, tokens, left_out, str(facts["digest"]), sample=[])


def occurrences(ids: Ints, size: int) -> Longs:
    """(size,) how often each id occurs, counted part by part: NumPy counts a copy of 8 bytes for each id."""
    parts = (ids[start : start + _WORDS] for start in range(0, len(ids), _WORDS))
    counts: Longs = sum((np.bincount(part, minlength=size) for part in parts), np.zeros(size, np.int64))
    return counts


def _mapped(path: Path) -> Ints:
    return np.memmap(path, np.int32, "r") if os.path.getsize(path) else np.empty(0, np.int32)


class _Part(NamedTuple):
    """The result of one process: provisional ids in a file, and their words and counts."""

    path: str
    lengths: list[int]  # ids of each chunk
    words: list[bytes]  # by provisional id; the first is the end of a line
    counts: Longs


def spool(
    inputs: Sequence[str],
    path: Path,
    *,
    min_count: int = 5,
    vocab: Vocab | None = None,
    more_words: Iterable[str] = (),
    workers: int = 1,
    errors: str = "strict",
) -> Sequences:
    """Read text into the ids at `path`.

    Args:
        inputs: files; none or `-`: standard input.
        min_count: words with fewer occurrences are omitted.
        vocab: the vocabulary, in its order, and with its counts if it has any.
        more_words: words that are kept whatever their count, such as the words of initial vectors.
        workers: number of processes.

    Raises:
        DataError: no word is frequent enough, or invalid UTF-8 while `errors` is "strict".
        InputError, StreamError: see `streams.blocks`; disk full.
    """
    digest = hashlib.sha256()
    counters = [_Counter(f"{path}.{i}") for i in range(workers)]
    try:
        chunks = _chunks(inputs, errors, digest.update)
        first = next(chunks, b"")
        _count(chain([first], chunks), counters)
        parts = [counter.finish() for counter in counters]
        words, counts, total = _vocabulary(parts, min_count, vocab, more_words)
        tokens = _write(parts, words, path)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise StreamError("a process that counts words has ended") from None
        raise StreamError(f"{path}: write failed: {reason(error)}") from None
    finally:
        for counter in counters:
            counter.close()
    names = [word.decode("utf-8", "surrogatepass") for word in words]
    if vocab is not None and any(vocab.counts):
        counts = np.array(vocab.counts, np.int64)
    sample = first.decode().split("\n")
    return Sequences(_mapped(path), names, counts, tokens, total - tokens, digest.hexdigest(), sample)


def _chunks(inputs: Sequence[str], errors: str, read: Callable[[bytes], None]) -> Iterator[bytes]:
    """The text as valid UTF-8, in chunks that end with a line end or a space; each input ends with a line end.

    `read` is called with the text, for its digest.
    """
    for name in streams.check_inputs(inputs):
        if layout := named_layout(name):
            raise UsageError(
                f"{display(name)}: expected lines of tokens, the name says {layout}", hint=f"nlptools tokenize {name} |"
            )
        number, held = 1, b""
        for chunk in streams.line_chunks(name, CHUNK, (b"\n", b" ")):
            if number == 1:
                chunk = chunk.removeprefix(BOM)
            try:
                chunk.decode("utf-8")
            except UnicodeDecodeError:
                if errors == "strict":
                    streams.refuse_invalid(name, number, chunk.split(b"\n"))
                chunk = chunk.decode("utf-8", errors).encode()
            number += chunk.count(b"\n")
            read(chunk)
            if held:
                yield held
            held = chunk.replace(b"\r\n", b"\n") if b"\r" in chunk else chunk
        if held:  # the last line may lack its end
            yield held if held.endswith(b"\n") else held.removesuffix(b"\r") + b"\n"


# -- counting -----------------------------------------------------------------------------------------------------------


class _Places:
    """Provisional ids of words.

    Short words, their bytes taken as two numbers, are looked up with array operations in a hash table with one word per
    slot, in a fifth of the time of a dictionary. All other words are looked up in a dictionary.
    """

    _SHORT = 16  # short words have fewer bytes
    _FIRST = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(_SHORT)], np.uint64)  # masks for words of n bytes
    _SECOND = np.array([(1 << 8 * max(0, n - 8)) - 1 for n in range(_SHORT)], np.uint64)
    _LENGTH = np.arange(_SHORT, dtype=np.uint64) << np.uint64(56)
    _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)  # odd multipliers of the hash

    def __init__(self, bits: int = 17) -> None:
        """A hash table with 2^`bits` slots."""
        self._bits = bits
        self._dictionary: defaultdict[bytes, int] = defaultdict(count().__next__)
        self._dictionary[b"\n"]  # _END
        self._keys = np.zeros((2, 1 << bits), np.uint64)
        self._ids = np.zeros(1 << bits, np.int32)

    def words(self) -> list[bytes]:
        """All words, by id."""
        return list(self._dictionary)

    def ids(self, chunk: bytes) -> Ints:
        """The ids of the words in a chunk, which ends with a space or a line end, and of its line ends."""
        padded = chunk + bytes(self._SHORT)
        text = np.frombuffer(padded, np.uint8)
        breaks = np.flatnonzero((text == 32) | (text == 10))
        lines = text[breaks] == 10
        lengths = np.diff(breaks, prepend=-1) - 1
        real = lengths > 0
        places = np.cumsum(real.astype(np.int64) + lines)  # the end of the ids up to each break
        out = np.empty(int(places[-1]) if len(places) else 0, np.int32)
        out[places[lines] - 1] = _END
        sizes = lengths[real]
        out[(places - lines)[real] - 1] = self._look_up(chunk, padded, breaks[real] - sizes, sizes)
        return out

    def _look_up(self, chunk: bytes, padded: bytes, starts: Array, sizes: Array) -> Ints:
        """The ids of words that begin at `starts` and have `sizes` bytes."""
        windows = np.ndarray(len(padded) - 7, "<u8", padded, strides=(1,))  # the eight bytes from each position
        short = np.minimum(sizes, self._SHORT - 1)
        first = windows[starts] & self._FIRST[short]
        second = (windows[starts + 8] & self._SECOND[short]) | self._LENGTH[short]
        slots = (((first * self._MIX[0]) ^ (second * self._MIX[1])) >> np.uint64(64 - self._bits)).astype(np.int64)
        out: Ints = self._ids[slots]
        other = (self._keys[0][slots] != first) | (self._keys[1][slots] != second) | (sizes >= self._SHORT)
        missed = np.flatnonzero(other)
        spans = zip(starts[missed].tolist(), (starts + sizes)[missed].tolist(), strict=True)
        out[missed] = [self._dictionary[chunk[start:end]] for start, end in spans]
        kept = missed[sizes[missed] < self._SHORT]
        self._keys[0][slots[kept]], self._keys[1][slots[kept]] = first[kept], second[kept]
        self._ids[slots[kept]] = out[kept]
        return out


class _Counter:
    """Assigns provisional ids, in another process after `start`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lengths: list[int] = []
        self._places = _Places()
        self._file = open(path, "wb")  # noqa: SIM115  closed in `close`
        self._pipe: Connection | None = None
        self._process: ForkProcess | None = None

    def start(self) -> None:
        """Count in another process from now on, if the system allows one more."""
        self._file.flush()  # otherwise both processes would write the buffer
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()  # `_serve` closes its copy, to notice the end of this process
        process = context.Process(target=self._serve, args=(theirs,), daemon=True)
        with theirs:
            try:
                process.start()
                self._process = process
            except OSError:
                self._pipe = None

    def add(self, chunk: bytes) -> None:
        """Count the words of a chunk."""
        if self._pipe is not None:
            self._pipe.send_bytes(chunk)
            return
        if b"\t" in chunk:
            chunk = chunk.replace(b"\t", b" ")
        ids = self._places.ids(chunk)
        self._file.write(ids.tobytes())
        self._lengths.append(len(ids))

    def finish(self) -> _Part:
        """The result. Raises OSError."""
        if self._pipe is None:
            self._file.close()
            words = self._places.words()
            return _Part(self.path, self._lengths, words, occurrences(_mapped(Path(self.path)), len(words)))
        self._pipe.send_bytes(b"")
        try:
            result = self._pipe.recv()
        except EOFError:
            raise BrokenPipeError from None
        if isinstance(result, OSError):
            raise result
        part: _Part = result
        return part

    def close(self) -> None:
        """Remove the file."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        with contextlib.suppress(OSError):  # reported before
            self._file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def _serve(self, pipe: Connection) -> None:
        self._pipe = None
        try:
            while chunk := pipe.recv_bytes():
                self.add(chunk)
            pipe.send(self.finish())
        except EOFError:  # the main process has ended
            pass
        except OSError as error:
            pipe.send(error)
            while pipe.recv_bytes():  # chunks that are already sent
                pass


def _count(chunks: Iterator[bytes], counters: Sequence[_Counter]) -> None:
    """Pass the chunks to the counters in turn; processes start only if there are more chunks than counters."""
    for place, chunk in enumerate(chunks):
        if place == len(counters) > 1:
            for counter in counters:
                counter.start()
        counters[place % len(counters)].add(chunk)


# -- the vocabulary and the final ids -----------------------------------------------------------------------------------


def _vocabulary(
    parts: Sequence[_Part], min_count: int, vocab: Vocab | None, more_words: Iterable[str]
) -> tuple[list[bytes], Longs, int]:
    """(words, most frequent first; their counts; number of all tokens). Raises DataError if there are no words."""
    totals: dict[bytes, int] = {}
    for part in parts:
        for word, number in zip(part.words[1:], part.counts[1:].tolist(), strict=True):
            totals[word] = totals.get(word, 0) + number
    total = sum(totals.values())
    if not total:
        raise DataError("no training data: the input has no words")
    if vocab is not None:
        words = [token.encode("utf-8", "surrogatepass") for token in vocab.tokens]
    else:
        words = [word for word, number in totals.items() if number >= min_count]
        extra = [word.encode("utf-8", "surrogatepass") for word in more_words]
        words += [word for word in extra if totals.get(word, 0) < min_count]
        words.sort(key=lambda word: (-totals.get(word, 0), word))
    if not any(word in totals for word in words):
        most = max(totals.values())
        raise DataError(
            f"the vocabulary is empty: no word of the text is in {'it' if vocab is not None else 'the text often enough'}"
            f" (the most frequent occurs {most:,} times)",
            hint="another --vocab?" if vocab is not None else f"--min-count {most} or lower; it is {min_count}",
        )
    counts = np.array([totals.get(word, 0) for word in words], np.int64)
    return words, counts, total


def _write(parts: Sequence[_Part], words: Sequence[bytes], path: Path) -> int:
    """Write the final ids, in the order of the text; returns the number of words among them."""
    places = {word: place for place, word in enumerate(words)}
    V, tokens, run = len(words), 0, 0
    finals, sources = [], []
    for part in parts:
        final = np.fromiter((places.get(word, -1) for word in part.words), np.int32, len(part.words))
        final[_END] = V
        finals.append(final)
        sources.append(open(part.path, "rb"))  # noqa: SIM115  closed below
    try:
        with open(path, "wb") as out:
            for i in range(sum(len(part.lengths) for part in parts)):
                which, chunk = i % len(parts), i // len(parts)
                ids = np.fromfile(sources[which], np.int32, parts[which].lengths[chunk])
                ids = finals[which][ids]
                ids, run = _cut(ids[ids >= 0], V, run)
                tokens += int((ids != V).sum())
                out.write(ids.tobytes())
    finally:
        for source in sources:
            source.close()
    return tokens


def _cut(ids: Ints, end: int, run: int) -> tuple[Ints, int]:
    """`ids` with an `end` after every 1,000 words of a sequence, and the number of words of the last sequence.

    The first sequence has `run` words before `ids`.
    """
    ends = np.flatnonzero(ids == end)
    starts = np.concatenate([[-run], ends + 1])  # of the sequences
    lengths = np.concatenate([ends, [len(ids)]]) - starts
    last = int(lengths[-1])
    cuts = [
        np.arange(start + LONGEST, start + length, LONGEST)
        for start, length in zip(starts[lengths > LONGEST], lengths[lengths > LONGEST], strict=True)
    ]
    if cuts:
        places = np.concatenate(cuts)
        places = places[places >= 0]
        return np.insert(ids, places, end), (last - 1) % LONGEST + 1 if last else 0
    return ids, last
