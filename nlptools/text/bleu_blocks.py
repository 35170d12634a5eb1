"""The tokenizers of BLEU over whole blocks of lines: 13a, intl, zh, char, none.

Sources: mteval-v14.pl of NIST for `intl` and the script of Shujian Huang (2017) for `zh`, both as implemented by sacrebleu
(Post 2018, W18-6319). The tokens are the same as in sacrebleu, including its quirks; for `intl`, this holds for the characters
of the Unicode version of the running Python.
Departure: the scripts are consecutive substitutions that depend on one character to either side. Here each byte of a block has
a class, and the classes of neighboring bytes determine the token boundaries. The order of the substitutions matters only as a
parity: in a sequence of points before a digit, every second point ends a match of the first substitution, so that `a..5`
becomes `a . .5` but `a...5` becomes `a . . . 5`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from nlptools.text.mteval_blocks import separate_13a, separate_spaces

Bytes = NDArray[np.uint8]
Positions = NDArray[np.int64]

# Classes of characters. A point is a separate token except inside or before a number.
_NUMBER, _POINT, _ALONE, _DASH = 1, 2, 4, 8
_REST = 16  # added for all bytes of a character but the first
_UNKNOWN = 255
_SPACE, _NEWLINE = 0x20, 0x0A

# Ranges of characters that count as Chinese (first, last). The two long entries were intended as U+20000 to U+2A6D6 and
# U+2F800 to U+2FA1D; compared as strings, they match U+2001 to U+2A6D and U+2F81 to U+2FA1 instead.
_CHINESE = (
    ("\u3400", "\u4db5"),
    ("\u4e00", "\u9fbb"),
    ("\uf900", "\ufa2d"),
    ("\ufa30", "\ufa6a"),
    ("\ufa70", "\ufad9"),
    ("\u20000", "\u2a6d6"),
    ("\u2f800", "\u2fa1d"),
    ("\uff00", "\uffef"),
    ("\u2e80", "\u2eff"),
    ("\u3000", "\u303f"),
    ("\u31c0", "\u31ef"),
    ("\u2f00", "\u2fdf"),
    ("\u2ff0", "\u2fff"),
    ("\u3100", "\u312f"),
    ("\u31a0", "\u31bf"),
    ("\ufe10", "\ufe1f"),
    ("\ufe30", "\ufe4f"),
    ("\u2600", "\u27bf"),
    ("\u3200", "\u33ff"),
)


def _class_intl(character: str) -> int:
    return {"N": _NUMBER, "P": _POINT, "S": _ALONE}.get(unicodedata.category(character)[0], 0)


def _class_zh(character: str) -> int:
    if "0" <= character <= "9":
        return _NUMBER
    if character in ".,":
        return _POINT
    if character == "-":
        return _DASH
    if "!" <= character <= "~":
        return 0 if character.isalpha() or character == "'" else _ALONE
    return _ALONE if any(first <= character <= last for first, last in _CHINESE) else 0


class _Classes:
    """The class of each character, computed at its first occurrence."""

    def __init__(self, classify: Callable[[str], int]) -> None:
        self._classify = classify
        self._table = np.full(0x110000, _UNKNOWN, np.uint8)
        self._bytes = np.zeros(256, np.uint8)
        for code in range(128):
            self._bytes[code] = classify(chr(code))
        self._bytes[_NEWLINE] = _NUMBER  # no rule about points applies at the ends of a line

    def of(self, data: Bytes) -> Bytes:
        """The class of each byte of valid UTF-8 that ends with a newline; the later bytes of a character have _REST."""
        classes: Bytes = self._bytes[data]
        starts = np.flatnonzero(data >= 0xC0)
        lead = data[starts]
        for width, lowest, above in ((2, 0xC0, 0xE0), (3, 0xE0, 0xF0), (4, 0xF0, 0x100)):
            at = starts[(lead >= lowest) & (lead < above)]
            if not len(at):
                continue
            codes = data[at].astype(np.int32) & (0x7F >> width)
            for k in range(1, width):
                codes = codes << 6 | data[at + k] & 0x3F
            values = self._look_up(codes)
            at, values = at[values > 0], values[values > 0]
            classes[at] = values
            for k in range(1, width):
                classes[at + k] = values | _REST
        return classes

    def _look_up(self, codes: NDArray[np.int32]) -> Bytes:
        values: Bytes = self._table[codes]
        unknown = codes[values == _UNKNOWN]
        if len(unknown):
            for code in set(unknown.tolist()):
                self._table[code] = self._classify(chr(code))
            values = self._table[codes]
        return values


@cache
def _classes(classify: Callable[[str], int]) -> _Classes:
    """The table of one tokenizer, created on first use."""
    return _Classes(classify)


def separate_intl(lines: list[str]) -> bytes:
    """Like `separate_spaces`, with white space around every token of mteval-v14, international."""
    return _separate(separate_spaces(lines), _classes(_class_intl))


def separate_zh(lines: list[str]) -> bytes:
    """Like `separate_spaces`, with white space around every Chinese character and every token of other text."""
    return _separate(separate_spaces([line.strip() for line in lines]), _classes(_class_zh))


def separate_char(lines: list[str]) -> bytes:
    """Like `separate_spaces`, with white space around every character."""
    data = np.frombuffer(separate_spaces(lines), np.uint8)
    return _with_spaces(data, (data & 0xC0) != 0x80)


def _separate(text: bytes, table: _Classes) -> bytes:
    """`text` with a space at every token boundary."""
    data = np.frombuffer(text, np.uint8)
    classes = table.of(data)
    parts = np.zeros(len(data) + 1, np.bool_)  # whether a space goes before the byte

    alone = np.flatnonzero(classes == _ALONE)
    parts[alone] = True
    parts[alone + _widths(data[alone])] = True

    dashes = np.flatnonzero(classes == _DASH)
    dashes = dashes[_isdigit(data[dashes - 1])]  # index -1 is the last byte, a newline
    parts[dashes] = True
    parts[dashes + 1] = True

    points = np.flatnonzero(classes == _POINT)
    if len(points):
        _part_points(points, points + _widths(data[points]), classes, parts)
    return _with_spaces(data, parts[:-1])


def _part_points(starts: Positions, ends: Positions, classes: Bytes, parts: NDArray[np.bool_]) -> None:
    """Mark in `parts` the boundaries between the points at bytes `starts` to `ends` and their neighbors."""
    parts[starts] = True
    opens = np.flatnonzero(np.concatenate(([True], starts[1:] != ends[:-1])))  # the first of each sequence of points
    lengths = np.diff(opens, append=len(starts))
    first, last = starts[opens], ends[opens + lengths - 1]
    before = classes[first - 1] & _NUMBER  # the block ends with a newline, so index -1 is valid
    after = classes[last] & _NUMBER
    parts[first[(lengths == 1) & (before > 0) & (after > 0)]] = False  # 3.5, and a line that is one point
    parts[last[(after == 0) | ((lengths + before) % 2 == 1)]] = True


def _isdigit(data: Bytes) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = (data >= 0x30) & (data <= 0x39)
    return result


def _widths(lead: Bytes) -> Positions:
    """The number of bytes of the characters that begin with the bytes `lead`."""
    return 1 + (lead >= 0xC0).astype(np.int64) + (lead >= 0xE0) + (lead >= 0xF0)


def _with_spaces(data: Bytes, parts: NDArray[np.bool_]) -> bytes:
    """`data` with a space before each byte that `parts` marks."""
    at = np.flatnonzero(parts)
    kept = np.ones(len(data) + len(at), np.bool_)
    kept[at + np.arange(len(at))] = False
    out = np.full(len(kept), _SPACE, np.uint8)
    out[kept] = data
    return out.tobytes()


SEPARATE: dict[str, Callable[[list[str]], bytes]] = {
    "13a": separate_13a,
    "intl": separate_intl,
    "zh": separate_zh,
    "char": separate_char,
    "none": separate_spaces,
}
