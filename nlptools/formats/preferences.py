"""Files of demonstrations and preferences: objects with prompts and responses, for all tasks that align a model.

    instruct    `prompt` and `completion`; `instruction`, `input` and `output` (Alpaca), or several `instances` of input and
                output (self-instruct); `messages`, a whole conversation
    reward      `prompt`, `chosen` and `rejected`, perhaps with a `margin`; `prompt`, `responses` and their `ranking`, where 1 is
                the best and equal numbers are ties; without a label also `prompt` and `completion`
    preference  the pairs and rankings of `reward`; or `prompt`, `completion` and a `label`, true or false
A text is a string or a list of messages, objects with `role` and `content`. Without `prompt`, the prompt is what `chosen` and
`rejected` begin with in common: up to the last "Assistant:" in it (Bai et al. 2022, arXiv:2204.05862), else to the end of a
word, or whole messages. A `prompt` that is text before responses that are messages (the binarized UltraFeedback) is the first
message of the user: the responses begin with it, or follow it. Layouts: a JSON object per line, or Parquet. Instructions of
Alpaca are embedded in the prompt of Taori et al. 2023.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from nlptools.errors import DataError, shown
from nlptools.files.layout_names import named_layout
from nlptools.formats import records
from nlptools.formats.examples import Demonstration, Judgement, Place, Ranking, Turn, Turns
from nlptools.formats.layouts import layout_of
from nlptools.formats.lines import InputLines
from nlptools.formats.reading_options import Options
from nlptools.json_types import Json

_ROLES = ("system", "user", "assistant")
_ASSISTANT = "\n\nAssistant:"
_ALPACA = (
    "Below is an instruction that describes a task{paired}. Write a response that appropriately completes the request."
    "\n\n### Instruction:\n{instruction}{input}\n\n### Response:\n"
)
_PAIRED = ", paired with an input that provides further context"


def read_demonstrations(path: str, options: Options, errors: str = "strict") -> Iterator[Demonstration]:
    """The demonstrations of a file.

    Raises:
        DataError: a record without prompt or answer, or with another value than text or messages; with file, line and key.
            And the errors of `streams.blocks`.
        UsageError: a layout that the task does not have.
    """
    for record in _records("instruct", path, options, errors):
        if "messages" in record:
            yield _conversation(record)
        elif "instruction" in record:
            yield from _alpaca(record)
        else:
            prompt, completion = _prompt_and_response(record)
            yield Demonstration((*prompt, *completion), len(prompt), record.place)


def read_rankings(path: str, options: Options, errors: str = "strict") -> Iterator[Ranking]:
    """The rankings of a file; raises as `read_demonstrations`. While `options.labelled`, one response is better than another."""
    for record in _records("reward", path, options, errors):
        yield _ranking(record, options.labelled)


def read_preferences(path: str, options: Options, errors: str = "strict") -> Iterator[Ranking | Judgement]:
    """The rankings and judgements of a file; raises as `read_demonstrations`."""
    for record in _records("preference", path, options, errors):
        if "label" in record:
            yield Judgement(*_prompt_and_response(record), record.flag("label"), record.place)
        else:
            yield _ranking(record, True)


def read_prompts(path: str, errors: str = "strict") -> Iterator[tuple[Turns, Place]]:
    """The prompts of a file: under `prompt` in JSON lines or Parquet, by suffix; else lines of plain text.

    Raises:
        DataError: an object without prompt; and the errors of `streams.blocks`.
    """
    layout = named_layout(path)
    if layout in ("jsonl", "parquet"):
        for record in _records("preference", path, Options(layout=layout), errors):
            yield record.text("prompt"), record.place
    else:
        lines = InputLines(path, errors)
        for number, line in lines:
            yield (Turn("", line),), lines.place(number)


@dataclass(frozen=True)
class _Record:
    """The object of a line."""

    values: Mapping[str, Json]
    place: Place

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def refuse(self, message: str, hint: str | None = None) -> DataError:
        """The error for this line."""
        return self.place.error(message, hint)

    def get(self, *keys: str) -> tuple[str, Json]:
        """The first of `keys` that the object has, and its value. Raises DataError."""
        for key in keys:
            if key in self:
                return key, self.values[key]
        raise self.refuse(f"no key {' or '.join(map(repr, keys))}, the keys are {', '.join(self.values)}")

    def text(self, *keys: str) -> Turns:
        """The text or the messages under the first of `keys`. Raises DataError."""
        return self.turns(*self.get(*keys))

    def turns(self, key: str, value: Json) -> Turns:
        """A text or messages. Raises DataError, which names `key`."""
        if isinstance(value, str):
            return (Turn("", value),)
        if not isinstance(value, list) or not value:
            raise self.refuse(f"{key!r} is {type(value).__name__}, expected text or a list of messages")
        return tuple(self._message(key, message) for message in value)

    def _message(self, key: str, message: Json) -> Turn:
        role, content = (message.get("role"), message.get("content")) if isinstance(message, dict) else (None, None)
        if role not in _ROLES or not isinstance(content, str):
            hint = f"a message is an object with a role ({', '.join(_ROLES)}) and content, which is text"
            raise self.refuse(f"{key!r} has a message that is {shown(str(message))}", hint)
        return Turn(role, content)

    def flag(self, key: str) -> bool:
        """True or false, also as 1 and 0. Raises DataError."""
        value = self.values[key]
        if value not in (True, False):
            raise self.refuse(f"{key!r} is {shown(str(value))}, expected true or false")
        return bool(value)

    def number(self, key: str, value: Json) -> float:
        """A finite number. Raises DataError."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.refuse(f"{key!r} has {shown(str(value))}, expected a number")
        return float(value)


