"""Counts that do not fit in memory: counts of parts of a text ("runs") in files, merged as streams.

Each level of the merged counts is read and written once, some rows at a time. The runs and the result are sorted by words, so
the rows of all runs up to a common bound make the next rows of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count as numbers
from pathlib import Path

import numpy as np

from nlptools.arrays import Longs
from nlptools.corpora.columns import Column, ColumnWriter, pieces
from nlptools.errors import BundleError
from nlptools.models.language.ngram import NGramConfig
from nlptools.training.ngrams.counting import CountedLevel, Numbers, below_starts

TOGETHER = 32  # runs merged at a time
_BYTES = 100  # of memory for each row in process, with copies


@dataclass(frozen=True, eq=False)
class CountedPart:
    """The counts of a part of a text: keys and counts of the n-grams of 1, 2, ... words, see `CountedLevel`."""

    keys: list[Numbers]
    counts: list[Numbers]


class Merger:
    """Merges runs.

    Args:
        config: sizes of the model.
        folder: place for files.
        memory: approximate number of bytes to work in.
    """

    def __init__(self, config: NGramConfig, folder: Path, memory: int) -> None:
        self._config, self._folder = config, folder
        self._rows = max(1 << 10, memory // _BYTES)
        self._names = numbers()

    def write(self, levels: Sequence[CountedLevel]) -> CountedPart:
        """The counts of a part, moved to files. Raises StreamError."""
        return CountedPart(
            [self._column(level.keys) for level in levels], [self._column(level.counts) for level in levels]
        )

    def merged(self, runs: Sequence[CountedPart]) -> list[CountedLevel]:
        """The sum of the counts of all runs. Raises StreamError, BundleError for inconsistent counts."""
        while len(runs) > 1:
            groups = [runs[start : start + TOGETHER] for start in range(0, len(runs), TOGETHER)]
            runs = [group[0] if len(group) == 1 else self._merge(group) for group in groups]
        levels: list[CountedLevel] = []
        for n, (keys, counts) in enumerate(zip(runs[0].keys, runs[0].counts, strict=True), 1):
            if n == 1:
                bos = self._config.bos
                levels.append(CountedLevel(keys, counts, np.zeros(len(keys), np.int64), (bos, bos + 1)))
                continue
            starts = below_starts(keys, levels[-1].starts, self._config.vocab_size)
            levels.append(CountedLevel(keys, counts, self._suffixes(levels, keys), starts))
        return levels

    def _writer(self, dtype: type = np.int64) -> ColumnWriter:
        return ColumnWriter(self._folder / f"{next(self._names)}", dtype)

    def _column(self, values: Numbers) -> Column:
        writer = self._writer()
        writer.append(values[:])
        return writer.close()

    # -- merging --------------------------------------------------------------------------------------------------------

    def _merge(self, runs: Sequence[CountedPart]) -> CountedPart:
        keys: list[Numbers] = [np.arange(self._config.vocab_size)]
        counts: list[Numbers] = [np.sum([run.counts[0][:] for run in runs], axis=0)]
        places: list[Column] | None = None  # of the n-grams of each run, in the result; None: the same
        for n in range(2, self._config.order + 1):
            streams = [
                _Stream(
                    run.keys[n - 1], run.counts[n - 1], None if places is None else places[i], self._config.vocab_size
                )
                for i, run in enumerate(runs)
            ]
            before, (merged, summed, places) = places, self._merge_level(streams)
            keys.append(merged)
            counts.append(summed)
            for column in before or ():
                column.path.unlink()
        for column in places or ():
            column.path.unlink()
        self._remove(runs)
        return CountedPart(keys, counts)

    def _merge_level(self, streams: Sequence[_Stream]) -> tuple[Column, Column, list[Column]]:
        rows = max(1, self._rows // len(streams))
        keys, counts, places = self._writer(), self._writer(), [self._writer() for _ in streams]
        total = 0
        while True:
            for stream in streams:
                stream.fill(rows)
            bounds = [int(stream.keys[-1]) for stream in streams if stream.has_more]
            taken = [stream.take(min(bounds, default=None)) for stream in streams]
            merged = _distinct([some for some, _ in taken])
            if not len(merged):
                break
            summed = np.zeros(len(merged), np.int64)
            for (some, their_counts), writer in zip(taken, places, strict=True):
                found = np.searchsorted(merged, some)
                summed[found] += their_counts  # the keys of one run are different
                writer.append(found + total)
            keys.append(merged)
            counts.append(summed)
            total += len(merged)
        return keys.close(), counts.close(), [writer.close() for writer in places]

    def _remove(self, runs: Sequence[CountedPart]) -> None:
        """Remove the files of runs that are no longer needed; counts that a user keeps stay."""
        for run in runs:
            for column in (*run.keys, *run.counts):
                if isinstance(column, Column) and column.path.parent == self._folder:
                    column.path.unlink(missing_ok=True)

    # -- suffixes -------------------------------------------------------------------------------------------------------

    def _suffixes(self, levels: Sequence[CountedLevel], keys: Numbers) -> Column:
        """The index of each n-gram without its first word: it continues the suffix of the n-gram's context, which is known."""
        V, below = self._config.vocab_size, levels[-1]
        writer = self._writer()
        for some in pieces(keys, self._rows):
            parents, words = np.divmod(some, V)
            if len(levels) > 1:
                low = int(parents[0])
                words += below.suffixes[low : int(parents[-1]) + 1][parents - low] * V
            writer.append(self._found(words, below.keys))
        return writer.close()

    def _found(self, wanted: Longs, keys: Numbers) -> Longs:
        """The places of keys among sorted ones. Raises BundleError if one is not there."""
        ranks = np.argsort(wanted, kind="stable")  # n-grams of one first word are sorted already
        rising = wanted[ranks]
        out = np.full(len(wanted), -1, np.int64)
        done = base = 0
        for piece in pieces(keys, self._rows):
            end = done + int(np.searchsorted(rising[done:], piece[-1], side="right"))
            places = np.searchsorted(piece, rising[done:end])
            if not np.array_equal(piece[places], rising[done:end]):
                break
            out[ranks[done:end]] = places + base
            done, base = end, base + len(piece)
        if done < len(wanted):
            raise BundleError("the counts are damaged: they have an n-gram, but not its last words")
        return out


