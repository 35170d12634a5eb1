"""Which words of a table an evaluation knows, and their directions.

Evaluations of word vectors know the first N words of a file, which are the most frequent ones in files of the usual
tools, and most take upper and lower case for one: the first of words that then have the same name counts, as in
word2vec's compute-accuracy and in gensim. Case is folded by upper-casing, as both do, here and in gensim by Unicode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nlptools.vectors import checks
from nlptools.vectors.table import Floats, Vectors

Ints = np.ndarray[Any, np.dtype[np.int64]]
Doubles = np.ndarray[Any, np.dtype[np.float64]]


class Vocabulary:
    """The words of a table that count.

    Attributes:
        vectors: the table.
        size: how many of its first words count, V.
        first: int64 (V,), for each row the first one with the same name, most often itself.
    """

    def __init__(self, vectors: Vectors, restrict: int = 0, *, fold: bool = True) -> None:
        """`restrict`: how many words count, 0 for all; `fold`: whether upper and lower case are one."""
        words: list[str] = vectors.words.list()
        self.vectors = vectors
        self.size = min(len(words), restrict) if restrict else len(words)
        self._fold = fold
        names = words[: self.size]
        self._places: dict[str, int] = {}
        place = self._places.setdefault
        found = (place(name, row) for row, name in enumerate(map(str.upper, names) if fold else names))
        self.first: Ints = np.fromiter(found, np.int64, self.size)
        self._variants: dict[int, list[int]] = {}
        for row in np.flatnonzero(self.first != np.arange(self.size)).tolist():
            self._variants.setdefault(int(self.first[row]), []).append(row)

    def place(self, word: str) -> int | None:
        """The row of `word`, the first one of its name; None where it is unknown."""
        return self._places.get(word.upper() if self._fold else word)

    def rows(self, place: int) -> list[int]:
        """All rows that have the name of the one at `place`, which is the first of them."""
        return [place, *self._variants.get(place, ())]


class Directions:
    """Vectors of words, each once: of rows, and with `subwords` of words that the vocabulary does not know."""

    def __init__(self, vocabulary: Vocabulary, *, subwords: bool = False) -> None:
        self.vocabulary = vocabulary
        self._subwords = subwords
        self._numbers: dict[int | str, int | None] = {}
        self._sources: list[int | Floats] = []  # a row, or a vector

    def number(self, word: str) -> int | None:
        """The number of the direction of `word`; None if there is none."""
        place = self.vocabulary.place(word)
        key = word if place is None else place
        if key not in self._numbers:
            source = self._composed(word) if place is None else place
            self._numbers[key] = None if source is None else len(self._sources)
            if source is not None:
                self._sources.append(source)
        return self._numbers[key]

    def _composed(self, word: str) -> Floats | None:
        """A vector from outside the vocabulary: of a word behind the first ones, or of n-grams."""
        return self.vocabulary.vectors.vector(word) if self._subwords else None

    def matrix(self) -> Floats:
        """The vectors by number, not scaled, float32 (W, D). Raises BundleError if one is not finite."""
        vectors = self.vocabulary.vectors
        out = np.empty((len(self._sources), vectors.dimensions), np.float32)
        places = [(number, source) for number, source in enumerate(self._sources) if isinstance(source, int)]
        if places:
            numbers, rows = zip(*places, strict=True)
            out[list(numbers)] = _checked(vectors, rows)
        for number, source in enumerate(self._sources):
            if not isinstance(source, int):
                out[number] = source
        return out


def _checked(vectors: Vectors, places: Sequence[int]) -> Floats:
    """The rows at `places`, all of them finite."""
    rows = vectors.rows.take(places)
    for place, row in zip(places, rows, strict=True) if not np.isfinite(rows).all() else ():
        checks.check_finite(row[None], place, vectors.path)
    return rows


def unit(rows: Floats) -> Floats:
    """`rows` (N, D) scaled to length 1, float32; rows of zeros stay."""
    return np.asarray(scaled(rows), np.float32)


def scaled(rows: Floats) -> Doubles:
    """As `unit`, float64: what float32 holds has a length that overflows nowhere."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    lengths[lengths == 0] = 1
    return np.asarray(rows / lengths[:, None])
