"""The words of a map and their places. Maps show the first words of a table, the words of a file, the words of arrows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from nlptools import messages
from nlptools.arrays import Array
from nlptools.errors import DataError, InputError, UsageError, display, visible
from nlptools.files import line_records, streams
from nlptools.vectors import checks, csls
from nlptools.vectors.files import formats, npy
from nlptools.vectors.rows import blocks_of, unit
from nlptools.vectors.table import Vectors


class Entry(NamedTuple):
    """A word and the group that gives it its color; "" is no group."""

    word: str
    group: str = ""


@dataclass(frozen=True)
class Points:
    """The words of a map, before their coordinates are computed.

    Attributes:
        words: N words, or numbers from 0 for the rows of an array without words.
        rows: their vectors, float32 (N, D), finite.
        groups: the group of each word; empty if there are no groups.
        arrows: pairs of indexes of `words`.
        total: number of words in the table that they come from.
        ends: the vectors of the two words of each own axis, one axis after the other; None: the method has its own axes.
    """

    words: list[str]
    rows: Array
    groups: list[str] = field(default_factory=list)
    arrows: list[tuple[int, int]] = field(default_factory=list)
    total: int = 0
    ends: Array | None = None

    def nearest(self, k: int = 10) -> tuple[Array, Array]:
        """The `k` nearest others of each word by cosine, nearest first: places and cosines, (N, min(k, N - 1)).

        A vector of zeros has the cosine 0 to all others. Equally near words are in their order.
        """
        rows = unit(self.rows)
        k = min(k, len(rows) - 1)
        cosines, places = csls.retrieve(rows, rows, k + 1)
        # the word itself, or, after as many equal vectors, the last one
        itself = places == np.arange(len(rows))[:, None]
        itself[~itself.any(axis=1), -1] = True
        return places[~itself].reshape(-1, k), np.clip(cosines[~itself].reshape(-1, k), -1, 1)


@dataclass(frozen=True)
class MapPoints:
    """Words and their coordinates.

    Attributes:
        points: the words, their vectors, groups and arrows.
        coordinates: float64 (N, 2) or (N, 3).
        method: "pca", "tsne" or "umap".
        variance: the share of the variance along each axis, for PCA only.
        note: how the projection was computed, for captions.
        title: the content, for pictures and pages.
        own_axes: the two words of each axis, if the coordinates are along such axes.
    """

    points: Points
    coordinates: Array
    method: str
    variance: tuple[float, ...] | None = None
    note: str = ""
    title: str = ""
    own_axes: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> list[str]:
        """The words, in the order of the coordinates."""
        return self.points.words

    @property
    def axes(self) -> list[str]:
        """Names of own axes and of PCA's axes. Axes of t-SNE and UMAP have no meaning and no names."""
        if self.own_axes:
            return [f"{start} \u2192 {end}" for start, end in self.own_axes]
        return [f"PC {i} ({share:.1%})" for i, share in enumerate(self.variance or (), 1)]


# -- files ------------------------------------------------------------------------------------------------------------


def read(
    path: str,
    entries: Sequence[Entry] | None = None,
    count: int = 0,
    arrows: Sequence[tuple[str, str]] = (),
    format: str | None = None,
    errors: str = "strict",
    lines: str | None = None,
    axes: Sequence[tuple[str, str]] = (),
) -> Points:
    """The words of a map from a file of vectors, or the rows of a `.npy` matrix without a file of words.

    Args:
        lines: a text with the names of the rows of a matrix, one per line; see `nlptools.vectors.files.formats.load`.

    Raises:
        DataError, BundleError: see `choose` and `choose_rows`.
        InputError, UsageError: see `nlptools.vectors.files.formats.load`.
    """
    loaded: Vectors | Array
    if lines is None:
        loaded = formats.contents(path, format, errors, types="fiu", bare=bare(path, format))
    else:
        loaded = formats.load(path, format, errors, lines)
    if isinstance(loaded, Vectors):
        return choose(loaded, entries, count, arrows, axes)
    return choose_rows(loaded, entries, count, arrows, path, axes)


