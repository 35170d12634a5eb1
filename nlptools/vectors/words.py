"""The words of a table: by row, and the rows of a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

_FEW = 64  # lookups after which an index of all words is built
_TEXT_SEARCHES = 8  # up to this many words are searched for in the text, more in a list of its lines


class WordList(Sequence[str]):
    """The words of a table. A few words are found without building an index of all of them."""

    def __init__(self, joined: str, count: int) -> None:
        """`joined` is `count` words separated by newlines."""
        self._joined = joined
        self._count = count
        self._list: list[str] | None = None
        self._places: dict[str, int] | None = None
        self._lookups = 0

    @classmethod
    def of(cls, words: Iterable[str]) -> WordList:
        """Words from a list. Raises ValueError if one contains a newline."""
        names = list(words)
        result = WordList("\n".join(names), len(names))
        if len(names) != result._joined.count("\n") + 1 and names:
            raise ValueError("a word contains a newline")
        result._list = names
        return result

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        return self.list()[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self.list())

    def texts(self) -> Iterator[tuple[int, str]]:
        """All words in order, in parts of at least one word: (row of the first word, words separated by newlines)."""
        if self._count:
            yield 0, self._joined

    def may_hold(self, word: str) -> bool:
        """Whether `word` can be in this vocabulary at all."""
        return "\n" not in word

    def list(self) -> list[str]:
        """All words."""
        if self._list is None:
            self._list = [word for _, text in self.texts() for word in text.split("\n")]
        return self._list

    def place(self, word: str) -> int | None:
        """The first row of `word`; None if it is not in the vocabulary."""
        return self.find((word,)).get(word)

    def hold_index(self) -> None:
        """Build an index of all words now, before many lookups."""
        if self._places is None:
            self._places = {}
            for place, name in enumerate(self.list()):
                self._places.setdefault(name, place)

    def find(self, words: Iterable[str]) -> dict[str, int]:
        """The first row of each of `words` that is in the vocabulary. One pass, which ends when all are found."""
        wanted = {word for word in words if self.may_hold(word)}
        rows: dict[str, int] = {}
        self._lookups += 1
        if self._places is None and self._lookups > _FEW:
            self.hold_index()
        if self._places is not None:
            return {word: self._places[word] for word in wanted if word in self._places}
        search = _search_one_by_one if len(wanted) <= _TEXT_SEARCHES else _search_all
        for first, text in self.texts() if wanted else ():
            here = search(text, wanted)
            if here:
                rows.update((word, first + line) for word, line in here.items())
                wanted.difference_update(here)
                if not wanted:
                    break
        return rows


def _search_one_by_one(text: str, wanted: Iterable[str]) -> dict[str, int]:
    """The line of each word in `text`, by searching its characters: milliseconds for a few words in millions."""
    lines: dict[str, int] = {}
    for word in wanted:
        if text.startswith(word) and text[len(word) : len(word) + 1] in ("", "\n"):
            lines[word] = 0
            continue
        at = text.find(f"\n{word}\n")
        if at < 0 and text.endswith(f"\n{word}"):
            at = len(text) - len(word) - 1
        if at >= 0:
            lines[word] = text.count("\n", 0, at) + 1
    return lines


def _search_all(text: str, wanted: set[str]) -> dict[str, int]:
    """As `_search_one_by_one`, for many words, by comparing each line."""
    names, lines = text.split("\n"), dict[str, int]()
    here = wanted.intersection(names)
    if here:
        for line, name in enumerate(names):
            if name in here:
                lines.setdefault(name, line)
    return lines
