"""The tokenizer "13a" of BLEU evaluations, over whole blocks of lines.

Source: the script mteval-v13a.pl of the NIST and WMT evaluations, in the reading of sacrebleu, whose output this equals
character for character.
Departure: the script's rules are substitutions one after another. Each of them looks one character to either side, so
that bytes.replace and a few patterns without groups do the same to a whole block of UTF-8 at once, about ten times as
fast. Only a run of periods and commas before a digit (`..5`) depends on the order; lines with one take the slow road.
"""

from __future__ import annotations

import re

# ASCII punctuation other than ' , - . stands alone always.
_ALWAYS = [bytes([c]) for c in range(33, 127) if not chr(c).isalnum() and chr(c) not in "',-."]

# Two bytes that UTF-8 never uses stand for the period and the comma inside a number.
_POINT, _COMMA = b"\xf8", b"\xf9"
_NUMBER_POINT = re.compile(rb"\.(?<=[0-9]\.)(?=[0-9])")
_NUMBER_COMMA = re.compile(rb",(?<=[0-9],)(?=[0-9])")
_NUMBER_DASH = re.compile(rb"-(?<=[0-9]-)")

_RUN_BEFORE_DIGIT = re.compile(rb"[.,][.,][0-9]")
_NOT_AFTER_DIGIT = re.compile(rb"([^0-9])([.,])")
_NOT_BEFORE_DIGIT = re.compile(rb"([.,])([^0-9])")

# What str.split takes for white space and bytes.split does not. The lookbehinds come second, so that the search can
# skip ahead to the first byte.
_OTHER_SPACE = re.compile(
    rb"[\x1c-\x1f\xc2\xe1-\xe3](?:(?<=[\x1c-\x1f])|(?<=\xc2)[\x85\xa0]|(?<=\xe1)\x9a\x80"
    rb"|(?<=\xe2)(?:\x80[\x80-\x8a\xa8\xa9\xaf]|\x81\x9f)|(?<=\xe3)\x80\x80)"
)

_OTHER_SPACE_BYTES = (b"\x1c", b"\x1d", b"\x1e", b"\x1f", b"\xc2", b"\xe1", b"\xe2", b"\xe3")


def tokenize_13a(text: str) -> str:
    """The tokens of one segment, separated by single spaces."""
    return tokenize_13a_block([text])[0]


def tokenize_13a_block(lines: list[str]) -> list[str]:
    """The tokens of each line, separated by single spaces."""
    separated = separate_13a(lines).split(b"\n")[: len(lines)]
    return [b" ".join(line.split()).decode("utf-8", "surrogatepass") for line in separated]


def separate_spaces(lines: list[str]) -> bytes:
    """`lines` as UTF-8, a newline after each and nowhere else; what str.split splits at, bytes.split does here too."""
    text = "\n".join(lines)
    if text.count("\n") != len(lines) - 1:
        text = "\n".join(line.replace("\n", " ") for line in lines)
    data = text.encode("utf-8", "surrogatepass") + b"\n"
    # searching for a byte is many times as fast as for a pattern, and most blocks have few of these
    return _OTHER_SPACE.sub(b" ", data) if any(byte in data for byte in _OTHER_SPACE_BYTES) else data


def separate_13a(lines: list[str]) -> bytes:
    """As `separate_spaces`, with white space around every token of 13a."""
    if any("\n" in line for line in lines):  # the script joins divided words; no line of a file has one
        lines = [line.replace("<skipped>", "").replace("-\n", "") for line in lines]
    return _separate(separate_spaces(lines))


def _separate(data: bytes) -> bytes:
    """`data`, in which each line ends with a newline, with white space around every token; the lines stay lines."""
    data = data.replace(b"<skipped>", b"")
    if b"&" in data:
        for entity, character in ((b"&quot;", b'"'), (b"&amp;", b"&"), (b"&lt;", b"<"), (b"&gt;", b">")):
            data = data.replace(entity, character)
    for character in _ALWAYS:
        data = data.replace(character, b" " + character + b" ")
    return _NUMBER_DASH.sub(b" - ", _separate_points(data))


def _separate_points(data: bytes) -> bytes:
    """White space around periods and commas that do not stand within a number."""
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
    """As `_separate_points`, where no run of periods and commas stands before a digit."""
    data = _NUMBER_POINT.sub(_POINT, data)
    data = _NUMBER_COMMA.sub(_COMMA, data)
    return data.replace(b".", b" . ").replace(b",", b" , ").replace(_POINT, b".").replace(_COMMA, b",")
