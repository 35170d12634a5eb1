"""The tokens of translation edit rate: words, optionally after the normalization of tercom.

Source: Normalizer.java of tercom (Snover et al. 2006) as implemented by sacrebleu. The tokens equal sacrebleu's,
including its quirks: `'s` is split off only before white space, and the characters from U+3200 to U+3F22 (circled and CJK)
are treated as one range of single-character tokens.
Departures: each substitution is applied to a whole block of lines at once. The rules that should split hiragana and
katakana from their neighbors are omitted: they are anchored at the start of the text, where the padding is, and therefore
never apply.
"""

from __future__ import annotations

import re

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))  # in this order
_ALONE = re.compile(r"([{-~\[-` -&(-+:-@/])")  # ASCII punctuation other than ' , - .
_NOT_AFTER_DIGIT = re.compile(r"([^0-9])([.,])")
_NOT_BEFORE_DIGIT = re.compile(r"([.,])([^0-9])")
_NUMBER_DASH = re.compile(r"([0-9])(-)")

_PUNCTUATION = re.compile(r"[.,?:;!\"()]")
_ASIAN_PUNCTUATION = (
    "\u3001\u3002\u3008-\u3011\u3014-\u301f\uff61-\uff65\u30fb\uff0e\uff0c\uff1f\uff1a\uff1b\uff01\uff02\uff08\uff09"
)
_ASIAN_PUNCTUATION_CLASS = re.compile(f"[{_ASIAN_PUNCTUATION}]")
_ASIAN_ALONE = re.compile(
    f"([\u4e00-\u9fff\u3400-\u4dbf\u31c0-\u31ef\u2e80-\u2eff\u3300-\u33ff\uf900-\ufaff\ufe30-\ufe4f\u3200-\u3f22"
    f"{_ASIAN_PUNCTUATION}])"
)
_SEPARATOR = " \n "  # a line is padded with a space on either side


def split_ter(
    lines: list[str],
    *,
    normalized: bool = False,
    no_punct: bool = False,
    asian_support: bool = False,
    case_sensitive: bool = False,
) -> list[list[str]]:
    """The tokens of each line.

    Args:
        normalized: undo XML escapes and split off Western punctuation.
        no_punct: drop punctuation.
        asian_support: with `normalized`, let each Chinese and Japanese character stand alone; with `no_punct`, drop
            full-width punctuation too.
        case_sensitive: do not lower-case.
    """
    if not case_sensitive:
        lines = [line.lower() for line in lines]
    if not normalized and not no_punct:
        return [line.split() for line in lines]
    lines = [line.rstrip() for line in lines]
    if any("\n" in line for line in lines):
        lines = [
            line.replace("\n-", "").replace("\n", " ") if normalized else line.replace("\n", " ") for line in lines
        ]
    text = f" {_SEPARATOR.join(lines)} "
    if normalized:
        text = _normalize(text)
        if asian_support:
            text = _ASIAN_ALONE.sub(r" \1 ", text)
    if no_punct:
        text = _PUNCTUATION.sub("", text)
        if asian_support:
            text = _ASIAN_PUNCTUATION_CLASS.sub("", text)
    return [line.split() for line in text.split("\n")] if lines else []


def _normalize(text: str) -> str:
    """Apply the rules for all and for Western languages; line ends are kept."""
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    text = _ALONE.sub(r" \1 ", text)
    text = text.replace("'s ", " 's ")
    text = _NOT_AFTER_DIGIT.sub(r"\1 \2 ", text)
    text = _NOT_BEFORE_DIGIT.sub(r" \1 \2", text)
    return _NUMBER_DASH.sub(r"\1 \2 ", text)
