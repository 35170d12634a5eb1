"""Turns of conversations as texts for a language model.

Plain texts stay as they are. Turns become what the chat template of the model makes of them, the same text as `chat` and
`serve` give to it; without a template `\\n\\nHuman: ...` and `\\n\\nAssistant: ...`, as in the data of Bai et al. 2022
(arXiv:2204.05862), with text of the system before them. With a template, an answer includes the mark at the end of its turn,
and the end-of-text token follows the last answer alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nlptools.batches.completions import Segment
from nlptools.errors import DataError
from nlptools.formats.examples import Demonstration, Place, Turn, Turns
from nlptools.text.chat_templates import Conversation, continued, end_of_turn

_BEFORE = {"": "", "system": "", "user": "\n\nHuman: ", "assistant": "\n\nAssistant:"}


def demonstration(example: Demonstration, chat: Conversation | None = None) -> list[Segment]:
    """The texts of a demonstration, answers apart from what they answer.

    Args:
        chat: the chat template of the model, None: it has none.

    Raises:
        DataError: the template refuses the conversation; with file and line.
    """
    return _texts(example.turns, example.learned, chat, example.place)


def response(prompt: Turns, turns: Turns, chat: Conversation | None, place: Place) -> list[Segment]:
    """The texts of a prompt and a response to it; see `demonstration`."""
    return _texts((*prompt, *turns), len(prompt), chat, place)


def prompt_text(turns: Turns, chat: Conversation | None, place: Place) -> str:
    """A prompt as text, after messages with the beginning of the assistant's turn; see `demonstration`."""
    if chat is not None and turns[-1].role:
        return _rendered(turns, chat, place)
    return "".join(map(_text, turns)) + (_BEFORE["assistant"] if turns[-1].role else "")


def response_text(prompt: Turns, turns: Turns, chat: Conversation | None, place: Place) -> str:
    """A response as text, as it follows `prompt_text`, and as samples are judged: without the mark at the end of its last
    turn; see `demonstration`.
    """
    if chat is None or not turns[-1].role:
        return "".join(map(_text, turns)).removeprefix(_BEFORE["assistant"])
    parts = _answers((*prompt, *turns), [len(prompt) + len(turns) - 1], chat, place)
    whole = "".join(segment.text for segment in parts).removesuffix(end_of_turn(chat))
    return whole.removeprefix(prompt_text(prompt, chat, place))


def _texts(turns: Turns, learned: int, chat: Conversation | None, place: Place) -> list[Segment]:
    """Turns as texts; from the number `learned` on, plain texts and the turns of the assistant are answers."""
    answers = [i for i, turn in enumerate(turns) if i >= learned and turn.role in ("", "assistant")]
    segments = _answers(turns, answers, chat, place) if chat is not None and turns[0].role else _plain(turns, answers)
    return [segment for segment in segments if segment.text or segment.learned]


def _answers(turns: Turns, answers: Sequence[int], chat: Conversation, place: Place) -> list[Segment]:
    """Turns up to the last answer by a chat template. Where it writes earlier turns in another way once others follow, only
    the answers after them are answers.
    """
    segments: list[Segment] = []
    text = ""
    for number in answers:
        prompt, answer = _continued(turns[: number + 1], chat, place)
        if not prompt.startswith(text):
            segments, text = [], ""
        segments += [Segment(prompt[len(text) :], False), Segment(answer, True, ended=False)]
        text = prompt + answer
    return [*segments[:-1], *(replace(segment, ended=True) for segment in segments[-1:])]


def _continued(turns: Turns, chat: Conversation, place: Place) -> tuple[str, str]:
    """The text before the last turn, and the last turn with the mark at its end."""
    try:
        prompt, answer = continued(chat, _messages(turns[:-1]), turns[-1].content)
    except DataError as error:
        raise place.error(str(error)) from None
    return prompt, answer.rstrip()


def _rendered(turns: Turns, chat: Conversation, place: Place) -> str:
    try:
        return chat(_messages(turns), True)
    except DataError as error:
        raise place.error(str(error)) from None


def _messages(turns: Turns) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in turns]


# -- without a template -----------------------------------------------------------------------------------------------


def _plain(turns: Turns, answers: Sequence[int]) -> list[Segment]:
    """Turns as texts; those before an answer are one text."""
    segments: list[Segment] = []
    before = ""
    for number, turn in enumerate(turns):
        if number in answers:
            segments += [Segment(before + _BEFORE[turn.role], False), Segment(_content(turn), True)]
            before = ""
        else:
            before += _text(turn)
    return [*segments, Segment(before, False)]


def _text(turn: Turn) -> str:
    return _BEFORE[turn.role] + _content(turn)


def _content(turn: Turn) -> str:
    return f" {turn.content}" if turn.role == "assistant" else turn.content
