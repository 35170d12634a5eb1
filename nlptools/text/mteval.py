"""The tokenizers of machine-translation evaluation: 13a, intl and zh.

`13a` is mteval-v13a.pl and `intl` is mteval-v14.pl (NIST), as implemented by sacrebleu (Post 2018, arXiv:1804.08771). The
result is the same as in sacrebleu, byte for byte, including its quirks; for `intl`, this holds for the characters of the Unicode
version of the running Python. There is no exact inverse: decoding joins the tokens with spaces.
"""

from __future__ import annotations

import re
from functools import lru_cache

from nlptools.text.character_classes import character_class
from nlptools.text.mteval_blocks import tokenize_13a

_LONG = 10_000  # characters; the patterns take 1.5 to 5 s per million
_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))  # in this order; &apos; is not replaced


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
        from nlptools.text.bleu_blocks import separate_intl  # imports NumPy, which short lines do not need

        return separate_intl([text]).decode("utf-8", "surrogatepass").split()
    for pattern, replacement in _intl():
        text = pattern.sub(replacement, text)
    return text.split()


def split_zh(text: str) -> list[str]:
    """The tokens of sacrebleu's `zh`: Chinese characters, and words and punctuation of other text."""
    from nlptools.text.bleu_blocks import separate_zh  # imports NumPy, which the other tokenizers do not need

    return separate_zh([text]).decode("utf-8", "surrogatepass").split()


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
