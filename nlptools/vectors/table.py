"""A table of words and their vectors, in memory or mapped from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from nlptools.arrays import Array, Floats
from nlptools.errors import DataError, display
from nlptools.files import streams
from nlptools.vectors import checks
from nlptools.vectors.nearest import Neighbor, neighbors
from nlptools.vectors.rows import BLOCK_NUMBERS, ArrayRows, ChangedRows, ChosenRows, VectorRows, unit
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.words import WordList


class Vectors:
    """Words and their vectors.

    Attributes:
        words: the words; most tools write the most frequent first.
        rows: the vectors; `matrix` reads all of them into memory.
        subwords: n-grams, which give vectors to words outside the vocabulary, or None.
        counts: the frequency of each word, or None if the file does not have it.
        path: the file, for messages.
        noun: the meaning of a row, for messages: a word, or a line of a text.
        origins: the number of each row in the file, from 0, if rows were left out; None: all rows of the file.
        factors: 1 / length of the first rows, cached by a search.
    """

    def __init__(
        self,
        words: WordList | Iterable[str],
        rows: VectorRows | Array,
        *,
        subwords: Subwords | None = None,
        counts: Sequence[int] | None = None,
        path: str = "vectors",
        noun: str = "word",
        origins: Sequence[int] | None = None,
    ) -> None:
        """Raises BundleError if the numbers of words and rows differ."""
        self.words = words if isinstance(words, WordList) else WordList.of(words)
        self.rows: VectorRows = ArrayRows(rows) if isinstance(rows, np.ndarray) else rows
        self.subwords = subwords
        self.counts = counts
        self.path = path
        self.noun = noun
        self.origins = origins
        self.factors: Floats | None = None
        if len(self.words) != self.rows.shape[0]:
            checks.refuse(path, f"{len(self.words):,} words, {self.rows.shape[0]:,} vectors")

    def __len__(self) -> int:
        return self.rows.shape[0]

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.words.place(word) is not None

    def __getitem__(self, word: str) -> Floats:
        """The vector of `word`, float32 (D,). Raises KeyError."""
        vector = self.vector(word)
        if vector is None:
            raise KeyError(word)
        return vector

    def origin(self, place: int) -> int:
        """The number in the file, from 0, of the row at `place`."""
        return place if self.origins is None else self.origins[place]

    @property
    def dimensions(self) -> int:
        """Length of a vector, D."""
        return self.rows.shape[1]

    @property
    def matrix(self) -> Floats:
        """All vectors, float32 (V, D), in memory."""
        return self.rows.take(slice(0, len(self)))

    def vector(self, word: str) -> Floats | None:
        """The vector of `word`, composed of n-grams outside the vocabulary; None if it has none. Raises BundleError."""
        place = self.words.place(word)
        if place is not None:
            return np.asarray(self.take([place])[0])
        return None if self.subwords is None else self.subwords.compose(word)

    def take(self, places: Sequence[int]) -> Floats:
        """The vectors at `places`, float32 (N, D). Raises BundleError if one is not finite."""
        rows = self.rows.take(places)
        checks.check_finite(rows, places, self.path)
        return rows

    def blocks(self, end: int | None = None, *, check: bool = True, most: int = 16384) -> Iterator[tuple[int, Floats]]:
        """The first `end` vectors (None: all) in blocks of up to `most`: (number of the first row, rows).

        Raises:
            BundleError: a vector is not finite, if `check` is set.
        """
        size = max(1, min(most, BLOCK_NUMBERS // self.dimensions))
        last = len(self) if end is None else min(end, len(self))
        for start in range(0, last, size):
            rows = self.rows.take(slice(start, min(start + size, last)))
            if check:
                checks.check_finite(rows, start, self.path)
            yield start, rows

    def nearest(
        self, queries: Sequence[str], k: int = 10, *, method: str = "add", metric: str = "cosine", restrict: int = 0
    ) -> list[list[Neighbor] | None]:
        """The `k` nearest words of each query, which is a word or an expression such as `king - man + woman`.

        See `nlptools.vectors.nearest.neighbors`. The answer to a query with an unknown word is None.
        """
        return [
            answer.neighbors for answer in neighbors(self, queries, k, method=method, metric=metric, restrict=restrict)
        ]


def named_rows(array: Array, path: str, lines: str | None = None, errors: str = "strict") -> Vectors:
    """The rows (N, D) of an array; their words are the lines of the text file `lines`, or numbers from 0.

    Raises:
        DataError: the numbers of lines and rows differ, or a line is not valid UTF-8.
        InputError: no such text file.
    """
    if lines is None:
        return Vectors([str(i) for i in range(len(array))], array, path=path)
    words = list(streams.lines(lines, errors))
    if len(words) != len(array):
        raise DataError(f"{len(words):,} lines for the {len(array):,} vectors of {display(path)}", path=lines)
    return Vectors(words, array, path=path, noun="line")


def first_words(vectors: Vectors, count: int = 0) -> Vectors:
    """The first `count` words (0: all). Of repeated words the first is kept, with a warning."""
    words = vectors.words.list()[: count or None]
    keep = checks.keep_first(words, vectors.path, vectors.noun)
    if keep is None and len(words) == len(vectors):
        return vectors
    places = np.array(range(len(words)) if keep is None else keep, np.int64)
    subwords = vectors.subwords
    if subwords is not None:
        output = None if subwords.output is None else subwords.output[places]
        subwords = replace(subwords, own=subwords.own[places], output=output)
    counts = None if vectors.counts is None else [vectors.counts[place] for place in places]
    rows = ChosenRows(vectors.rows, places)
    origins = [vectors.origin(place) for place in places.tolist()]
    return Vectors(
        [words[place] for place in places],
        rows,
        subwords=subwords,
        counts=counts,
        path=vectors.path,
        noun=vectors.noun,
        origins=origins,
    )


def normalized(vectors: Vectors) -> Vectors:
    """The same words with vectors of length 1; without n-grams, since sums of their vectors have other lengths."""
    rows = ChangedRows(vectors.rows, unit, vectors.path)
    return Vectors(vectors.words, rows, counts=vectors.counts, path=vectors.path)
