"""A table of words and vectors, in memory or mapped from a file, and the rows behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nlptools.vectors import checks

if TYPE_CHECKING:
    from nlptools.vectors.nearest import Neighbor
    from nlptools.vectors.subwords import Subwords

Floats = np.ndarray[Any, np.dtype[np.float32]]
BLOCK_NUMBERS = 1 << 22  # numbers handled at a time, 16 MiB of them
_FEW = 64  # passes over the words that are cheaper than a dictionary of them
_TEXT_SEARCHES = 8  # words that are cheaper to look for in the text than in a list of its lines


class Rows(Protocol):
    """Vectors that are read a part at a time: an array in memory, a mapped one, records between words."""

    shape: tuple[int, int]

    def read(self, start: int, end: int) -> Floats:
        """Rows `start` to `end`, float32 (end - start, D), contiguous."""

    def take(self, places: Sequence[int]) -> Floats:
        """The rows at `places`, float32 (N, D)."""


class ArrayRows:
    """Rows of an array: in memory or memory-mapped; float32, another float type, or int8 with a scale per row."""

    def __init__(self, array: np.ndarray[Any, Any], scales: Floats | None = None) -> None:
        self.array = array
        self.scales = scales
        self.shape: tuple[int, int] = (array.shape[0], array.shape[1])

    def read(self, start: int, end: int) -> Floats:
        return self._float(self.array[start:end], slice(start, end))

    def take(self, places: Sequence[int]) -> Floats:
        return self._float(self.array[list(places)], list(places))

    def _float(self, part: np.ndarray[Any, Any], which: slice | list[int]) -> Floats:
        rows = np.ascontiguousarray(part, np.float32)
        return rows if self.scales is None else rows * self.scales[which][:, None]


class Words(Sequence[str]):
    """The words of a table, by place and by name. A few words are found without an index of all of them."""

    def __init__(self, joined: str, count: int) -> None:
        """`joined` holds `count` words separated by newlines."""
        self._joined = joined
        self._count = count
        self._list: list[str] | None = None
        self._places: dict[str, int] | None = None
        self._lookups = 0

    @classmethod
    def of(cls, words: Iterable[str]) -> Words:
        """Words from a list. Raises ValueError if one holds a newline."""
        kept = list(words)
        found = Words("\n".join(kept), len(kept))
        if len(kept) != found._joined.count("\n") + 1 and kept:
            raise ValueError("a word holds a newline")
        found._list = kept
        return found

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: Any) -> Any:
        return self.list()[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def texts(self) -> Iterator[tuple[int, str]]:
        """(place of the first word, words separated by newlines), parts of all words in order; none is empty of words."""
        if self._count:
            yield 0, self._joined

    def may_hold(self, word: str) -> bool:
        """Whether this can be a word here at all."""
        return "\n" not in word

    def list(self) -> list[str]:
        """All words."""
        if self._list is None:
            self._list = [word for _, text in self.texts() for word in text.split("\n")]
        return self._list

    def place(self, word: str) -> int | None:
        """The row of `word`, the first one if it stands more than once; None outside the vocabulary."""
        return self.find((word,)).get(word)

    def hold_index(self) -> None:
        """Make a dictionary of all words now, for whoever knows that many will be looked for."""
        if self._places is None:
            self._places = {}
            for place, name in enumerate(self.list()):
                self._places.setdefault(name, place)

    def find(self, words: Iterable[str]) -> dict[str, int]:
        """The rows of those of `words` that are in the vocabulary, in one pass that ends with the last of them."""
        wanted = {word for word in words if self.may_hold(word)}
        found: dict[str, int] = {}
        self._lookups += 1
        if self._places is None and self._lookups > _FEW:
            self.hold_index()
        if self._places is not None:
            return {word: self._places[word] for word in wanted if word in self._places}
        search = _search_one_by_one if len(wanted) <= _TEXT_SEARCHES else _search_all
        for first, text in self.texts() if wanted else ():
            here = search(text, wanted)
            if here:
                found.update((word, first + place) for word, place in here.items())
                wanted.difference_update(here)
                if not wanted:
                    break
        return found


def _search_one_by_one(text: str, wanted: Iterable[str]) -> dict[str, int]:
    """Places of words in lines of text, by its characters: milliseconds for a few words in millions."""
    found: dict[str, int] = {}
    for word in wanted:
        if text.startswith(word) and text[len(word) : len(word) + 1] in ("", "\n"):
            found[word] = 0
            continue
        at = text.find(f"\n{word}\n")
        if at < 0 and text.endswith(f"\n{word}"):
            at = len(text) - len(word) - 1
        if at >= 0:
            found[word] = text.count("\n", 0, at) + 1
    return found


def _search_all(text: str, wanted: set[str]) -> dict[str, int]:
    """The same for many words, by looking at each line."""
    lines, found = text.split("\n"), dict[str, int]()
    here = wanted.intersection(lines)
    if here:
        for place, line in enumerate(lines):
            if line in here:
                found.setdefault(line, place)
    return found


class Vectors:
    """Words and their vectors.

    Attributes:
        words: the words, most frequent first in files of the usual tools.
        rows: where the vectors are; `matrix` reads all of them into memory.
        subwords: what makes vectors of words outside the vocabulary, or None.
        counts: how often each word occurred, or None where the file does not say.
        path: the file, for messages.
    """

    def __init__(
        self,
        words: Words | Iterable[str],
        rows: Rows | np.ndarray[Any, Any],
        *,
        subwords: Subwords | None = None,
        counts: Sequence[int] | None = None,
        path: str = "vectors",
    ) -> None:
        """Raises BundleError when the numbers of words and rows differ."""
        self.words = words if isinstance(words, Words) else Words.of(words)
        self.rows: Rows = ArrayRows(rows) if isinstance(rows, np.ndarray) else rows
        self.subwords = subwords
        self.counts = counts
        self.path = path
        self.factors: Floats | None = None  # one over the lengths of the first rows, once a search has computed them
        if len(self.words) != self.rows.shape[0]:
            checks.refuse(path, f"{len(self.words):,} words, {self.rows.shape[0]:,} vectors")

    def __len__(self) -> int:
        return self.rows.shape[0]

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.words.place(word) is not None

    def __getitem__(self, word: str) -> Floats:
        """The vector of `word`, float32 (D,). Raises KeyError."""
        found = self.vector(word)
        if found is None:
            raise KeyError(word)
        return found

    @property
    def dimensions(self) -> int:
        """Length of a vector."""
        return self.rows.shape[1]

    @property
    def matrix(self) -> Floats:
        """All vectors in memory, float32 (V, D)."""
        return self.rows.read(0, len(self))

    def vector(self, word: str) -> Floats | None:
        """The vector of `word`, from its subwords if it is not in the vocabulary; None where there are none."""
        place = self.words.place(word)
        if place is not None:
            row = self.rows.take([place])
            checks.check_finite(row, place, self.path)
            return np.asarray(row[0])
        return None if self.subwords is None else self.subwords.compose(word)

    def blocks(self, end: int | None = None, *, check: bool = True, most: int = 16384) -> Iterator[tuple[int, Floats]]:
        """(number of the first row, rows) in blocks of up to `most`; with `check`, all finite. Raises BundleError."""
        size = max(1, min(most, BLOCK_NUMBERS // self.dimensions))
        last = len(self) if end is None else min(end, len(self))
        for start in range(0, last, size):
            rows = self.rows.read(start, min(start + size, last))
            if check:
                checks.check_finite(rows, start, self.path)
            yield start, rows

    def nearest(
        self, queries: Sequence[str], k: int = 10, *, method: str = "add", restrict: int = 0
    ) -> list[list[Neighbor] | None]:
        """The `k` nearest words of each query, which is a word or an expression such as `king - man + woman`.

        See `nlptools.vectors.nearest.neighbors`.
        """
        from nlptools.vectors.nearest import neighbors

        return [answer.neighbors for answer in neighbors(self, queries, k, method=method, restrict=restrict)]
