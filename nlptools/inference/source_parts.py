"""Splits sources that are too long for an encoder-decoder into parts."""

from __future__ import annotations

from collections.abc import Sequence

from nlptools.text.sentences import split_sentences
from nlptools.text.tokenizer import Tokenizer

LIMIT = 1024  # tokens of a source for a model without a limit; time and memory grow with the square of the length


def split(text: str, tokenizer: Tokenizer, most: int) -> list[list[int]]:
    """The tokens of a text in parts of at most `most`: whole sentences where they fit, else words, else tokens."""
    groups: list[tuple[list[str], list[list[int]]]] = []  # texts, and the tokens of each
    room = 0
    for piece, ids in _pieces(split_sentences(text), tokenizer, most):
        if room <= len(ids):  # the space between them counts
            groups.append(([], []))
            room = most
        room -= len(ids) + bool(groups[-1][0])
        groups[-1][0].append(piece)
        groups[-1][1].append(ids)
    out: list[list[int]] = []
    for texts, rows in groups:
        joined = tokenizer.encode(" ".join(texts)) if len(texts) > 1 else rows[0]
        out += [joined] if len(joined) <= most else rows
    return out


def _pieces(texts: Sequence[str], tokenizer: Tokenizer, most: int) -> list[tuple[str, list[int]]]:
    """Each text and its tokens; one with more than `most` is halved at the space nearest to its middle, until it fits."""
    out: list[tuple[str, list[int]]] = []
    waiting = list(reversed(texts))
    while waiting:
        text = waiting.pop()
        ids = tokenizer.encode(text)
        middle = len(text) // 2
        spaces = [place for place in (text.rfind(" ", 1, middle), text.find(" ", middle, -1)) if place > 0]
        if len(ids) <= most:
            out.append((text, ids))
        elif spaces:
            place = min(spaces, key=lambda place: abs(place - middle))
            waiting += [text[place + 1 :], text[:place]]
        else:
            parts = [ids[begin : begin + most] for begin in range(0, len(ids), most)]
            out += [(tokenizer.decode(part), part) for part in parts]
    return [each for each in out if each[1]]
