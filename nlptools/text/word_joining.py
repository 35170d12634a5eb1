"""Text from words and punctuation marks: the inverse of `words.split_words`, up to spacing.

Tokens are joined with one space, except before closing punctuation of any script, after opening punctuation and currency signs,
around slash and underscore, inside quotation marks, next to punctuation of Chinese and Japanese, and before a token that begins
with an apostrophe. The marks before a quotation mark determine its side: after „ the mark “ closes, and after » the mark « does.
Straight quotes open and close in turn. An at-sign and a number sign belong to the word after them, an at-sign before a domain to
both sides, and a colon in a time (10:30) to both numbers.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

# The property Terminal_Punctuation of Unicode, without historic scripts.
_TERMINAL = re.compile(
    "["
    "!,.:-;?\u037e\u0387\u0589\u05c3\u060c\u061b\u061d-\u061f\u06d4\u0700-\u070a\u070c\u07f8-\u07f9\u0830-\u0835"
    "\u0837-\u083e\u085e\u0964-\u0965\u0e5a-\u0e5b\u0f08\u0f0d-\u0f12\u104a-\u104b\u1361-\u1368\u166e\u16eb-\u16ed"
    "\u1735-\u1736\u17d4-\u17d6\u17da\u1802-\u1805\u1808-\u1809\u1944-\u1945\u1aa8-\u1aab\u1b5a-\u1b5b\u1b5d-\u1b5f"
    "\u1c3b-\u1c3f\u1c7e-\u1c7f\u2024\u203c-\u203d\u2047-\u2049\u2cf9-\u2cfb\u2e2e\u2e3c\u2e41\u2e4c\u2e4e-\u2e4f"
    "\u2e53-\u2e54\u3001-\u3002\ua4fe-\ua4ff\ua60d-\ua60f\ua6f3-\ua6f7\ua876-\ua877\ua8ce-\ua8cf\ua92f\ua9c7-\ua9c9"
    "\uaa5d-\uaa5f\uaadf\uaaf0-\uaaf1\uabeb\ufe12\ufe15-\ufe16\ufe50-\ufe52\ufe54-\ufe57\uff01\uff0c\uff0e"
    "\uff1a-\uff1b\uff1f\uff61\uff64"
    "]"
)
_MORE_CLOSING = frozenset("%\u066a…")
_OPENING = frozenset("¿¡")
_BETWEEN = frozenset("/_\\\u2010\u2011\u05be")  # with the hyphens that are not in the middle of words already
_TIGHT = frozenset(
    "、。〈〉《》「」『』【】〔〕〖〗〘〙〚〛！（），．：；？［］｛｝｟｠｡｢｣､・"
)  # without a space on either side
# The marks that a quotation mark closes, if one of them is open.
_CLOSES = {"“": "„", "”": "“„”", "‘": "‚", "«": "»", "»": "«»", "‹": "›", "›": "‹›", '"': '"', "'": "'"}
_QUOTES = frozenset("“”„‘‚«»‹›\"'")
# Marks that open only if another one follows to close them (Swedish ”…”, German »…«): the marks to look for, and the closing
# ones among them.
_NEEDS = {"”": ("“”", "”"), "»": ("«»", "«»"), "›": ("‹›", "‹›")}
_DOMAIN = re.compile(r"[\w-]+(?:\.[\w-]+)+\.?")
_HOURS, _MINUTES = re.compile(r"[0-9]{1,2}"), re.compile(r"[0-5][0-9]")
_NOTES = frozenset("ACDFG")  # names of tones and programming languages: C#
_NEITHER = False, False


def join_words(tokens: Sequence[str]) -> str:
    """Text from words and punctuation marks, with spaces by the rules above."""
    out: list[str] = []
    line = _Line(tokens)
    glue = True  # whether the next token follows without a space
    for place, token in enumerate(tokens):
        left, right = _NEITHER if token[0].isalnum() else line.sides(place)
        if not (glue or left):
            out.append(" ")
        out.append(token)
        glue = right
    return "".join(out)


class _Line:
    """The tokens of a line, and how many quotations each mark has open; `sides` is asked for the tokens in turn."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._open: Counter[str] = Counter()

    def sides(self, place: int) -> tuple[bool, bool]:
        """Whether a token is written without a space on its left and on its right."""
        token = self._tokens[place]
        before = self._tokens[place - 1] if place else ""
        after = self._tokens[place + 1] if place + 1 < len(self._tokens) else ""
        if token in _QUOTES and (opens := self._opens(place, before)) is not None:
            return not opens, opens
        if token[0] in "'’":
            return (len(token) == 1 or before[-1:].isalnum()), False
        if token in _TIGHT or token in _BETWEEN:
            return True, True
        if token == ":" and _HOURS.fullmatch(before) and _MINUTES.fullmatch(after):
            return True, True
        if token == "@":
            return before[-1:].isalnum() and _DOMAIN.fullmatch(after) is not None, True
        if token == "#":
            return before in _NOTES, before not in _NOTES and after[:1].isalnum()
        return _by_character(token, after)

    def _opens(self, place: int, before: str) -> bool | None:
        """Whether a quotation mark opens a quotation, or closes one; None: it is an apostrophe."""
        token = self._tokens[place]
        for opening in _CLOSES.get(token, ""):
            if self._open[opening]:
                self._open[opening] -= 1
                return False
        if token == "'" and before[-1:] in ("s", "S"):  # the dogs' tails
            return None
        opens = self._is_closed(place, *_NEEDS[token]) if token in _NEEDS else not self._closes_the_line(place)
        self._open[token] += opens
        return opens

    def _is_closed(self, place: int, marks: str, closing: str) -> bool:
        """Whether the next of some marks is one of the closing ones."""
        found = (i for i in range(place + 1, len(self._tokens)) if self._tokens[i] in marks)
        following = next(found, None)
        return following is not None and self._tokens[following] in closing

    def _closes_the_line(self, place: int) -> bool:
        """Whether nothing follows a mark that would open a quotation."""
        return place > 0 and place + 1 == len(self._tokens) and self._tokens[place] in "“‘«‹"


def _by_character(token: str, after: str) -> tuple[bool, bool]:
    """The sides of tokens that are the same in any line, but for currency signs, which belong to a number after them."""
    if _TERMINAL.fullmatch(token) or token in _MORE_CLOSING or not token.strip("."):
        return True, False
    category = unicodedata.category(token) if len(token) == 1 else ""
    if category in ("Pe", "Pf"):
        return True, False
    opens = category in ("Ps", "Pi") or token in _OPENING
    return False, opens or (category == "Sc" and after[:1].isdigit())
