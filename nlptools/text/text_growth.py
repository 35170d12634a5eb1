"""Bounds for the growth of a text by the normalizers and decoders of a tokenizer.json.

Two consecutive replacements of `a` by ten letters make a hundred of one letter, and nine exhaust any memory. The bound of a
chain is the largest product of replacements that can each find characters of the previous one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from nlptools.errors import BundleError, display
from nlptools.json_types import Json
from nlptools.text.builtin import without_surrogates
from nlptools.text.guarded_calls import guarded
from nlptools.text.packages import Normalizer

MOST = 2000  # times as long; the bound of published tokenizers reaches some hundreds, 1,188 for ALBERT
_MOST_STEPS = 1000
MOST_CHARACTERS = 1 << 28  # that normalizers may make of a batch
# Longest decomposition, or case, of one character; BERT's also puts spaces around Chinese characters.
_FACTORS = {"NFD": 4, "NFC": 3, "NFKD": 18, "NFKC": 18, "Lowercase": 2, "BertNormalizer": 12, "ByteLevel": 4}


class _Step(NamedTuple):
    """A replacement: the growth of the replaced text, the characters that it needs and writes; None: any."""

    factor: float
    reads: frozenset[str] | None = None
    writes: frozenset[str] | None = None


def check_growth(tokenizer: Mapping[str, Json], path: str) -> None:
    """Raises BundleError for the content of a tokenizer.json that can make a text more than 2,000 times as long."""
    for key, name in (("normalizer", "normalizers"), ("decoder", "decoders")):
        found = growth(tokenizer.get(key))
        if found > MOST:
            raise BundleError(
                f"{display(path)}: its {name} can make a text {found:,.0f} times as long, expected at most {MOST:,}"
            )


def check_normalized(normalizer: Normalizer | None, texts: Sequence[str], growth: float, path: str) -> None:
    """Normalizes texts piece by piece where all together could become very long. Raises BundleError if they do.

    Args:
        normalizer: of the tokenizers package, which makes a text at most `growth` times as long.
    """
    size = sum(map(len, texts))
    if normalizer is None or size * growth <= MOST_CHARACTERS:
        return
    most = max(MOST_CHARACTERS, 2 * size)
    step = max(1, int(MOST_CHARACTERS / growth))
    pieces = (text[i : i + step] for text in texts for i in range(0, len(text), step))
    length = 0
    for piece in map(without_surrogates, pieces):
        length += guarded(len(piece), partial(_length, normalizer, piece), path)
        if length > most:
            raise BundleError(f"{display(path)}: its normalizers make a text longer than {most:,} characters")


def _length(normalizer: Normalizer, text: str) -> int:
    return len(normalizer.normalize_str(text))


def growth(part: Json) -> float:
    """How many times as long a text can become by a normalizer or a decoder, the object of a tokenizer.json; infinite for more
    than 1,000 of them in a row.
    """
    reached: list[tuple[_Step, float]] = []
    for step in _steps(part):
        if len(reached) == _MOST_STEPS:
            return float("inf")
        before = [each for earlier, each in reached if _meet(earlier.writes, step.reads)]
        reached.append((step, step.factor * max(before, default=1.0)))
    return max((each for _, each in reached), default=1.0)


def _meet(written: frozenset[str] | None, read: frozenset[str] | None) -> bool:
    return written is None or read is None or not written.isdisjoint(read)


def _steps(part: Json) -> Iterator[_Step]:
    """The steps of a part that can make a text longer, in order. The package refuses what is not a part."""
    if not isinstance(part, dict):
        return
    kind = part.get("type")
    if kind == "Sequence":
        for name in ("normalizers", "decoders"):
            parts = part.get(name)
            for each in parts if isinstance(parts, list) else ():
                yield from _steps(each)
    elif kind == "Replace":
        yield _replacement(part.get("pattern"), str(part.get("content") or ""))
    elif kind == "Prepend":
        yield _Step(1 + len(str(part.get("prepend") or "")))
    elif kind == "Precompiled":
        yield _Step(_longest_text(part.get("precompiled_charsmap")))
    elif kind in _FACTORS:
        yield _Step(_FACTORS[kind])


def _replacement(pattern: Json, content: str) -> _Step:
    text = pattern.get("String") if isinstance(pattern, dict) else None
    if isinstance(text, str) and text:
        return _Step(max(1.0, len(content) / len(text)), frozenset(text), frozenset(content))
    return _Step(1.0 + len(content), None, frozenset(content))  # an expression, which may find nothing at every place


def _longest_text(charsmap: Json) -> float:
    """The length in bytes of the longest text that a compiled character map of SentencePiece writes."""
    try:
        data = base64.b64decode(charsmap if isinstance(charsmap, str) else "", validate=True)
    except (binascii.Error, ValueError):
        return 1.0
    texts = data[4 + int.from_bytes(data[:4], "little") :]
    return float(max(map(len, texts.split(b"\0"))))
