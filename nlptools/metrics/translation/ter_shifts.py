"""The number of edits and of moved blocks of words that turn one sequence of words into another.

Snover et al. 2006, "A study of translation edit rate with targeted human annotation" (2006.amta-papers.25): a greedy
search repeats the move that reduces the edit distance most. It has the limits and tie-breaking of tercom as implemented
in sacrebleu (Post 2018, W18-6319); the counts are equal.
Departures:
* The distances after all possible next moves of several pairs are computed at once in numpy, a row of 64 cells in a few
  operations (Myers 1999, "A fast bit-vector algorithm for approximate string matching based on dynamic programming";
  Hyyrö 2003). Words before the moved ones are not compared again.
* tercom fills only cells near the diagonal. If a bound shows that no best path leaves that band, as for nearly all pairs,
  all cells are filled instead. Other pairs, and references of more than 64 words, are computed cell by cell.
* The search ends when the distance equals the distance of the bags of words, since no order of the words is better.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]
Move = tuple[int, int, int]  # start and length of a block of words, and the word before which it is inserted
Spans = tuple[int, int, int]  # a, b and c: the words from a to b change places with those from b to c
Words = list[int]

_MOST_WORDS = 10  # in a block that moves
_MOST_DISTANCE = 50  # between a block and the words of the reference that it matches
_MOST_TRIED = 1000  # moves tried for one pair; then the search ends without a further move
_BEAM = 25  # cells on either side of the diagonal

_WORD = 64  # bits
POOL = 512  # pairs worked on at once
CHUNK = 1 << 13  # moves at a time: their rows of bits fit into the cache
CHUNK_CELLS = 1 << 16  # cells of alignments that are filled at a time
_FAR = 1 << 40  # more than any distance


def edits(pairs: Sequence[tuple[Words, Words]]) -> Ints:
    """The number of edits between each of P hypotheses and its reference, both given as ids of words: (P,).

    A deleted, inserted or replaced word is one edit, and so is a move.
    """
    counts = np.zeros(len(pairs), np.int64)
    waiting = iter([i for i, (hypothesis, reference) in enumerate(pairs) if hypothesis != reference])
    active: list[tuple[int, _Pair]] = []
    while True:
        for i in islice(waiting, POOL - len(active)):
            if all(pairs[i]):
                active.append((i, _Pair(*pairs[i])))
            else:
                counts[i] = len(pairs[i][0]) + len(pairs[i][1])
        if not active:
            return counts
        going = []
        for (i, pair), move in zip(active, _best_moves([pair for _, pair in active])):
            if move is None:
                counts[i] = pair.distance + pair.moves
            else:
                pair.swap(move)
                going.append((i, pair))
        active = going


class _Pair:
    """A hypothesis, changed move by move, and its reference; neither is empty.

    The edit-distance matrix is stored as bits, one integer per row, bit j - 1 for column j: where the distance is larger
    (`grows`) or smaller (`shrinks`) than in the column before; where it equals the cell up and to the left (`diagonal`);
    where it is larger than the cell above (`above`). If the band matters, it is stored cell by cell.
    """

    def __init__(self, words: Words, reference: Words) -> None:
        self.words, self.reference = words, reference
        self.places: dict[int, list[int]] = {}  # word -> its positions in the reference
        for j, word in enumerate(reference):
            self.places.setdefault(word, []).append(j)
        common = sum(min(n, len(self.places.get(word, ()))) for word, n in Counter(words).items())
        self.least = max(len(words), len(reference)) - common  # the distance in the best order of the words
        self.moves = self.tried = 0
        self.full = (1 << len(reference)) - 1
        self.masks = {word: sum(1 << j for j in at) for word, at in self.places.items()}
        self.equal = [0]
        self.grows, self.shrinks = [self.full], [0]
        self.diagonal, self.above = [0], [0]
        self.cells: list[tuple[int, list[int]]] = []  # of each row: the first column, and the cells
        safe = _safe_distance(len(words), len(reference))
        self.banded = safe < 0 or self._fill(0) > safe
        self.distance = self._fill_cells() if self.banded else self._fill(len(words))

    def swap(self, spans: Spans) -> None:
        """Make a move."""
        a, b, c = spans
        words = self.words
        self.words = words[:a] + words[b:c] + words[a:b] + words[c:]
        self.moves += 1
        self.distance = self._fill_cells() if self.banded else self._fill(a)

    def _fill(self, start: int) -> int:
        """Compute the rows of the words from `start`; returns the distance."""
        full, masks = self.full, self.masks
        for kept in (self.equal, self.grows, self.shrinks, self.diagonal, self.above):
            del kept[start + 1 :]
        grows, shrinks = self.grows[-1], self.shrinks[-1]
        for word in self.words[start:]:
            equal = masks.get(word, 0)
            diagonal = ((((equal & grows) + grows) ^ grows) | equal | shrinks) & full
            above = shrinks | (full & ~(grows | diagonal))
            down = ((above << 1) | 1) & full
            grows = (((grows & diagonal) << 1) | ~(down | diagonal)) & full
            shrinks = down & diagonal
            self.equal.append(equal)
            self.grows.append(grows)
            self.shrinks.append(shrinks)
            self.diagonal.append(diagonal)
            self.above.append(above)
        return len(self.words) + grows.bit_count() - shrinks.bit_count()

    def _fill_cells(self) -> int:
        rows = _band_rows(np.array([self.words]), np.array(self.reference))
        self.cells = [(low, row[0].tolist()) for low, row in rows]
        return int(self.cells[-1][1][-1])

    def _cell(self, i: int, j: int) -> int:
        low, row = self.cells[i]
        return row[j - low] if low <= j < low + len(row) else _FAR

    def align(self) -> tuple[list[int], list[bool], list[bool]]:
        """A best path: for each prefix of the reference, the length of the prefix of the words that is aligned to it;
        which words are wrong; and which words of the reference are missed.

        Of several best paths, the one that prefers, from the end, replacements to deletions to insertions.
        """
        i, j = len(self.words), len(self.reference)
        ends, wrong, missed = [0] * (j + 1), [True] * i, [True] * j
        while i and j:
            ends[j] = i
            if self.banded:
                equal = self.words[i - 1] == self.reference[j - 1]
                here = self._cell(i, j)
                replaces = self._cell(i - 1, j - 1) + (not equal) == here
                drops = self._cell(i - 1, j) + 1 == here
            else:
                bit = 1 << (j - 1)
                equal = bool(self.equal[i] & bit)
                replaces = equal or not self.diagonal[i] & bit
                drops = bool(self.above[i] & bit)
            if replaces:
                wrong[i - 1] = missed[j - 1] = not equal
                i -= 1
                j -= 1
            elif drops:
                i -= 1
            else:
                j -= 1
        ends[1 : j + 1] = [0] * j
        return ends, wrong, missed

    def candidates(self) -> set[Move]:
        """The moves to try next; none if no move can help, or if the limit of moves is reached.

        A block of words may move to where the reference has the same words, if both places have an error.
        """
        found: set[Move] = set()
        if self.distance == self.least:
            return found
        ends, wrong, missed = self.align()
        words, reference = self.words, self.reference
        for start, word in enumerate(words):
            for at in self.places.get(word, ()):
                most = min(_MOST_WORDS, len(words) - start, len(reference) - at)
                here = ends[at + 1] - 1 - start  # the word of the block that is aligned to this position, if any
                if 0 <= here < most:
                    most = here
                if most <= 0 or abs(at - start) > _MOST_DISTANCE:
                    continue
                error = missing = False
                for n in range(most):
                    if words[start + n] != reference[at + n]:
                        break
                    error |= wrong[start + n]
                    missing |= missed[at + n]
                    if error and missing:
                        targets = set(ends[at : at + n + 2])
                        self.tried += len(targets)
                        if self.tried >= _MOST_TRIED:
                            return set()
                        found.update((start, n + 1, target) for target in targets)
        return found


# -- the distances after many moves -----------------------------------------------------------------------------------


def _best_moves(pairs: list[_Pair]) -> list[Spans | None]:
    """The best move of each pair, None if none helps; of equals the longest block, then the first block and target.

    A target inside the block or at its end moves the block forward by the distance from its start to the target.
    """
    found = [pair.candidates() for pair in pairs]
    owner = np.repeat(np.arange(len(pairs)), [len(moves) for moves in found])
    moves = np.fromiter(chain.from_iterable(chain.from_iterable(found)), np.int64, 3 * len(owner)).reshape(-1, 3)
    start, length, target = moves.T
    count = np.array([len(pair.words) for pair in pairs])[owner]
    before = target < start
    last = np.where(target > start + length, target, np.minimum(target + length, count))
    spans = np.where(before, (target, start, start + length), (start, start + length, last))  # (3, moves)
    moved = spans[1] < spans[2]
    owner, moves, spans = owner[moved], moves[moved], spans[:, moved]

    distances = np.empty(len(owner), np.int64)
    banded = np.array([pair.banded for pair in pairs])
    for k in np.flatnonzero(banded):
        own = np.flatnonzero(owner == k)
        distances[own] = _band_distances(pairs[k], spans[:, own])
    others = np.flatnonzero(~banded[owner])
    if len(others):
        distances[others] = _bit_distances(pairs, owner[others], spans[:, others])

    gain = np.array([pair.distance for pair in pairs])[owner] - distances
    good = np.flatnonzero(gain > 0)
    ranked = good[np.lexsort((-moves[good, 2], -moves[good, 0], moves[good, 1], gain[good], owner[good]))]
    best: list[Spans | None] = [None] * len(pairs)
    for k, swapped in zip(owner[ranked].tolist(), spans[:, ranked].T.tolist()):
        best[k] = tuple(swapped)  # the last one of a pair stays
    return best


def _bit_distances(pairs: list[_Pair], owner: Ints, spans: Ints) -> Ints:
    """The distances of pairs kept as bits, after swaps of `spans` (3, moves): (moves,)."""
    used = [pair if not pair.banded else None for pair in pairs]
    lengths = np.array([len(pair.words) + 1 if pair else 0 for pair in used])
    equal, grows, shrinks = (
        np.array(list(chain.from_iterable(getattr(pair, name) for pair in used if pair)), np.uint64)
        for name in ("equal", "grows", "shrinks")
    )
    base = (np.cumsum(lengths) - lengths)[owner]  # where the rows of the pair begin
    left = lengths[owner] - 1 - spans[0]  # words to compare
    order = np.argsort(-left, kind="stable")
    out = np.empty(len(owner), np.int64)
    for begin in range(0, len(order), CHUNK):
        part = order[begin : begin + CHUNK]
        rows = base[part] + spans[:, part]
        state = grows[rows[0]], shrinks[rows[0]]
        up, down = _advance(equal, rows + 1, left[part], *state)
        mask = np.uint64(2**_WORD - 1) >> (_WORD - np.array([len(pair.reference) for pair in pairs], np.uint64))
        mask = mask[owner[part]]
        out[part] = lengths[owner[part]] - 1 + _ones(up & mask) - _ones(down & mask)
    return out


def _advance(equal: Bits, spans: Ints, left: Ints, grows: Bits, shrinks: Bits) -> tuple[Bits, Bits]:
    """The last rows (moves,) of the matrices, from the rows at which the moved words begin.

    Args:
        equal: which words of the reference each word equals.
        spans: indices into `equal` of the beginning, the middle and the end of the swapped words, (3, moves).
        left: how many words come from the beginning on; falling.
    """
    first, middle, end = spans
    one = np.uint64(1)
    going = len(left) - np.searchsorted(left[::-1], np.arange(left[0]), "right")
    for step, k in enumerate(going.tolist()):
        at = first[:k] + step
        source = at + np.where(
            step < (end - middle)[:k],
            (middle - first)[:k],
            np.where(at < end[:k], (middle - end)[:k], 0),
        )
        same, up, down = equal[source], grows[:k], shrinks[:k]
        diagonal = (((same & up) + up) ^ up) | same | down
        above = ((down | ~(up | diagonal)) << one) | one
        grows[:k] = ((up & diagonal) << one) | ~(above | diagonal)
        shrinks[:k] = above & diagonal
    return grows, shrinks


def _ones(bits: Bits) -> Ints:
    """How many bits are set in each of `bits`."""
    counts: Ints = np.unpackbits(bits.view(np.uint8)).reshape(-1, _WORD).sum(axis=1)
    return counts


# -- the band ---------------------------------------------------------------------------------------------------------


def _band(words: int, reference: int) -> Iterator[tuple[int, int]]:
    """The columns [low, high) that are filled in each row but the first."""
    ratio = reference / words
    width = math.ceil(ratio / 2 + _BEAM) if ratio / 2 > _BEAM else _BEAM
    for i in range(1, words + 1):
        middle = math.floor(i * ratio)
        yield max(0, middle - width), min(reference + 1, middle + width) if i < words else reference + 1


@lru_cache(maxsize=1 << 14)
def _safe_distance(words: int, reference: int) -> int:
    """The largest distance at which no best path can leave the band; -1 if there is none, or no room for the bits."""
    if reference > _WORD:
        return -1
    drops = additions = _FAR  # as many keep every path inside
    for i, (low, high) in enumerate(_band(words, reference), 1):
        if low > 0:
            drops = min(drops, i - low)
        if high <= reference:
            additions = min(additions, high - 1 - i)
    more = reference - words  # additions less drops of any path
    return max(-1, min(2 * drops + more, 2 * additions - more) + 1)


def _band_rows(words: Ints, reference: Ints) -> Iterator[tuple[int, Ints]]:
    """Row by row, first column and cells (C, width) of the matrices of several hypotheses (C, n) and a reference."""
    columns = np.arange(len(reference) + 1)
    padded = np.concatenate([[-1], reference])
    low, cells = 0, np.tile(columns, (len(words), 1))
    yield low, cells
    for i, (first, end) in enumerate(_band(words.shape[1], len(reference))):
        above = np.full((len(words), end - first + 1), _FAR)  # columns from first - 1 to end
        begin, stop = max(low, first - 1), min(low + cells.shape[1], end)
        above[:, begin - first + 1 : stop - first + 1] = cells[:, begin - low : stop - low]
        replaced = above[:, :-1] + (words[:, i, None] != padded[first:end])
        least = np.minimum(replaced, above[:, 1:] + 1) - columns[first:end]
        low, cells = first, np.minimum.accumulate(least, axis=1) + columns[first:end]
        yield low, cells


def _band_distances(pair: _Pair, spans: Ints) -> Ints:
    """The distances of a pair, within the band, after swaps of `spans` (3, moves): (moves,)."""
    words, reference = np.array(pair.words), np.array(pair.reference)
    places = np.arange(len(words))
    first, middle, end = spans[:, :, None]
    source = places + np.where(
        (places < first) | (places >= end), 0, np.where(places < first + end - middle, middle - first, middle - end)
    )
    out = np.empty(spans.shape[1], np.int64)
    size = max(1, CHUNK_CELLS // (len(reference) + 1))
    for begin in range(0, len(out), size):
        for _, cells in _band_rows(words[source[begin : begin + size]], reference):
            out[begin : begin + size] = cells[:, -1]
    return out
