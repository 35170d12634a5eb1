"""Text in columns of a terminal."""

from __future__ import annotations

import unicodedata


def width(text: str) -> int:
    """The width of `text` in terminal columns: two for wide characters, none for combining ones."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.category(c) in ("Mn", "Me") for c in text)


def pad(text: str, columns: int, align: str = "<") -> str:
    """`text` with blanks up to a width of `columns`: `<` after it, `>` before it, `^` on both sides."""
    return f"{text:{align}{max(0, columns - width(text) + len(text))}}"
