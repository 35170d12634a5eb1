"""Stems of English words.

Porter 1980, "An algorithm for suffix stripping" (Program 14.3), with the default changes of nltk's PorterStemmer, so that the
stems are the same as in nltk: a few irregular words; `ies` and `ied` of words of four letters become `ie`;
`y` becomes `i` after any consonant except the first letter; `bli`, `fulli` and `logi` are suffixes of step 2, where `alli`
is applied first; a two-letter word of vowel and consonant satisfies the condition `*o` of the paper.
Departures from nltk: words must be in lower case; every character except a, e, i, o, u and some y is a consonant, digits too.
"""

from __future__ import annotations

from functools import lru_cache

_IRREGULAR = {
    "skies": "sky",
    "sky": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "news": "news",
    "innings": "inning",
    "inning": "inning",
    "outings": "outing",
    "outing": "outing",
    "cannings": "canning",
    "canning": "canning",
    "howe": "howe",
    "proceed": "proceed",
    "exceed": "exceed",
    "succeed": "succeed",
}

# Suffixes and their replacements after a stem of measure 1 or more. The longest matching suffix is used.
_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "fulli": "ful",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
# Dropped after a stem of measure 2 or more, `ion` only after s or t.
_DROPPED = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize"
_STEP_4 = frozenset(_DROPPED.split())
_LONGEST = 7  # of all suffixes


@lru_cache(maxsize=1 << 17)
def stem(word: str) -> str:
    """The stem of `word`, which must be in lower case. Words of one or two letters are unchanged."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _step_1a(word)
    word = _step_1b(word)
    if len(word) > 2 and word[-1] == "y" and _shape(word[:-1])[-1] == "c":
        word = word[:-1] + "i"
    word = _step_2(word)
    word = _step_3(word)
    word = _step_4(word)
    return _step_5(word)


def _shape(word: str) -> str:
    """`word` with a c for every consonant and a v for every vowel; y is a vowel after a consonant."""
    shape = []
    last = "v"
    for letter in word:
        last = "v" if letter in "aeiou" or (letter == "y" and last == "c") else "c"
        shape.append(last)
    return "".join(shape)


def _measure(word: str) -> int:
    """The number of times that vowels are followed by consonants: m of the paper."""
    return _shape(word).count("vc")


def _ends_short(word: str) -> bool:
    """Whether `word` ends in consonant, vowel, consonant other than w, x, y; or is a vowel and a consonant."""
    shape = _shape(word)
    return shape == "vc" or (shape.endswith("cvc") and word[-1] not in "wxy")


def _suffix(word: str, suffixes: dict[str, str] | frozenset[str]) -> str:
    """The longest of `suffixes` that `word` ends with, or an empty string."""
    for length in range(min(_LONGEST, len(word)), 1, -1):
        if word[-length:] in suffixes:
            return word[-length:]
    return ""


def _step_1a(word: str) -> str:
    """Plurals."""
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word[-1] == "s" and not word.endswith("ss") else word


def _step_1b(word: str) -> str:
    """Past tense and participles."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    rest = word.removesuffix("ed") if word.endswith("ed") else word.removesuffix("ing")
    shape = _shape(rest)
    if rest == word or "v" not in shape:
        return word
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if len(rest) > 1 and rest[-1] == rest[-2] and shape[-1] == "c":
        return rest if rest[-1] in "lsz" else rest[:-1]
    return rest + "e" if shape.count("vc") == 1 and _ends_short(rest) else rest


def _step_2(word: str) -> str:
    suffix = _suffix(word, _STEP_2)
    rest = word[: len(word) - len(suffix)]
    # `geo` and `theo` are stems: the l of `logi` counts as theirs
    if not suffix or not _measure(rest + "l" if suffix == "logi" else rest):
        return word
    word = rest + _STEP_2[suffix]
    return _step_2(word) if suffix == "alli" else word


def _step_3(word: str) -> str:
    suffix = _suffix(word, _STEP_3)
    rest = word[: len(word) - len(suffix)]
    return rest + _STEP_3[suffix] if suffix and _measure(rest) else word


def _step_4(word: str) -> str:
    suffix = _suffix(word, _STEP_4)
    rest = word[: len(word) - len(suffix)]
    if not suffix or _measure(rest) < 2 or (suffix == "ion" and rest[-1] not in "st"):
        return word
    return rest


def _step_5(word: str) -> str:
    """A final e, and the second of a final ll."""
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
