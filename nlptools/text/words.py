"""Words and punctuation: a tokenizer for text with spaces between words, and its inverse.

The rules follow Moses' tokenizer for English (Koehn et al. 2007): punctuation marks and symbols are separate tokens; hyphens
stay inside words; a comma or period between digits stays; contractions are split before the apostrophe (`don 't`, not
`do n't` as in the Penn Treebank); a period stays with an abbreviation, with a word that has periods inside (`U.S.`), and with
a word before a lower-case word.
Departures: nothing is escaped; the curly apostrophe is an apostrophe; combining marks belong to their word.

No word ends inside a grapheme cluster: emoji of several characters, flags and letters with marks stay whole. The inverse is in
`word_joining`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
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

# Grapheme clusters (Unicode Standard Annex 29). What belongs to the character before it, with combining marks: joiners, vowel
# signs of Thai and Lao, sound marks of Japanese, skin tones, tags, variation selectors; what belongs to the one after it.
_TONE = r"\U0001f3fb-\U0001f3ff"
_EXTENDING = rf"\u0e33\u0eb3\u200c\u200d\uff9e\uff9f{_TONE}\U000e0020-\U000e007f\U000e0100-\U000e01ef"
_PREPENDED = (
    r"\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3\U0001193f\U00011941"
    r"\U00011a84-\U00011a89\U00011d46"
)
_AT_PREPENDED = re.compile(rf"[{_PREPENDED}]\Z")
# The blocks of pictures, which a joiner joins.
_PICTURE = (
    r"[\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d"
    r"\u3297\u3299\U0001f000-\U0001f1e5\U0001f200-\U0001faff\U0001fc00-\U0001fffd]"
)
_FLAG = r"[\U0001f1e6-\U0001f1ff]{2}"


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    """One token: a word with its inner punctuation, a sequence of periods, or a single grapheme cluster."""
    control = r"\x00-\x1f\x7f-\x9f"
    other = character_class("P") + character_class("S") + control
    extending = f"[{character_class('M')}{_EXTENDING}]*"
    letter = r"[^\W\d_]"
    apostrophe = rf"(?<={letter})['’](?={letter})|(?<=\d)['’](?=s(?![^\s{other}]))"
    word = rf"[A-Za-z0-9-]+|[^\s{other}]+|-|(?<=\d),(?=\d)|(?<!\.)\.(?!\.)"
    word += rf"|[{_TONE}]|(?<=\u200d){_PICTURE}|(?<=[{_PREPENDED}])(?:{_FLAG}|[^\s{control}])"
    cluster = rf"(?:{_FLAG}|\S){extending}(?:(?<=\u200d){_PICTURE}{extending})*"
    return re.compile(rf"(?:{apostrophe})?(?:{word})+|\.\.+{extending}|{cluster}")


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
    return ("." in stem and any(c.isalpha() for c in stem)) or _AT_PREPENDED.search(stem) is not None


def spans(tokens: Iterable[str], text: str) -> list[tuple[int, int]]:
    """The positions of `tokens` in `text`, in order, as (start, end) in characters. Raises ValueError."""
    out = []
    end = 0
    for token in tokens:
        start = text.index(token, end)
        end = start + len(token)
        out.append((start, end))
    return out
