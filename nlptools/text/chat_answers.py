"""The places of the assistant's answers in the output of a chat template.

Most templates write a conversation from left to right: a finished conversation begins with the prompt for its answer. Templates
of reasoning models differ: the prompt ends with `<think>`, or earlier answers lose their reasoning once others follow. Training
then uses the text of the finished conversation. A template is a program, so experiments locate the answers: a mark replaces the
content of a turn, which shows the text before and after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce

from nlptools import messages
from nlptools.errors import shown
from nlptools.text.chat_templates import MARK, Conversation, Message, after_answer

_BEFORE = "\u241e"  # stands for the content of the turn before an answer


def continued(chat: Conversation, turns: Sequence[Message], answers: Sequence[str]) -> tuple[str, list[str]]:
    """The prompt of a conversation, up to the assistant's next turn, and the continuation for each of several answers.

    Without answers, this is the prompt for generation. With answers, it is the beginning of a finished conversation, see the
    module.
    """
    prompt = chat(turns, True)
    wholes = [_finished(chat, turns, answer) for answer in answers]
    if not all(whole.startswith(prompt) for whole in wholes):
        opening = shared([prompt, *wholes, _finished(chat, turns, MARK)])
        warn_of(prompt[len(opening) :])
        prompt = opening
    return prompt, [whole[len(prompt) :] for whole in wholes]


def spans(chat: Conversation, turns: Sequence[Message], answers: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
    """The text of a finished conversation, and the places of its answers: from the end of the header of the turn to the end of
    the mark after the answer. Answers that the template omits or interleaves have no place.

    Args:
        answers: the numbers of turns of the assistant, in order; the last one is the last turn.
    """
    whole = chat(turns, False)
    found: list[tuple[int, int]] = []
    for number in answers:
        span = _span(chat, turns, number, whole)
        if span is not None and span[0] >= (found[-1][1] if found else 0):
            found.append(span)
    return whole, found


def shared(texts: Sequence[str]) -> str:
    """The common beginning of all texts: the whole first one, or a part up to white space or a mark such as `<think>`."""
    same = reduce(_common, texts)
    if len(same) == len(texts[0]):
        return same
    marks = list(re.finditer(r"[\s>\])}:]", same))
    return same[: marks[-1].end()] if marks else ""


def warn_of(opening: str) -> None:
    """Warn that the template ends the prompt for an answer with text that finished answers lack."""
    if opening:
        messages.warn(
            f"the chat template opens the prompt for an answer with {shown(opening)}, but no finished answer:"
            " training uses the text of finished conversations",
            kind="chat template",
            most=1,
        )


def _span(chat: Conversation, turns: Sequence[Message], number: int, whole: str) -> tuple[int, int] | None:
    """The place in `whole` of the answer of this number."""
    left, mark, right = chat(_marked(turns, {number: MARK}), False).partition(MARK)
    if not mark or not whole.endswith(right):
        return None
    end = after_answer(chat).rstrip()
    end = end if right.startswith(end) else ""
    header, prompted = _header(chat, turns, number)
    if not left.endswith(header):
        header = ""
    opening = shared([prompted, header])
    warn_of(prompted[len(opening) :])
    start = len(left) - len(header) + len(opening)
    return min(start, len(_common(left, whole))), len(whole) - len(right) + len(end)


def _header(chat: Conversation, turns: Sequence[Message], number: int) -> tuple[str, str]:
    """The text between the turn before an answer and its content, in a finished conversation and in a prompt for it; empty
    where the template does not show it.
    """
    if not number:
        return "", ""
    before = {number - 1: _BEFORE}
    _, _, rest = chat(_marked(turns, {**before, number: MARK}), False).partition(_BEFORE)
    header, mark, _ = rest.partition(MARK)
    _, prior, prompted = chat(_marked(turns[:number], before), True).partition(_BEFORE)
    return (header, prompted) if mark and prior else ("", "")


def _marked(turns: Sequence[Message], marks: Mapping[int, str]) -> list[Message]:
    """The turns, some with a mark for their content."""
    return [{**turn, "content": marks[i]} if i in marks else turn for i, turn in enumerate(turns)]


def _common(first: str, second: str) -> str:
    """The common beginning of two texts."""
    differing = (i for i, (a, b) in enumerate(zip(first, second)) if a != b)
    return first[: next(differing, min(len(first), len(second)))]


def _finished(chat: Conversation, turns: Sequence[Message], answer: str) -> str:
    return chat([*turns, {"role": "assistant", "content": answer}], False)