def bare(path: str, format: str | None = None) -> bool:
    """Whether `path` is an array without a file of words."""
    if formats.is_nameless(path):
        return False
    kind = format or formats.source_format(path)
    return kind == "npy" and not os.path.exists(npy.words_beside(path))


def read_words(path: str, errors: str = "strict") -> list[Entry]:
    """The entries of a file: per line a word, or a word, a tab and a group. Empty lines are skipped.

    Raises:
        DataError: a line has more fields, or there are no words.
        InputError: see `nlptools.files.streams.blocks`.
    """
    entries = []
    for number, line in enumerate(streams.lines(path, errors), 1):
        if line:
            fields = line_records.fields(line)
            if len(fields) > 2 or not fields[0] or "\n" in fields[0]:
                raise DataError("expected a word, or a word, a tab and a group", path=path, line=number)
            entries.append(Entry(*fields))
    if not entries:
        raise DataError("no words in this file", path=path)
    return entries


def read_arrows(text: str, errors: str = "strict") -> list[tuple[str, str]]:
    """Pairs of words: `king:queen,man:woman`, or the name of a file with two words per line, separated by a tab or space.

    Raises:
        UsageError: neither pairs nor a file.
        DataError: a line does not hold two words.
    """
    if not os.path.exists(text):
        pairs = [tuple(part.split(":")) for part in text.split(",")]
        if ":" not in text:
            raise InputError(f"{display(text)}: no such file of arrows, and no pairs such as king:queen,man:woman")
        if not all(len(pair) == 2 and all(pair) for pair in pairs):
            raise UsageError(f"--arrows {text}: expected pairs such as king:queen,man:woman, or a file of pairs")
        return [(pair[0], pair[1]) for pair in pairs]
    arrows = []
    for number, line in enumerate(streams.lines(text, errors), 1):
        if line.strip():
            fields = line_records.fields(line) if "\t" in line else line.split(" ")
            if len(fields) != 2 or not all(fields):
                raise DataError("expected two words, separated by a tab or a space", path=text, line=number)
            arrows.append((fields[0], fields[1]))
    if not arrows:
        raise DataError("no arrows in this file", path=text)
    return arrows


def read_axes(texts: Sequence[str]) -> list[tuple[str, str]]:
    """The pairs of words of texts such as `man,woman`. Raises UsageError."""
    pairs = [tuple(text.split(",")) for text in texts]
    for text, pair in zip(texts, pairs, strict=True):
        if len(pair) != 2 or not all(pair):
            raise UsageError(f"--axes {text}: expected two words, such as man,woman")
    return [(pair[0], pair[1]) for pair in pairs]


# -- choice -----------------------------------------------------------------------------------------------------------