def _distinct(rising: Sequence[Longs]) -> Longs:
    """The different numbers of several sorted arrays. This kind of sorting only merges those (np.unique: 100 times slower)."""
    numbers: Longs = np.sort(np.concatenate(rising), kind="stable")
    return numbers[np.diff(numbers, prepend=-1) > 0]


class _Stream:
    """The n-grams of one length of a run, with their keys in the merged counts, some at a time."""

    def __init__(self, keys: Numbers, counts: Numbers, places: Column | None, V: int) -> None:
        self._keys, self._counts, self._places, self._V = keys, counts, places, V
        self._next = 0
        self.keys, self.counts = np.zeros(0, np.int64), np.zeros(0, np.int64)

    @property
    def has_more(self) -> bool:
        return self._next < len(self._keys)

    def fill(self, rows: int) -> None:
        """Read the next rows, if all have been taken."""
        if len(self.keys) or not self.has_more:
            return
        start, end = self._next, min(self._next + rows, len(self._keys))
        self.keys, self.counts, self._next = self._keys[start:end], self._counts[start:end], end
        if self._places is not None:
            parents, words = np.divmod(self.keys, self._V)
            low = int(parents[0])
            self.keys = self._places[low : int(parents[-1]) + 1][parents - low] * self._V + words

    def take(self, bound: int | None) -> tuple[Longs, Longs]:
        """The keys up to `bound` (None: all), and their counts."""
        end = len(self.keys) if bound is None else int(np.searchsorted(self.keys, bound, side="right"))
        taken = self.keys[:end], self.counts[:end]
        self.keys, self.counts = self.keys[end:], self.counts[end:]
        return taken
