"""The tokenizer "13a" of BLEU evaluations, over whole blocks of lines.

Source: the script mteval-v13a.pl of the NIST and WMT evaluations as implemented by sacrebleu; the output is identical.
Departure: the rules of the script are consecutive substitutions. Each of them depends on at most one character to either
side, so that bytes.replace and a few patterns without groups have the same effect on a whole block of UTF-8, about ten times
as fast. The order of the rules matters only for periods and commas in sequence before a digit (`..5`); lines with such a
sequence are processed with the original substitutions.
"""

from __future__ import annotations

import re

# ASCII punctuation other than ' , - . is always a separate token.
_ALWAYS = [bytes([c]) for c in range(33, 127) if not chr(c).isalnum() and chr(c) not in "',-."]

# Two bytes that never occur in UTF-8 represent the period and the comma inside a number.
_POINT, _COMMA = b"\xf8", b"\xf9"
_NUMBER_POINT = re.compile(rb"\.(?<=[0-9]\.)(?=[0-9])")
_NUMBER_COMMA = re.compile(rb",(?<=[0-9],)(?=[0-9])")
_NUMBER_DASH = re.compile(rb"-(?<=[0-9]-)")

_RUN_BEFORE_DIGIT = re.compile(rb"[.,][.,][0-9]")
_NOT_AFTER_DIGIT = re.compile(rb"([^0-9])([.,])")
_NOT_BEFORE_DIGIT = re.compile(rb"([.,])([^0-9])")

# White space for str.split but not for bytes.split. The lookbehinds come second, so that the search can skip to the first
# byte.
_OTHER_SPACE = re.compile(
    rb"[\x1c-\x1f\xc2\xe1-\xe3](?:(?<=[\x1c-\x1f])|(?<=\xc2)[\x85\xa0]|(?<=\xe1)\x9a\x80"
    rb"|(?<=\xe2)(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|(?<=\xe3)\x80\x80)"
)

_OTHER_SPACE_BYTES = (b"\x1c", b"\x1d", b"\x1e", b"\x1f", b"\xc2", b"\xe1", b"\xe2", b"\xe3")


def separate_spaces(lines: list[str]) -> bytes:
    """`lines` as UTF-8, with a newline after each and nowhere else, in which bytes.split splits wherever str.split does."""
    text = "\n".join(lines)
    if text.count("\n") != len(lines) - 1:
        text = "\n".join(line.replace("\n", " ") for line in lines)
    data = text.encode("utf-8", "surrogatepass") + b"\n"
    # a search for a byte is many times faster than for a pattern, and most blocks contain few of these bytes
    return _OTHER_SPACE.sub(b" ", data) if any(byte in data for byte in _OTHER_SPACE_BYTES) else data


def separate_13a(lines: list[str]) -> bytes:
    """Like `separate_spaces`, with white space around every token of 13a."""
    if any(
        "\n" in line for line in lines
    ):  # the script joins words divided at a line end, which lines of files never contain
        lines = [line.replace("<skipped>", "").replace("-\n", "") for line in lines]
    return _separate(separate_spaces(lines))


def _separate(data: bytes) -> bytes:
    """`data`, lines that each end with a newline, with white space around every token; line ends are kept."""
    data = data.replace(b"<skipped>", b"")
    if b"&" in data:
        for entity, character in ((b"&quot;", b'"'), (b"&amp;", b"&"), (b"&lt;", b"<"), (b"&gt;", b">")):
            data = data.replace(entity, character)
    for character in _ALWAYS:
        data = data.replace(character, b" " + character + b" ")
    return _NUMBER_DASH.sub(b" - ", _separate_points(data))


def _separate_points(data: bytes) -> bytes:
    """Add white space around periods and commas, except inside numbers."""
    parts = []
    done = 0
    for run in _RUN_BEFORE_DIGIT.finditer(data):
        if run.start() < done:
            continue
        start, end = data.rfind(b"\n", 0, run.start()) + 1, data.find(b"\n", run.end())
        parts.append(_separate_single_points(data[done:start]))
        line = _NOT_AFTER_DIGIT.sub(rb"\1 \2 ", b"\n" + data[start:end] + b"\n")
        parts.append(_NOT_BEFORE_DIGIT.sub(rb" \1 \2", line)[1:-1])
        done = end
    parts.append(_separate_single_points(data[done:]))
    return b"".join(parts)


def _separate_single_points(data: bytes) -> bytes:
    """Like `_separate_points`, for data without two or more periods and commas in sequence before a digit."""
    data = _NUMBER_POINT.sub(_POINT, data)
    data = _NUMBER_COMMA.sub(_COMMA, data)
    return data.replace(b".", b" . ").replace(b",", b" , ").replace(_POINT, b".").replace(_COMMA, b",")
