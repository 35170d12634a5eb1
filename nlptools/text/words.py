"""Words and punctuation: a tokenizer for text with spaces between words, and its inverse.

The rules follow Moses' tokenizer for English (Koehn et al. 2007): punctuation marks and symbols are separate tokens; hyphens
stay inside words; a comma or period between digits stays; contractions are split before the apostrophe (`don 't`, not
`do n't` as in the Penn Treebank); a period stays with an abbreviation, with a word that has periods inside (`U.S.`), and with
a word before a lower-case word.
Departures: nothing is escaped; the curly apostrophe is an apostrophe; combining marks belong to their word.

The inverse (`join_words`) restores everything except spacing: it writes no space before closing punctuation, after opening
punctuation and currency signs, around slash, underscore and at-sign, inside straight quotes (which open and close in turn),
and before a token that begins with an apostrophe; it writes one space everywhere else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from nlptools.text.character_classes import character_class

# A period after one of these does not end a sentence.
_ABBREVIATED = (
    "Mr Mrs Ms Dr Prof Messrs Mme Mlle Sr Jr St Rev Hon Fr Gen Col Maj Capt Cpt Lt Sgt Cpl Adm Cmdr Sen Rep Gov Pres "
    "Supt Det Insp Amb Asst Assoc Ave Blvd Rd Hwy Ft Mt Bros Inc Ltd Co Corp Dept Univ Jan Feb Apr Jun Jul Aug Sep "
    "Sept Oct Nov Dec Mon Tue Tues Wed Thu Thurs Fri vs al cf ca viz approx resp incl esp ie eg rev"
)
_ABBREVIATIONS = frozenset(_ABBREVIATED.split())
# ... and after one of these if a number follows.
_NUMBERED = "No Nos no nos Art Arts art p pp P Vol vol Vols Ch ch Sec sec Fig fig Figs figs Eq eq Eqs Tab Par par"
_BEFORE_NUMBERS = frozenset(_NUMBERED.split())

_CLOSING = frozenset(".,;:!?%)]}…»”›。，、！？；：）")
_OPENING = frozenset("([{«“‘„‹¿¡（")
_BETWEEN = frozenset("/_@\\")


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    """One token: a word with its inner punctuation, a sequence of periods, or a single character."""
    other = character_class("P") + character_class("S") + r"\x00-\x1f\x7f-\x9f"
    letter = r"[^\W\d_]"
    apostrophe = rf"(?<={letter})['’](?={letter})|(?<=\d)['’](?=s(?![^\s{other}]))"
    word = rf"[A-Za-z0-9-]+|[^\s{other}]+|-|(?<=\d),(?=\d)|(?<!\.)\.(?!\.)"
    return re.compile(rf"(?:{apostrophe})?(?:{word})+|\.\.+|\S")


@lru_cache(maxsize=1 << 16)
def _split_chunk(chunk: str) -> list[str]:
    """The tokens of the text between two spaces; cached, since most of a text consists of a few thousand chunks."""
    return _pattern().findall(chunk)


# white space that is not ASCII
_WIDE_SPACES = "\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_WIDE_SPACES += "\u2028\u2029\u202f\u205f\u3000"


def split_ascii(text: str) -> list[str]:
    """The words of `text` between white space of ASCII, as programs that read bytes split it."""
    if any(space in text for space in _WIDE_SPACES):
        return re.findall(r"[^\t-\r ]+", text)
    return text.split()


def split_words(text: str) -> list[str]:
    """The words and punctuation marks of `text`: its substrings in order, without white space."""
    tokens: list[str] = []
    for chunk in text.split():
        tokens += _split_chunk(chunk) if len(chunk) < 64 else _pattern().findall(chunk)
    if "." not in text:
        return tokens
    out: list[str] = []
    for i, token in enumerate(tokens):
        if token[-1] == "." and len(token) > 1 and token[-2] != ".":
            following = tokens[i + 1] if i + 1 < len(tokens) else ""
            if not _keeps_period(token[:-1], following):
                out += (token[:-1], ".")
                continue
        out.append(token)
    return out


def _keeps_period(stem: str, following: str) -> bool:
    """Whether the period after `stem` is part of the word."""
    if stem in _ABBREVIATIONS or (len(stem) == 1 and stem.isupper()) or following[:1].islower():
        return True
    if stem in _BEFORE_NUMBERS and following[:1].isdigit():
        return True
    return "." in stem and any(c.isalpha() for c in stem)


def join_words(tokens: Sequence[str]) -> str:
    """Text from words and punctuation marks, with spaces by the rules above."""
    out: list[str] = []
    open_quotes: set[str] = set()
    glue = True  # whether the next token follows without a space
    for i, token in enumerate(tokens):
        before = out[-1] if out else ""
        after = tokens[i + 1] if i + 1 < len(tokens) else ""
        left, right = _sides(token, before, after, open_quotes)
        if not (glue or left):
            out.append(" ")
        out.append(token)
        glue = right
    return "".join(out)


def _sides(token: str, before: str, after: str, open_quotes: set[str]) -> tuple[bool, bool]:
    """Whether `token` is written without a space on its left and on its right."""
    if token in ('"', "'"):
        if token in open_quotes:
            open_quotes.discard(token)
            return True, False
        if token == "'" and before[-1:] in ("s", "S"):  # the dogs' tails
            return True, False
        open_quotes.add(token)
        return False, True
    if token[0] in "'’":
        return (len(token) == 1 or before[-1:].isalnum()), False
    if token in _CLOSING or not token.strip("."):
        return True, False
    if token in _OPENING:
        return False, True
    if token in _BETWEEN:
        return True, True
    currency = len(token) == 1 and after[:1].isdigit() and unicodedata.category(token) == "Sc"
    return False, currency


def spans(tokens: Iterable[str], text: str) -> list[tuple[int, int]]:
    """The positions of `tokens` in `text`, in order, as (start, end) in characters. Raises ValueError."""
    out = []
    end = 0
    for token in tokens:
        start = text.index(token, end)
        end = start + len(token)
        out.append((start, end))
    return out
