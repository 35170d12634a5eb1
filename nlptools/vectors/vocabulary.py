"""The words of a table that an evaluation uses, and their vectors.

Evaluations of word vectors use the first N words of a file, the most frequent ones in most files, and usually ignore case:
of words with the same upper-case form, the first counts, as in word2vec's compute-accuracy and in gensim (by Unicode, here
and in gensim).
"""

from __future__ import annotations

import numpy as np

from nlptools.arrays import Floats, Longs
from nlptools.vectors.table import Vectors


class EvaluationVocabulary:
    """The words of a table that an evaluation uses.

    Attributes:
        vectors: the table.
        size: the number of words used, the first V.
        first: int64 (V,), for each row the first row with the same word, usually itself.
    """

    def __init__(self, vectors: Vectors, restrict: int = 0, *, fold: bool = True) -> None:
        """`restrict`: number of words, 0 for all; `fold`: whether case is ignored."""
        words: list[str] = vectors.words.list()
        self.vectors = vectors
        self.size = min(len(words), restrict) if restrict else len(words)
        self._fold = fold
        names = words[: self.size]
        self._places: dict[str, int] = {}
        place = self._places.setdefault
        rows = (place(name, row) for row, name in enumerate(map(str.upper, names) if fold else names))
        self.first: Longs = np.fromiter(rows, np.int64, self.size)
        self._variants: dict[int, list[int]] = {}
        for row in np.flatnonzero(self.first != np.arange(self.size)).tolist():
            self._variants.setdefault(int(self.first[row]), []).append(row)

    def place(self, word: str) -> int | None:
        """The first row of `word`; None if it is unknown."""
        return self._places.get(word.upper() if self._fold else word)

    def rows(self, place: int) -> list[int]:
        """All rows with the same word as row `place`, which is the first of them."""
        return [place, *self._variants.get(place, ())]


class UnitVectors:
    """Numbered vectors of words, each word once. With `subwords`, words outside the vocabulary may also have one."""

    def __init__(self, vocabulary: EvaluationVocabulary, *, subwords: bool = False) -> None:
        self.vocabulary = vocabulary
        self._subwords = subwords
        self._numbers: dict[int | str, int | None] = {}
        self._sources: list[int | Floats] = []  # a row, or a vector

    def number(self, word: str) -> int | None:
        """The number of the vector of `word`; None if it has none."""
        place = self.vocabulary.place(word)
        key = word if place is None else place
        if key not in self._numbers:
            source = self._composed(word) if place is None else place
            self._numbers[key] = None if source is None else len(self._sources)
            if source is not None:
                self._sources.append(source)
        return self._numbers[key]

    def _composed(self, word: str) -> Floats | None:
        """The vector of a word outside the vocabulary: one after the first V, or one composed of n-grams."""
        return self.vocabulary.vectors.vector(word) if self._subwords else None

    def matrix(self) -> Floats:
        """The vectors by number, not normalized, float32 (W, D). Raises BundleError if one is not finite."""
        vectors = self.vocabulary.vectors
        out = np.empty((len(self._sources), vectors.dimensions), np.float32)
        places = [(number, source) for number, source in enumerate(self._sources) if isinstance(source, int)]
        if places:
            numbers, rows = zip(*places, strict=True)
            out[list(numbers)] = vectors.take(rows)
        for number, source in enumerate(self._sources):
            if not isinstance(source, int):
                out[number] = source
        return out
