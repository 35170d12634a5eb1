"""Text that is mostly Chinese, Japanese or Korean, and the tokenizers for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

_SAMPLE = 10_000  # characters
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA = re.compile("[\u3041-\u30ff]")
_HANGUL = re.compile("[\uac00-\ud7a3]")


def tokenizer_for(lines: Iterable[str]) -> str | None:
    """The name of the tokenizer for the language of `lines` if their characters are mostly Chinese, Japanese or Korean."""
    text = "".join("".join(islice(lines, 1000)).split())[:_SAMPLE]
    han, kana, hangul = (len(pattern.findall(text)) for pattern in (_HAN, _KANA, _HANGUL))
    if 2 * (han + kana + hangul) <= len(text):
        return None
    if hangul > han + kana:
        return "ko-mecab"
    return "ja-mecab" if 10 * kana > han else "zh"