def _records(task: str, path: str, options: Options, errors: str) -> Iterator[_Record]:
    lines = InputLines(path, errors)
    for number, value in records.objects(lines, layout_of(task, path, options.layout)):
        yield _Record(value, lines.place(number))


def _conversation(record: _Record) -> Demonstration:
    key, value = record.get("messages")
    turns = record.turns(key, value)
    if not any(turn.role in ("assistant", "") for turn in turns):
        raise record.refuse(f"{key!r} has no turn of the assistant")
    return Demonstration(turns, 0, record.place)


def _alpaca(record: _Record) -> Iterator[Demonstration]:
    """The instruction with its input, or with each of its instances."""
    instruction = _plain(record, "instruction")
    instances = record.values.get("instances")
    objects = instances if isinstance(instances, list) else [dict(record.values)]
    if not (instances is objects or "instances" not in record.values):
        raise record.refuse("'instances' is not a list of objects")
    for each in objects:
        if not isinstance(each, dict):
            raise record.refuse("'instances' is not a list of objects")
        instance = _Record(each, record.place)
        given = _plain(instance, "input") if "input" in instance else ""
        prompt = _ALPACA.format(
            paired=_PAIRED if given else "",
            instruction=instruction,
            input=f"\n\n### Input:\n{given}" if given else "",
        )
        yield Demonstration((Turn("", prompt), Turn("", _plain(instance, "output"))), 1, record.place)


def _plain(record: _Record, key: str) -> str:
    _, value = record.get(key)
    if not isinstance(value, str):
        raise record.refuse(f"{key!r} is {type(value).__name__}, expected text")
    return value


def _ranking(record: _Record, labelled: bool) -> Ranking:
    margin = record.number("margin", record.values["margin"]) if "margin" in record else 0.0
    if "responses" in record:
        ranking = _ranked(record, labelled, margin)
    elif "chosen" in record or "rejected" in record:
        ranking = _pair(record, margin)
    elif labelled:
        raise record.refuse(
            f"no preference: the keys are {', '.join(record.values)}",
            "expected chosen and rejected, or responses and ranking",
        )
    else:
        prompt, response = _prompt_and_response(record)
        ranking = Ranking(prompt, (response,), (), record.place)
    if labelled and not ranking.pairs:
        raise record.refuse("no response is better than another one")
    return ranking


def _ranked(record: _Record, labelled: bool, margin: float) -> Ranking:
    _, values = record.get("responses")
    if not isinstance(values, list) or not values:
        raise record.refuse("'responses' is not a list of responses")
    prompt, responses = _following(record, [("responses", value) for value in values])
    if "ranking" not in record and not labelled:
        return Ranking(prompt, responses, (), record.place)
    _, raw = record.get("ranking")
    if not isinstance(raw, list) or len(raw) != len(values):
        raise record.refuse(f"'ranking' is not a list of {len(values)} numbers, one for each of 'responses'")
    ranks = [record.number("ranking", each) for each in raw]
    order = sorted(range(len(ranks)), key=ranks.__getitem__) if labelled else range(len(ranks))
    return Ranking(prompt, tuple(responses[i] for i in order), tuple(ranks[i] for i in order), record.place, margin)


