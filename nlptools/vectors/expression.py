"""Queries: a word, or words with plus and minus signs between them.

Operators have spaces around them, since hyphens are part of words (`mother-in-law - woman + man`). Words may contain spaces,
as in GloVe's 840B file: all between two operators is one word. A line that is not an expression, such as `king -`, is a
word; no line is an error.
"""

from __future__ import annotations

from typing import NamedTuple


class Expression(NamedTuple):
    """Words to add and words to subtract."""

    positive: tuple[str, ...]
    negative: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """All words."""
        return self.positive + self.negative


def parse(line: str) -> Expression:
    """The expression in `line`."""
    fields = line.split(" ")
    if "+" not in fields and "-" not in fields:
        return Expression((line,))
    sign, positive, negative, word = "+", list[str](), list[str](), list[str]()
    if fields[0] in ("+", "-"):
        sign, fields = fields[0], fields[1:]
    for field in [*fields, "+"]:
        if field not in ("+", "-"):
            word.append(field)
            continue
        if not any(word):
            return Expression((line,))
        (positive if sign == "+" else negative).append(" ".join(word).strip(" "))
        sign, word = field, []
    return Expression(tuple(positive), tuple(negative))
