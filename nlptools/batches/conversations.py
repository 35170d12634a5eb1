"""Turns of conversations as texts for a language model.

Plain texts do not change. The chat template of the model turns a conversation into the text that `chat` and `serve` give to the
model. Without a template, turns begin with `\\n\\nHuman: ` and `\\n\\nAssistant: `, as in the data of Bai et al. 2022
(arXiv:2204.05862), after the text of the system. With a template, the whole conversation is one text. An answer includes the
mark at the end of its turn; the end-of-text token follows only the last answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nlptools.batches.completions import ChatSegment
from nlptools.errors import DataError
from nlptools.formats.examples import Demonstration, Place, Turn, Turns
from nlptools.text.chat_answers import shared, spans
from nlptools.text.chat_templates import Conversation, end_of_turn

_BEFORE = {"": "", "system": "", "user": "\n\nHuman: ", "assistant": "\n\nAssistant:"}


def demonstration(example: Demonstration, chat: Conversation | None = None) -> list[ChatSegment]:
    """The texts of a demonstration, answers apart from what they answer.

    Args:
        chat: the chat template of the model, None: it has none.

    Raises:
        DataError: the template refuses the conversation; with file and line.
    """
    return _texts(example.turns, example.learned, chat, example.place)


def response(prompt: Turns, turns: Turns, chat: Conversation | None, place: Place) -> list[ChatSegment]:
    """The texts of a prompt and a response to it; see `demonstration`."""
    return _texts((*prompt, *turns), len(prompt), chat, place)


def prompt_text(turns: Turns, chat: Conversation | None, place: Place) -> str:
    """A prompt as text, after messages with the beginning of the assistant's turn; see `demonstration`."""
    if chat is not None and turns[-1].role:
        return _rendered(turns, chat, place)
    return "".join(map(_text, turns)) + (_BEFORE["assistant"] if turns[-1].role else "")


def judged_texts(
    prompt: Turns, responses: Sequence[Turns], chat: Conversation | None, place: Place
) -> tuple[str, tuple[str, ...]]:
    """A prompt and responses as texts that follow it, as samples are judged: without the mark at the end of the last turn; see
    `demonstration`.
    """
    before = prompt_text(prompt, chat, place)
    if chat is None or not prompt[-1].role:
        return before, tuple("".join(map(_text, turns)).removeprefix(_BEFORE["assistant"]) for turns in responses)
    parts = [_answers((*prompt, *turns), [len(prompt) + len(turns) - 1], chat, place) for turns in responses]
    wholes = ["".join(segment.text for segment in segments) for segments in parts]
    if not all(whole.startswith(before) for whole in wholes):  # see `chat_answers`
        before = shared([before, *(segments[0].text for segments in parts)])
    end = end_of_turn(chat)
    return before, tuple(whole.removesuffix(end)[len(before) :] for whole in wholes)


def _texts(turns: Turns, learned: int, chat: Conversation | None, place: Place) -> list[ChatSegment]:
    """Turns as texts; from the number `learned` on, plain texts and the turns of the assistant are answers."""
    answers = [i for i, turn in enumerate(turns) if i >= learned and turn.role in ("", "assistant")]
    segments = _answers(turns, answers, chat, place) if chat is not None and turns[0].role else _plain(turns, answers)
    return [segment for segment in segments if segment.text or segment.learned]


def _answers(turns: Turns, answers: Sequence[int], chat: Conversation, place: Place) -> list[ChatSegment]:
    """Turns up to the last answer by a chat template. Raises DataError."""
    if not answers:
        raise place.error("no answer: no turn of the assistant after the prompt")
    try:
        segments = _grown(turns, answers, chat) or _found(turns[: answers[-1] + 1], answers, chat)
    except DataError as error:
        raise place.error(str(error)) from None
    return [*segments[:-1], *(replace(segment, ended=True) for segment in segments[-1:])]


def _grown(turns: Turns, answers: Sequence[int], chat: Conversation) -> list[ChatSegment]:
    """Prompts and answers, if each prompt begins with all text before it and each finished answer with its prompt; else none."""
    segments: list[ChatSegment] = []
    text = ""
    for number in answers:
        prompt = chat(_messages(turns[:number]), True)
        whole = chat(_messages(turns[: number + 1]), False)
        if not prompt.startswith(text) or not whole.startswith(prompt):
            return []
        answer = whole[len(prompt) :].rstrip()
        segments += [ChatSegment(prompt[len(text) :], False), ChatSegment(answer, True, ended=False)]
        text = prompt + answer
    return segments


def _found(turns: Turns, answers: Sequence[int], chat: Conversation) -> list[ChatSegment]:
    """The text of a conversation, and what of it are answers."""
    whole, places = spans(chat, _messages(turns), answers)
    if not places:
        raise DataError("the chat template does not write the answer")
    segments: list[ChatSegment] = []
    text = 0
    for start, end in places:
        segments += [ChatSegment(whole[text:start], False), ChatSegment(whole[start:end], True, ended=False)]
        text = end
    return segments


def _rendered(turns: Turns, chat: Conversation, place: Place) -> str:
    try:
        return chat(_messages(turns), True)
    except DataError as error:
        raise place.error(str(error)) from None


def _messages(turns: Turns) -> list[dict[str, str]]:
    return [{"role": turn.role, "content": turn.content} for turn in turns]


# -- without a template -----------------------------------------------------------------------------------------------


def _plain(turns: Turns, answers: Sequence[int]) -> list[ChatSegment]:
    """Turns as texts; those before an answer are one text."""
    segments: list[ChatSegment] = []
    before = ""
    for number, turn in enumerate(turns):
        if number in answers:
            segments += [ChatSegment(before + _BEFORE[turn.role], False), ChatSegment(_content(turn), True)]
            before = ""
        else:
            before += _text(turn)
    return [*segments, ChatSegment(before, False)]


def _text(turn: Turn) -> str:
    return _BEFORE[turn.role] + _content(turn)


def _content(turn: Turn) -> str:
    return f" {turn.content}" if turn.role == "assistant" else turn.content