def _pair(record: _Record, margin: float) -> Ranking:
    pair = [record.get(key) for key in ("chosen", "rejected")]
    if "prompt" in record:
        prompt, (chosen, rejected) = _following(record, pair)
    else:
        prompt, chosen, rejected = _common_prompt(record, *(record.turns(key, value) for key, value in pair))
    return Ranking(prompt, (chosen, rejected), (1.0, 2.0), record.place, margin)


def _following(record: _Record, values: Sequence[tuple[str, Json]]) -> tuple[Turns, tuple[Turns, ...]]:
    """The prompt, and the responses under some keys. In some files, responses repeat the messages of the prompt; these are
    removed. Raises DataError.
    """
    prompt = record.text("prompt")
    responses = [record.turns(key, value) for key, value in values]
    if not prompt[0].role and all(turns[0].role for turns in responses):
        return _first_message(record, prompt[0].content, responses)
    for (key, _), turns in zip(values, responses, strict=True):
        if bool(turns[0].role) != bool(prompt[0].role):
            raise record.refuse(f"of 'prompt' and {key!r}, one is text, the other one messages")
    return prompt, tuple(_without(prompt, turns) for turns in responses)


def _first_message(record: _Record, text: str, responses: Sequence[Turns]) -> tuple[Turns, tuple[Turns, ...]]:
    """The prompt of messages that answer the user's `text`: their common beginning, or this text. Raises DataError."""
    first, *others = responses
    count = sum(1 for _ in takewhile(lambda turn: turn.role != "assistant", first))
    if others:
        count = min(_common(first[:-1], other[:-1]) for other in others)
    prompt, rest = first[:count], tuple(turns[count:] for turns in responses)
    if any(turn.role == "user" for turn in prompt):
        return prompt, rest
    if any(turns[0].role != "assistant" for turns in rest):
        raise record.refuse("'prompt' is text, and the responses to it do not begin with the same message")
    return (*prompt, Turn("user", text)), rest


def _without(prompt: Turns, whole: Turns) -> Turns:
    """A response of messages, without the messages of the prompt."""
    if whole[0].role and len(whole) > len(prompt) and whole[: len(prompt)] == prompt:
        return whole[len(prompt) :]
    return whole


def _common_prompt(record: _Record, chosen: Turns, rejected: Turns) -> tuple[Turns, Turns, Turns]:
    """The common beginning of both texts, and the rest of each. Raises DataError if they have no common beginning."""
    if bool(chosen[0].role) != bool(rejected[0].role):
        raise record.refuse("of 'chosen' and 'rejected', one is text, the other one messages")
    if chosen[0].role:
        count = _common(chosen[:-1], rejected[:-1])
        if count < 1:
            raise record.refuse("no 'prompt', and 'chosen' and 'rejected' do not begin with the same message")
        return chosen[:count], chosen[count:], rejected[count:]
    first, second = chosen[0].content, rejected[0].content
    same = first[: _common(first, second)]
    end = same.rfind(_ASSISTANT) + len(_ASSISTANT)
    if end < len(_ASSISTANT):
        end = _last_space(same)
    if end < 1:
        raise record.refuse("no 'prompt', and 'chosen' and 'rejected' do not begin with the same words")
    return (Turn("", same[:end]),), (Turn("", first[end:]),), (Turn("", second[end:]),)


def _common(first: Sequence[object], second: Sequence[object]) -> int:
    """Length of the common beginning of both."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second)))


def _last_space(text: str) -> int:
    """Where the last white space of a text begins; -1 if there is none."""
    end = max(text.rfind(space) for space in " \n\t")
    return len(text[:end].rstrip()) if end >= 0 else -1


def _prompt_and_response(record: _Record) -> tuple[Turns, Turns]:
    prompt, (response,) = _following(record, [record.get("completion", "response")])
    return prompt, response
