"""The lines of ARPA files as bytes, thousands at a time, with NumPy.

A line is put together from cells of eight bytes: two for each number, one or more for each word. Unused bytes of a cell are 0
and are left out at the end. A separator begins each number and each word, so a line begins with the end of the one before.
Shapes: G n-grams, V words, C cells.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nlptools.arrays import Floats, Longs
from nlptools.models.language.ngram import NGrams

Cells = NDArray[np.uint64]

NEVER = -99.0  # log10 of a probability of 0, as SRILM writes it
_SIZE = 8  # bytes of a cell


class ArpaLines:
    """Formats the n-grams of a model.

    Args:
        model: the model.
        words: the V words, UTF-8 without NUL, white space, and empty words.
    """

    def __init__(self, model: NGrams, words: Sequence[bytes]) -> None:
        self._model = model
        self._cells, self._first, self._sizes = _cells([b" " + word for word in words])
        self._tabbed = _cells([b"\t" + word for word in words])[0]  # the first word of an n-gram follows a tab

    def rows(self, n: int, start: int, end: int) -> NDArray[np.uint8]:
        """The lines of the n-grams of `n` words from `start` to `end`, each after a line end."""
        level = self._model.levels[n - 1]
        words = self._words(n, start, end)
        sizes = [self._sizes[column] for column in words]
        backoffs = None if level.backoffs is None else number_cells(level.backoffs[start:end], b"\t")
        totals: Longs = np.sum(sizes, axis=0) + (2 if backoffs is None else 4)
        ends = np.cumsum(totals)
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint64)
        places = ends - totals
        _put(out, places, number_cells(level.log_probs[start:end], b"\n"))
        places += 2
        for j, (column, size) in enumerate(zip(words, sizes, strict=True)):
            self._put_words(out, places, column, size, self._cells if j else self._tabbed)
            places += size
        if backoffs is not None:
            _put(out, places, backoffs)
        padded = out.view(np.uint8)
        text: NDArray[np.uint8] = padded[padded != 0]
        return text

    def _put_words(self, out: Cells, places: Longs, words: Longs, sizes: Longs, cells: Cells) -> None:
        first = self._first[words]
        out[places] = cells[first]
        left = np.flatnonzero(sizes > 1)
        offset = 1
        while len(left):
            out[places[left] + offset] = cells[first[left] + offset]
            offset += 1
            left = left[sizes[left] > offset]

    def _words(self, n: int, start: int, end: int) -> list[Longs]:
        """The words of n-grams: n columns (G,)."""
        index, columns = np.arange(start, end), list[Longs]()
        for level in self._model.levels[n - 1 : 0 : -1]:
            low, high = (int(index[0]), int(index[-1]) + 1) if len(index) else (0, 0)  # indices rise
            index, words = np.divmod(level.keys[low:high][index - low], self._model.vocab_size)
            columns.append(words)
        return [index, *reversed(columns)]  # a single word is its own index


def _cells(words: Sequence[bytes]) -> tuple[Cells, Longs, Longs]:
    """The bytes of all words as cells (C,), the place of the first cell of each word (V,), and the number of cells (V,)."""
    sizes = np.fromiter((-(-len(word) // _SIZE) for word in words), np.int64, len(words))
    padded = b"".join([word.ljust(size * _SIZE, b"\0") for word, size in zip(words, sizes.tolist(), strict=True)])
    return np.frombuffer(padded, np.uint64), np.cumsum(sizes) - sizes, sizes


def _put(out: Cells, places: Longs, pairs: Cells) -> None:
    out[places] = pairs[:, 0]
    out[places + 1] = pairs[:, 1]


# -- numbers ------------------------------------------------------------------------------------------------------------


def number_cells(values: Floats, separator: bytes) -> Cells:
    """(G, 2) cells: numbers from -99 to 99 after a separator of one byte.

    Numbers below 1 have nine decimals, others seven, whole ones none. So a float32 of at least 1/64 is the same again when it
    is read, and smaller ones differ by at most 1e-9.
    """
    size = np.minimum(np.abs(values.astype(np.float64)), -NEVER)
    scaled = np.where(size < 1, np.rint(size * 1e9), np.rint(size * 1e7) * 100).astype(np.int64)
    whole, rest = np.divmod(scaled, 10**9)
    upper, lower = np.divmod(rest, 10**6)
    middle, lower = np.divmod(lower, 100)
    lower[whole > 0] = 100  # no further digits
    head = whole + 100 * ((values > 0) | (scaled == 0))  # no sign
    out = np.stack([_HEADS[separator][head], _UPPER[upper], _MIDDLE[middle], _LOWER[lower]], axis=1)
    is_whole = rest == 0
    out[is_whole, 1:] = 0
    cells: Cells = out.view(np.uint64)
    return cells


def _table(texts: Sequence[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join([text.ljust(4, b"\0") for text in texts]), np.uint32)


def _heads(separator: bytes) -> np.ndarray:
    """The beginnings of numbers, by their whole part: with a sign for 0 to 99, without one from 100 on."""
    return _table([b"%b%b%d" % (separator, sign, whole) for sign in (b"-", b"") for whole in range(100)])


_HEADS = {separator: _heads(separator) for separator in (b"\n", b"\t")}
_UPPER = _table([b".%03d" % i for i in range(1000)])
_MIDDLE = _table([b"%04d" % i for i in range(10**4)])
_LOWER = _table([*(b"%02d" % i for i in range(100)), b""])