def choose(
    vectors: Vectors,
    entries: Sequence[Entry] | None = None,
    count: int = 0,
    arrows: Sequence[tuple[str, str]] = (),
    axes: Sequence[tuple[str, str]] = (),
) -> Points:
    """The first `count` (0: all) words of `entries`, in their order, or of a table.

    Other words of arrows follow. Words without a vector, their arrows, and repeated words are left out with a warning.

    Raises:
        DataError: fewer than two words have vectors, or a word of `axes` has none.
        BundleError: a vector is not finite.
    """
    if entries is None:
        kept = [Entry(word) for word in vectors.words.list()[: count or None]]
        with np.errstate(over="ignore"):  # float64 beyond float32 becomes infinite and is refused
            rows = vectors.rows.take(slice(0, len(kept)))
        for start, end in blocks_of(rows):
            checks.check_finite(rows[start:end], start, vectors.path)
    else:
        kept, rows = _rows_of(vectors, _once(entries, vectors.path), count)
    places: dict[str, int] = {}
    for place, entry in enumerate(kept):
        places.setdefault(entry.word, place)
    more = [Entry(word) for word in dict.fromkeys(word for pair in arrows for word in pair) if word not in places]
    if more:
        added, added_rows = _rows_of(vectors, more, 0)
        places.update((entry.word, len(kept) + i) for i, entry in enumerate(added))
        kept, rows = kept + added, np.concatenate([rows, added_rows]) if len(rows) else added_rows
    pairs = [(places[a], places[b]) for a, b in arrows if a in places and b in places]
    if len(pairs) < len(arrows):
        messages.warn(f"{len(arrows) - len(pairs):,} of {len(arrows):,} arrows have words without a vector")
    if len(kept) < 2:
        raise DataError(f"{display(vectors.path)}: a map needs at least two words, found {len(kept)}")
    groups = [entry.group for entry in kept] if any(entry.group for entry in kept) else []
    return Points([entry.word for entry in kept], rows, groups, pairs, len(vectors), _ends(vectors, axes))


def choose_rows(
    matrix: Array,
    entries: Sequence[Entry] | None = None,
    count: int = 0,
    arrows: Sequence[tuple[str, str]] = (),
    path: str = "vectors",
    axes: Sequence[tuple[str, str]] = (),
) -> Points:
    """The first `count` rows (0: all) of a matrix (N, D), named by `entries` or numbered from 0.

    Raises:
        DataError: the numbers of names and rows differ, or there are fewer than two rows.
        BundleError: a row is not finite.
    """
    if entries is not None and len(entries) != len(matrix):
        raise DataError(f"{display(path)}: {len(matrix):,} rows, {len(entries):,} words to name them")
    names = entries or [Entry(str(i)) for i in range(len(matrix))]
    points = choose(Vectors([entry.word for entry in names], matrix, path=path), None, count, arrows, axes)
    if not any(entry.group for entry in names):
        return points
    shown = names[: count or None]
    group = {entry.word: entry.group for entry in reversed(names)}
    groups = [entry.group for entry in shown] + [group[word] for word in points.words[len(shown) :]]
    return replace(points, groups=groups)


def _ends(vectors: Vectors, axes: Sequence[tuple[str, str]]) -> Array | None:
    """The vectors of the words of axes (2 A, D). Raises DataError for a word without one, and for words with the same."""
    if not axes:
        return None
    rows = []
    for pair in axes:
        for word in pair:
            row = vectors.vector(word)
            if row is None:
                raise DataError(f"{display(vectors.path)}: {visible(word)}, a word of --axes, has no vector")
            rows.append(row)
        if (rows[-1] == rows[-2]).all():
            raise DataError(f"{display(vectors.path)}: {visible(','.join(pair))}: both words have the same vector")
    return np.stack(rows)


def _once(entries: Sequence[Entry], path: str) -> list[Entry]:
    first: dict[str, Entry] = {}
    for entry in entries:
        first.setdefault(entry.word, entry)
    if len(first) < len(entries):
        messages.warn(f"{len(entries) - len(first):,} repeated words in the list; each is shown once")
    return list(first.values())


def _rows_of(vectors: Vectors, entries: Sequence[Entry], count: int) -> tuple[list[Entry], Array]:
    """The first `count` entries that have vectors, and their vectors."""
    kept, rows, missing = [], [], []
    for entry in entries:
        row = vectors.vector(entry.word)
        if row is None:
            missing.append(entry.word)
        else:
            kept.append(entry)
            rows.append(row)
        if count and len(kept) == count:
            break
    if missing:
        some = ", ".join(visible(word) for word in missing[:3]) + (", ..." if len(missing) > 3 else "")
        messages.warn(f"{len(missing):,} of {len(kept) + len(missing):,} words have no vector: {some}")
    return kept, np.stack(rows) if rows else np.empty((0, vectors.dimensions), np.float32)
