"""The tokenizers of machine-translation evaluation: 13a, intl and zh.

`13a` is mteval-v13a.pl and `intl` is mteval-v14.pl (NIST), as implemented by sacrebleu (Post 2018, arXiv:1804.08771). The
result is the same as in sacrebleu, byte for byte, including its quirks; for `intl`, this holds for the characters of the Unicode
version of the running Python. There is no exact inverse: decoding joins the tokens with spaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from nlptools.text.character_classes import character_class
from nlptools.text.mteval_blocks import separate_13a

_LONG = 10_000  # characters; the patterns take 1.5 to 5 s per million
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))  # in this order; &apos; is not replaced


def _split(lines: Sequence[str], separate: Callable[[list[str]], bytes]) -> list[list[str]]:
    """The tokens of each line; `separate` puts white space around the tokens of a block of lines."""
    separated = separate(list(lines)).decode("utf-8", "surrogatepass").split("\n")
    return [line.split() for line in separated[: len(lines)]]


def split_13a(lines: Sequence[str]) -> list[list[str]]:
    """The tokens of mteval-v13a of each line."""
    return _split(lines, separate_13a)


@lru_cache(maxsize=1)
def _intl() -> tuple[tuple[re.Pattern[str], str], ...]:
    punctuation, symbol, number = (character_class(category) for category in "PSN")
    return (
        (re.compile(f"([^{number}])([{punctuation}])"), r"\1 \2 "),
        (re.compile(f"([{punctuation}])([^{number}])"), r" \1 \2"),
        (re.compile(f"([{symbol}])"), r" \1 "),
    )


def split_intl(lines: Sequence[str]) -> list[list[str]]:
    """The tokens of mteval-v14, international, of each line. A year and the final period stay together: no padding."""
    if sum(map(len, lines)) > _LONG and not any("\n" in line for line in lines):
        from nlptools.text.bleu_blocks import separate_intl  # imports NumPy, which a few short lines do not need

        return _split(lines, separate_intl)
    out = []
    for text in lines:
        for pattern, replacement in _intl():
            text = pattern.sub(replacement, text)
        out.append(text.split())
    return out


def split_zh(lines: Sequence[str]) -> list[list[str]]:
    """The tokens of sacrebleu's `zh` of each line: Chinese characters, and words and punctuation of other text."""
    from nlptools.text.bleu_blocks import separate_zh  # imports NumPy, which the other tokenizers do not need

    return _split(lines, separate_zh)


def spans_13a(tokens: list[str], text: str) -> list[tuple[int, int]]:
    """The positions of the tokens of 13a in `text`, as (start, end) in characters.

    A token from an entity such as `&amp;` covers the whole entity.
    """
    rewritten, places = _rewrite(text)
    out = []
    end = 0
    for token in tokens:
        start = rewritten.index(token, end)
        end = start + len(token)
        out.append((places[start][0], places[end - 1][1]))
    return out


def _rewrite(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text after the replacements of 13a, and for each of its characters the corresponding span of `text`."""
    places = [(i, i + 1) for i in range(len(text))]
    for old, new in (("<skipped>", ""), ("-\n", ""), ("\n", " "), *_ENTITIES):
        parts: list[str] = []
        moved: list[tuple[int, int]] = []
        start = 0
        while (at := text.find(old, start)) >= 0:
            parts += (text[start:at], new)
            moved += places[start:at]
            if new:
                moved.append((places[at][0], places[at + len(old) - 1][1]))
            start = at + len(old)
        text = "".join([*parts, text[start:]])
        places = moved + places[start:]
    return text, places
