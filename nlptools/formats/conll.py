"""Columns of the CoNLL shared tasks: one token per line, sentences between blank lines, tags in the last columns.

Tjong Kim Sang & Buchholz 2000 (W00-0726) for the format; a line whose first column is `-X-` also ends a sentence, as
conlleval has it. A `-DOCSTART-` line is a token like any other, for conlleval counts it, unless asked otherwise.
Departure: columns are separated by any number of spaces and tabs (conlleval: one space, or what -d says). Other white
space, U+00A0 for instance, is part of a word.
Shapes: N sentences, T tokens, K different tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools.errors import DataError, UsageError, display
from nlptools.files import streams
from nlptools.metrics.ngrams import END, Ids

Ints = NDArray[np.int64]

BOUNDARY = "-X-"
DOCSTART = "-DOCSTART-"
_CHUNK = 64  # sentences numbered at once: few enough for the cache
_STOP = object()  # stands after each sentence: no tag is equal to it


class Sentence(NamedTuple):
    """The rows of columns of one sentence, and the line of the first."""

    line: int
    rows: list[list[str]]


@dataclass(frozen=True)
class Tags:
    """The tags of N sentences as numbers.

    Attributes:
        codes: the number of the tag of each token, with `END` after each sentence: (T + N,), int32.
        names: tag by number; the first belongs to `END` and is no tag.
        lengths: tokens of each sentence: (N,).
        path: the file they come from.
        lines: the line of the first token of each sentence: (N,).
        words: a hash of the words (the first column) of each sentence, the same only within one process: (N,).
    """

    codes: NDArray[np.int32]
    names: tuple[str, ...]
    lengths: Ints
    path: str | None = None
    lines: Ints | None = None
    words: Ints | None = None

    def place(self, position: int) -> tuple[int, int]:
        """Sentence and token, both from 0, of a position in `codes`."""
        ends = np.cumsum(self.lengths + 1)
        sentence = int(np.searchsorted(ends, position, side="right"))
        return sentence, position - int(ends[sentence] - self.lengths[sentence] - 1)

    def line(self, sentence: int, token: int = 0) -> int | None:
        """The line of a token, if the tags come from a file."""
        return None if self.lines is None else int(self.lines[sentence]) + token


def read_columns(path: str | Path, *, skip_docstart: bool = False, errors: str = "strict") -> Iterator[Sentence]:
    """The sentences of a file (`-`: standard input).

    Args:
        skip_docstart: `-DOCSTART-` lines end a sentence and are no tokens.

    Raises:
        DataError: a line has more or fewer columns than the first. And what `streams.blocks` raises.
    """
    ends = {BOUNDARY, DOCSTART} if skip_docstart else {BOUNDARY}
    rows: list[list[str]] = []
    start, width, number = 1, 0, 0
    for block in streams.blocks(path, errors):
        for number, line in enumerate(block.lines, block.start):
            columns = line.replace("\t", " ").split(" ")
            if "" in columns:
                columns = [column for column in columns if column]
            if not columns or columns[0] in ends:
                if rows:
                    yield Sentence(start, rows)
                rows = []
                continue
            if len(columns) != width:
                if width:
                    raise DataError(f"{_columns(len(columns))}, expected {width}", path=str(path), line=number)
                width = len(columns)
            if not rows:
                start = number
            rows.append(columns)
    if rows:
        yield Sentence(start, rows)


def read_tags(
    paths: Sequence[str | Path], *, compare_words: bool = True, skip_docstart: bool = False, errors: str = "strict"
) -> tuple[Tags, Tags]:
    """The gold and the predicted tags of one file (its last two columns), or of two files (the last column of each).

    Args:
        compare_words: two files that both have several columns must have the same words in the first.

    Raises:
        DataError: see `read_columns`; there is only one column where two are needed; the files differ in their
            sentences or words.
        UsageError: neither one path nor two.
    """
    if isinstance(paths, str) or len(paths) not in (1, 2):
        raise UsageError("expected one file with gold and predicted tags, or two files, gold tags first")
    paths = streams.check_inputs([str(path) for path in paths])
    if len(paths) == 1:
        gold, predicted = _read(paths[0], 2, skip_docstart, errors)
        return gold, predicted
    (gold,), (predicted,) = (_read(path, 1, skip_docstart, errors) for path in paths)
    check_aligned(gold, predicted)
    if compare_words and gold.words is not None and predicted.words is not None:
        differ = np.flatnonzero(gold.words != predicted.words)
        if len(differ):
            where = int(differ[0])
            raise DataError(
                f"the words of sentence {where + 1} are not those of {_of(gold, where, 'the gold tags')}",
                path=predicted.path,
                line=predicted.line(where),
            )
    return gold, predicted


def encode(sentences: Iterable[Sequence[str]]) -> Tags:
    """Number the tags of `sentences`, each a sequence of strings.

    Raises:
        UsageError: a sentence is a string, or a tag is not.
    """
    encoder, source = _Encoder(), iter(sentences)
    while chunk := list(islice(source, _CHUNK)):
        if any(isinstance(sentence, str) for sentence in chunk):
            raise UsageError("expected each sentence as a list of tags, found a string")
        encoder.add(chunk)
    return encoder.tags()


def check_aligned(gold: Tags, predicted: Tags) -> None:
    """Raises DataError unless both have the same number of sentences, and of tokens in each."""
    counts = len(gold.lengths), len(predicted.lengths)
    differ = np.flatnonzero(gold.lengths[: min(counts)] != predicted.lengths[: min(counts)])
    first = ""
    if len(differ):
        i = int(differ[0])
        first = (
            f"sentence {i + 1} has {gold.lengths[i]} tokens in {_of(gold, i, 'the gold tags')}"
            f" and {predicted.lengths[i]} in {_of(predicted, i, 'the predictions')}"
        )
    if counts[0] != counts[1]:
        told = f"unequal numbers of sentences: {counts[0]} of gold tags, {counts[1]} of predictions"
        raise DataError(told + (f"; {first}" if first else ""), path=predicted.path)
    if first:
        raise DataError(first)


# -- inside -----------------------------------------------------------------------------------------------------------


class _Encoder:
    """Sentences of tags, some at a time, into `Tags`."""

    def __init__(self) -> None:
        self.numbers = Ids({_STOP: END})  # tag -> number
        self.codes: list[NDArray[np.int32]] = []
        self.lengths: list[Ints] = []

    def add(self, sentences: Sequence[Sequence[str]]) -> None:
        """Number the tags of some more sentences."""
        flat: list[object] = []
        for sentence in sentences:
            flat.extend(sentence)
            flat.append(_STOP)
        self.codes.append(np.fromiter(map(self.numbers.__getitem__, flat), np.int32, len(flat)))
        self.lengths.append(np.fromiter(map(len, sentences), np.int64, len(sentences)))

    def tags(self, path: str | None = None, lines: Ints | None = None, words: Ints | None = None) -> Tags:
        """All that has been added."""
        tags = list(self.numbers)[1:]
        for tag in tags:
            if not isinstance(tag, str):
                raise UsageError(f"expected tags as strings, found {tag!r}")
        codes = np.concatenate([np.zeros(0, np.int32), *self.codes])
        lengths = np.concatenate([np.zeros(0, np.int64), *self.lengths])
        return Tags(codes, ("", *map(str, tags)), lengths, path, lines, words)


def _read(path: str | Path, columns: int, skip_docstart: bool, errors: str) -> list[Tags]:
    """The last `columns` columns of a file, the leftmost first."""
    encoders = [_Encoder() for _ in range(columns)]
    lines: list[int] = []
    words: list[int] = []
    width = 0
    source = read_columns(path, skip_docstart=skip_docstart, errors=errors)
    while chunk := list(islice(source, _CHUNK)):
        width = len(chunk[0].rows[0])
        if width < columns:
            told = f"{_columns(width)}, expected the gold and the predicted tag in the last two"
            raise DataError(told, path=str(path), line=chunk[0].line)
        for place, encoder in enumerate(encoders, -columns):
            encoder.add([[row[place] for row in sentence.rows] for sentence in chunk])
        lines += [sentence.line for sentence in chunk]
        words += [hash(tuple([row[0] for row in sentence.rows])) for sentence in chunk]
    hashes = np.array(words, np.int64) if width > columns else None
    return [encoder.tags(str(path), np.array(lines, np.int64), hashes) for encoder in encoders]


def _of(tags: Tags, sentence: int, otherwise: str) -> str:
    """Where a sentence stands, for a message."""
    if tags.path is None or tags.lines is None:
        return otherwise
    return f"{display(tags.path)} line {tags.lines[sentence]}"


def _columns(count: int) -> str:
    return f"{count} column{'s' if count != 1 else ''}"
