"""Turns of conversations as texts for a language model.

Plain texts stay as they are. Turns become `\\n\\nHuman: ...` and `\\n\\nAssistant: ...`, as in the data of Bai et al. 2022
(arXiv:2204.05862); text of the system stands before them.
"""

from __future__ import annotations

from collections.abc import Iterable

from nlptools.batches.completions import Segment
from nlptools.formats.examples import Demonstration, Turn, Turns

_BEFORE = {"": "", "system": "", "user": "\n\nHuman: ", "assistant": "\n\nAssistant:"}


def demonstration(example: Demonstration) -> list[Segment]:
    """The texts of a demonstration, answers apart from what they answer."""
    return _segments(
        (turn, i >= example.learned and turn.role in ("", "assistant")) for i, turn in enumerate(example.turns)
    )


def response(prompt: Turns, turns: Turns) -> list[Segment]:
    """The texts of a prompt and a response to it."""
    return _segments([*((turn, False) for turn in prompt), *((turn, turn.role in ("", "assistant")) for turn in turns)])


def prompt_text(turns: Turns) -> str:
    """A prompt as text, after messages with the beginning of the assistant's turn."""
    return "".join(map(_text, turns)) + (_BEFORE["assistant"] if turns[-1].role else "")


def response_text(turns: Turns) -> str:
    """A response as text, as it follows `prompt_text`."""
    return "".join(map(_text, turns)).removeprefix(_BEFORE["assistant"])


def _text(turn: Turn) -> str:
    return _BEFORE[turn.role] + _content(turn)


def _content(turn: Turn) -> str:
    return f" {turn.content}" if turn.role == "assistant" else turn.content


def _segments(turns: Iterable[tuple[Turn, bool]]) -> list[Segment]:
    """Turns, and whether each is a response, as texts; those before a response are one text."""
    segments: list[Segment] = []
    before = ""
    for turn, learned in turns:
        if learned:
            segments += [Segment(before + _BEFORE[turn.role], False), Segment(_content(turn), True)]
            before = ""
        else:
            before += _text(turn)
    return [segment for segment in (*segments, Segment(before, False)) if segment.text or segment.learned]
