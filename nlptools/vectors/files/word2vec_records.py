"""The positions of vectors in word2vec's binary file, located on demand.

The position of a vector depends on the record before it: after the next space, and one vector further. Locating all records
touches every page of the file. A search does so anyway, but opening a file would become slow. So records are located a window
at a time, by a regular expression that matches whole records, at the speed of C. A damaged record is reported when it is
reached; small files are scanned completely when they are opened.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from typing import overload

import numpy as np

from nlptools.arrays import Longs
from nlptools.vectors import checks
from nlptools.vectors.words import WordList

WINDOW = 1 << 24  # bytes scanned at a time
_WORDS = 16384  # approximate number of records in a window, if they are short


class Word2vecRecords:
    """The records of a file.

    Attributes:
        data: the file.
        starts: the first bytes of vectors, int64 (V,); only the first `found` are valid.
        found: number of located records.
        size: bytes of a vector.
    """

    def __init__(self, data: mmap.mmap, begin: int, header: checks.Header, path: str, errors: str = "strict") -> None:
        """Records from `begin` on. Raises BundleError if the first window, or a small file, is damaged."""
        self.data, self.path, self.errors = data, path, errors
        self.count, self.dimensions, self.size = header.words, header.dimensions, 4 * header.dimensions
        # the caller has compared the number of words with the size of the file
        self.starts: Longs = np.empty(header.words, np.int64)
        self.found = 0
        self._begin = self._end = begin
        self._window = max(self.size + 4096, min(_WORDS * (self.size + 16), WINDOW))
        # without a record, the second branch matches all the rest: no byte is tried twice, however damaged the file
        self._record = re.compile(rb"([^ ]*) (?s:.{%d})|(?s:.+)" % self.size)
        self._texts: list[tuple[int, str]] = []
        self.reach(self.count if len(data) <= WINDOW else min(1, self.count))
        if not self.count:
            self._check_end(begin)

    def reach(self, count: int) -> None:
        """Locate at least the first `count` records.

        Raises:
            BundleError: the file ends inside a record or continues after the last one, or a word is not UTF-8 or
                contains a newline.
        """
        while self.found < count:
            self._find_more()

    def texts(self) -> Iterator[tuple[int, str]]:
        """(number of the first word, words joined by newlines) of each window, scanned if necessary."""
        seen = 0
        while True:
            if seen == len(self._texts):
                if self.found == self.count:
                    return
                self._find_more()
            yield self._texts[seen]
            seen += 1

    def word(self, place: int) -> str:
        """The word at a place."""
        self.reach(place + 1)
        begin = int(self.starts[place - 1]) + self.size if place else self._begin
        word = self.data[begin : int(self.starts[place]) - 1].removeprefix(b"\n")
        return word.decode("utf-8", self.errors)

    def _find_more(self) -> None:
        """Locate the records in the next window, or in a larger one if no record ends in it."""
        window, words = self._window, list[bytes]()
        while not words:
            stop = min(self._end + window, len(self.data))
            words, starts = self._look(self._end, stop)
            if not words and stop == len(self.data):
                message = f"the header promises {self.count:,} words, the file ends in word {self.found + 1:,}"
                checks.refuse(self.path, message)
            window *= 2
        words, starts = words[: self.count - self.found], starts[: self.count - self.found]
        text = checks.decode_words(self._join(words), self.path, self.errors, self.found)
        end = int(starts[-1]) + self.size
        if self.found + len(words) == self.count:
            self._check_end(end)
        self._texts.append((self.found, text))
        self.starts[self.found : self.found + len(words)] = starts
        self._end = end
        self.found += len(words)

    def _look(self, begin: int, stop: int) -> tuple[list[bytes], Longs]:
        """The words and the places of vectors of the complete records between two places."""
        words: list[bytes] = self._record.findall(self.data, begin, stop)
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        starts = begin + np.cumsum(lengths + (1 + self.size)) - self.size
        # the second branch counts as a word of length 0, which is not followed by a space
        if words and (starts[-1] + self.size > stop or self.data[int(starts[-1]) - 1] != 0x20):
            return words[:-1], starts[:-1]
        return words, starts

    def _check_end(self, end: int) -> None:
        if self.data[end : end + 2] not in (b"", b"\n"):
            promised = f"{self.count:,} words of {self.dimensions} dimensions"
            checks.refuse(self.path, f"the header promises {promised}, and the file goes on after them")

    def _join(self, words: list[bytes]) -> bytes:
        """The words joined by newlines. A newline before a word ends the record before it and is dropped."""
        joined = b"\n".join(words)
        if joined.count(b"\n") == len(words) - 1:
            return joined
        words = [word[1:] if word[:1] == b"\n" else word for word in words]
        for number, word in enumerate(words, self.found + 1):
            if b"\n" in word:
                hint = "the vectors have other dimensions than the header says, or the file is damaged"
                checks.refuse(self.path, f"word {number:,} contains a newline", hint=hint)
        return b"\n".join(words)


class RecordWords(WordList):
    """The words of records, which contain no spaces."""

    def __init__(self, records: Word2vecRecords) -> None:
        super().__init__("", records.count)
        self._records = records

    def texts(self) -> Iterator[tuple[int, str]]:
        return self._records.texts()

    def may_hold(self, word: str) -> bool:
        return " " not in word and super().may_hold(word)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if self._list is None and isinstance(place, int) and 0 <= place < len(self):
            return self._records.word(place)
        return super().__getitem__(place)
