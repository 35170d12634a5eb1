"""The tokenizers of machine-translation evaluation: 13a and intl.

`13a` is mteval-v13a.pl and `intl` mteval-v14.pl (NIST), as sacrebleu (Post 2018, arXiv:1804.08771) implements them; the
result is equal to sacrebleu's byte for byte, quirks included. For `intl` that holds for the characters of the Unicode
version of the running Python. They are one-way: going back joins the tokens with spaces.
"""

from __future__ import annotations

import re
from functools import lru_cache

from nlptools.text.character_classes import character_class
from nlptools.text.mteval_blocks import tokenize_13a

_LONG = 10_000  # characters; the patterns take 1.5 to 5 s per million
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))  # in this order; &apos; is left alone


def split_13a(text: str) -> list[str]:
    """The tokens of mteval-v13a."""
    return tokenize_13a(text).split()


@lru_cache(maxsize=1)
def _intl() -> tuple[tuple[re.Pattern[str], str], ...]:
    punctuation, symbol, number = (character_class(category) for category in "PSN")
    return (
        (re.compile(f"([^{number}])([{punctuation}])"), r"\1 \2 "),
        (re.compile(f"([{punctuation}])([^{number}])"), r" \1 \2"),
        (re.compile(f"([{symbol}])"), r" \1 "),
    )


def split_intl(text: str) -> list[str]:
    """The tokens of mteval-v14, international. A year and the final period stay together: no padding."""
    if len(text) > _LONG and "\n" not in text:
        from nlptools.text.bleu_blocks import separate_intl  # loads NumPy, which short lines do not need

        return separate_intl([text]).decode("utf-8", "surrogatepass").split()
    for pattern, replacement in _intl():
        text = pattern.sub(replacement, text)
    return text.split()


def spans_13a(tokens: list[str], text: str) -> list[tuple[int, int]]:
    """Where the tokens of 13a stand in `text`, as (start, end) in characters.

    A token that comes from an entity such as `&amp;` covers all of the entity.
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
    """The text that 13a cuts, and for each of its characters the span of `text` that it stands for."""
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
