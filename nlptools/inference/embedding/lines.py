"""Vectors of the lines of files, a window of lines at a time; cosines of pairs of texts; a text that can be searched."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np

from nlptools import messages
from nlptools.errors import DataError
from nlptools.files import atomic, streams
from nlptools.files.line_records import fields
from nlptools.files.prefetch import one_ahead
from nlptools.files.streams import LineBlock, windows
from nlptools.inference.uses import Embeds
from nlptools.vectors.files import formats
from nlptools.vectors.files.array_writer import ArrayWriter
from nlptools.vectors.rows import scaled
from nlptools.vectors.table import Vectors, first_words

WINDOW = 8192  # texts that are sorted by length together


def prepared(embedder: Embeds, blocks: Iterable[LineBlock], size: int = WINDOW) -> Iterator[tuple[list[str], Any]]:
    """At most `size` lines at a time, and what `embedder.prepare` makes of them in another thread."""
    return one_ahead((part.lines, embedder.prepare(part.lines)) for part in windows(blocks, size))


def cosines(embedder: Embeds, blocks: Iterable[LineBlock], size: int = WINDOW // 2) -> Iterator[list[float | None]]:
    """The cosine of the two texts of each line, `text TAB text`, at most `size` lines at a time; None for empty lines.

    Raises:
        DataError: a line does not have two texts.
    """
    pairs = (([_pair(part, place) for place in range(len(part.lines))]) for part in windows(blocks, size))
    flat = ((some, list(chain.from_iterable(some))) for some in pairs)
    for some, texts, ready in one_ahead((some, texts, embedder.prepare(texts)) for some, texts in flat):
        rows = scaled(embedder.embed(texts, ready))
        found = iter(np.clip(np.einsum("ij,ij->i", rows[::2], rows[1::2]), -1, 1).tolist())
        yield [next(found) if pair else None for pair in some]


def _pair(part: LineBlock, place: int) -> list[str]:
    """The two texts of a line; none for an empty line."""
    line = part.lines[place]
    pair = fields(line) if line else []
    if len(pair) not in (0, 2):
        message = f"expected two texts, separated by a tab; found {messages.counted(len(pair), 'text')}"
        raise DataError(message, path=part.path, line=part.start + place)
    return pair


@contextlib.contextmanager
def searchable(embedder: Embeds, path: str, errors: str = "strict") -> Iterator[Vectors]:
    """The different lines of a text and their vectors, which are mapped from a temporary file.

    Raises:
        DataError: the text is empty; see also `streams.blocks`.
        StreamError: the disk is full.
    """
    with atomic.scratch_directory("nlptools-search-") as place:
        name = str(place / "lines.npy")
        with ArrayWriter(name, "npy", embedder.dimensions) as writer:
            for texts, ready in prepared(embedder, streams.blocks(path, errors)):
                writer.write(embedder.embed(texts, ready), texts)
        if not writer.rows:
            raise DataError("no lines to search", path=path)
        table = formats.load(name)
        table.path, table.noun = path, "line"
        yield first_words(table)
