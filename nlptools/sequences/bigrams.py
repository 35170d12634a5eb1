"""Words as ids, pairs of neighboring words as integers, and their counts.

A text is one stream of ids, in which id 0 ends a line. Connector words ("of", "the") may be between the two words of a pair;
with other connectors, it is another pair.
A pair is one integer: run of connectors, first word, second word, from high to low bits. Pairs are counted by sorting.
Shapes: T ids, P pairs of neighbours, U different pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.arrays import Ints, Longs

LINE_END, NOTHING, UNKNOWN = 0, 1, 2
WINDOW = 1 << 21  # ids at a time
CHARACTERS = 1 << 22  # of text at a time: a line may be a whole corpus, and tokens take far more memory than text
_NO_RUN = np.iinfo(np.int64).min


class BigramWords:
    """The ids of tokens, in order of first occurrence, after three special ids.

    Attributes:
        ids: the id of each token; looking up a new token assigns an id.
    """

    def __init__(self) -> None:
        self.ids: defaultdict[str, int] = defaultdict(None, {"\n": LINE_END, "": NOTHING, " ": UNKNOWN})
        self.ids.default_factory = self.ids.__len__

    def __len__(self) -> int:
        return len(self.ids)

    def texts(self) -> list[str]:
        """The tokens in the order of their ids."""
        return list(self.ids)

    def encode(self, text: str) -> Iterator[Ints]:
        """The ids of the tokens of a text between spaces, tabs and line ends, in parts."""
        for part in _parts(text):
            tokens = split(part)
            ids = np.fromiter(map(self.ids.__getitem__, tokens), np.int32, len(tokens))
            yield ids[ids != NOTHING]


def split(text: str) -> list[str]:
    """The tokens of a text, with line ends as tokens; some tokens are empty."""
    return text.replace("\t", " ").replace("\n", " \n ").split(" ")


def _parts(text: str) -> Iterator[str]:
    """`text` in parts of limited length, cut after spaces or line ends."""
    start = 0
    while len(text) - start > CHARACTERS:
        limit = start + CHARACTERS
        end = 1 + max(text.rfind(c, start, limit) for c in " \n\t")
        if not end:
            end = 1 + min((p for c in " \n\t" if (p := text.find(c, limit)) >= 0), default=len(text))
        yield text[start:end]
        start = end
    yield text[start:]


class Packing:
    """The integers of pairs, for ids below `size`.

    Args:
        connectors: ids of the words that may be between the two of a pair.
    """

    def __init__(self, size: int, connectors: Sequence[int] = ()) -> None:
        self.bits = max(2, (size - 1).bit_length())
        self.connectors = list(connectors)
        self.number = np.zeros(size, np.int64)  # of each connector, from 1
        self.number[self.connectors] = np.arange(1, len(self.connectors) + 1)
        self.runs: dict[int, int] = {}  # code of a run of connectors -> its id, from 1; 0 is the empty run
        self._long: dict[tuple[int, ...], int] = {}
        self._longest = 1  # run that fits in an integer with the connectors as digits
        while self.connectors and (len(self.connectors) + 1) ** (self._longest + 1) < 1 << 62:
            self._longest += 1

    def pairs(self, ids: NDArray[np.integer], grow: bool = False) -> tuple[Longs, Longs]:
        """Places (P + 1,) of the words that are not connectors, line ends included, and integers (P,) of their pairs.

        Args:
            ids: (T,).
            grow: assign ids to new runs of connectors; otherwise pairs with them are -1.

        Returns:
            places, and the integer of the pair of each place and the next, -1 if one of them is a line end.
        """
        if self.connectors:
            number = self.number[ids]
            places = np.flatnonzero(number == 0)
        else:
            places = np.arange(len(ids))
        words = ids[places].astype(np.int64)
        keys = (words[:-1] << self.bits) | words[1:]
        ends = words == LINE_END
        keys[ends[:-1] | ends[1:]] = -1
        if self.connectors and len(keys):
            gaps = np.diff(places) - 1
            inner = np.flatnonzero((gaps > 0) & (keys >= 0))
            run = self._run_ids(number, places[inner] + 1, gaps[inner], grow)
            keys[inner] = np.where(run < 0, -1, keys[inner] | (run << (2 * self.bits)))
        return places, keys

    def first(self, keys: Longs) -> Longs:
        """The ids of the first words of pairs (U,)."""
        return (keys >> self.bits) & ((1 << self.bits) - 1)

    def second(self, keys: Longs) -> Longs:
        """The ids of the second words of pairs (U,)."""
        return keys & ((1 << self.bits) - 1)

    def ids(self, keys: Longs) -> list[tuple[int, ...]]:
        """The ids of each pair (U,): first word, connectors, second word."""
        base = len(self.connectors) + 1
        long = {code: run for run, code in self._long.items()}
        spelled: list[tuple[int, ...]] = [()]
        for code in self.runs:
            digits = list(long.get(code, ()))
            while code > 0:
                code, digit = divmod(code, base)
                digits.insert(0, digit)
            spelled.append(tuple(self.connectors[digit - 1] for digit in digits))
        parts = (self.first(keys), keys >> (2 * self.bits), self.second(keys))
        return [(first, *spelled[run], second) for first, run, second in zip(*(part.tolist() for part in parts))]

    def _run_ids(self, number: Longs, starts: Longs, lengths: Longs, grow: bool) -> Longs:
        """The ids (R,) of runs of connectors in `number` (T,); -1 for unknown runs."""
        codes = np.zeros(len(starts), np.int64)
        for step in range(min(self._longest, int(lengths.max(initial=0)))):
            on = np.flatnonzero(lengths > step)
            codes[on] = codes[on] * (len(self.connectors) + 1) + number[starts[on] + step]
        for i in np.flatnonzero(lengths > self._longest).tolist():
            run = tuple(number[starts[i] : starts[i] + lengths[i]].tolist())
            codes[i] = self._long.setdefault(run, -1 - len(self._long)) if grow else self._long.get(run, _NO_RUN)
        different, inverse = np.unique(codes, return_inverse=True)
        ids = [self._run_id(code, grow) for code in different.tolist()]
        return np.array(ids, np.int64)[inverse]

    def _run_id(self, code: int, grow: bool) -> int:
        if code not in self.runs and grow:
            if len(self.runs) + 1 >= 1 << (62 - 2 * self.bits):
                messages.warn(
                    "too many different runs of connectors; pairs with further ones are not joined", "runs", most=1
                )
                return -1
            self.runs[code] = len(self.runs) + 1
        return self.runs.get(code, -1)


class PairCounts:
    """Counts of pairs, in sorted arrays.

    Args:
        most: largest number of different pairs; beyond it the rarest are dropped, as in the original tools. 0: no limit.

    Attributes:
        keys, counts: (U,), valid after `finish`.
        lost: the highest count of a dropped pair; 0 if none was dropped.
    """

    def __init__(self, most: int = 0) -> None:
        self.most = most
        self.keys: Longs = np.zeros(0, np.int64)
        self.counts: Longs = np.zeros(0, np.int64)
        self.lost = 0
        self._waiting: list[tuple[Longs, Longs]] = []

    def add(self, keys: Longs) -> None:
        """Count pairs (P,); negative integers are not pairs."""
        ranked = np.sort(keys[keys >= 0])
        if not len(ranked):
            return
        starts = np.flatnonzero(np.diff(ranked, prepend=-1))
        self._waiting.append((ranked[starts], np.diff(starts, append=len(ranked))))
        size = sum(len(waiting) for waiting, _ in self._waiting)
        if size > max(len(self.keys) // 2, WINDOW) or (self.most and size + len(self.keys) > self.most):
            self.finish()

    def finish(self) -> None:
        """Merge all counts; drop the rarest pairs if there are too many."""
        if not self._waiting:
            return
        parts = [(self.keys, self.counts), *self._waiting]
        self._waiting = []
        keys = np.concatenate([part[0] for part in parts])
        counts = np.concatenate([part[1] for part in parts])
        order = np.argsort(keys, kind="stable")  # parts are sorted already: this merges them
        keys, counts = keys[order], counts[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        self.keys, self.counts = keys[starts], np.add.reduceat(counts, starts)
        while self.most and len(self.keys) > self.most:
            self.lost += 1
            kept = self.counts > self.lost
            self.keys, self.counts = self.keys[kept], self.counts[kept]


def count(
    windows: Iterable[Ints], packing: Packing, size: int, across_lines: bool = False, most: int = 0
) -> tuple[Longs, PairCounts]:
    """Counts of ids, (size,), and of pairs in a stream cut into windows.

    Args:
        across_lines: whether the last word of a line and the first of the next are a pair.
    """
    words = np.zeros(size, np.int64)
    pairs = PairCounts(most)
    rest: Ints = np.zeros(0, np.int32)
    for ids in windows:
        words += np.bincount(ids, minlength=size)
        ids = np.concatenate([rest, ids[ids != LINE_END] if across_lines else ids])
        places, keys = packing.pairs(ids, grow=True)
        pairs.add(keys)
        rest = ids[places[-1] :] if len(places) else ids
    pairs.finish()
    return words, pairs
