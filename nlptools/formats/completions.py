"""Requests for text as JSON lines, with options of their own, and responses in the shape of OpenAI's API.

A request is an object with a text under "prompt", or a conversation under "messages", and perhaps options. It may stand
under "body", beside "custom_id", as in a file for OpenAI's batch API; the response to a request with a "custom_id" has the
shape of that API's output. "created" is 0 in it, so that the same input has the same output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from nlptools.configs import LARGEST_SEED, bounds
from nlptools.configs.generation import Generate
from nlptools.errors import DataError, UsageError

# The options that a request may have: OpenAI's names of them, and those that have the name of the option.
_OPTIONS = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "n": "num_samples",
    **{
        name: name for name in ("max_new_tokens", "min_new_tokens", "temperature", "top_k", "top_p", "min_p", "typical")
    },
    **{
        name: name
        for name in ("top_n_sigma", "contrastive", "repetition_penalty", "presence_penalty", "frequency_penalty")
    },
    **{
        name: name
        for name in ("no_repeat_ngram", "num_samples", "best_of", "stop", "match", "force_words", "ban_words")
    },
}
_TEXTS = ("stop", "force_words", "ban_words")
_FIELDS = {each.name: each for each in fields(Generate)}
_MOST_TOP = 20  # top_logprobs, as in OpenAI's API


class Render(Protocol):
    """Makes a prompt of a conversation, see `text.chat_templates.Renderer`."""

    @property
    def end(self) -> str: ...
    def __call__(self, messages: Sequence[Mapping[str, Any]], /) -> str: ...


@dataclass(frozen=True)
class Request:
    """A prompt with the options for its continuation."""

    prompt: str
    settings: Generate
    record: dict[str, Any]  # the JSON object of its line
    seed: int | None = None  # its own seed
    chat: bool = False  # whether it is a conversation


class Output(Protocol):
    """A continuation, see `inference.language_model.Generated`."""

    @property
    def text(self) -> str: ...
    @property
    def finish(self) -> str: ...
    @property
    def pieces(self) -> Sequence[str]: ...
    @property
    def logprobs(self) -> Sequence[float]: ...
    @property
    def top(self) -> Sequence[Mapping[str, float]]: ...
    @property
    def usage(self) -> tuple[int, int]: ...


def request(
    record: dict[str, Any],
    settings: Generate,
    render: Render | None = None,
    path: str | None = None,
    line: int | None = None,
) -> Request:
    """The request in a JSON object; what it leaves out is as in `settings`.

    Args:
        render: makes a prompt of a conversation, by the model's chat template; None: it has none. What follows an answer in
            the template ends it.
        path, line: the place of the object, for messages.

    Raises:
        DataError: no prompt, or an option with a value that it cannot have; the message names the key.
    """
    try:
        body = record.get("body", record)
        if not isinstance(body, dict):
            raise UsageError('expected a JSON object under "body"')
        chat = "prompt" not in body and "messages" in body
        prompt = _conversation(body["messages"], render) if chat else _text(body, "prompt")
        own = {name: _value(key, body[key]) for key, name in _OPTIONS.items() if body.get(key) is not None}
        own.update(_log_probabilities(body))
        own.update(_echo(body.get("echo")))
        if chat and render is not None and render.end:
            own["stop"] = (*own.get("stop", settings.stop), render.end)
        chosen = replace(settings, **own)
        chosen.check()
        return Request(prompt, chosen, record, _seed(body.get("seed")), chat)
    except UsageError as error:
        raise DataError(str(error), path=path, line=line) from None


def _text(body: Mapping[str, Any], key: str) -> str:
    text = body.get(key)
    if not isinstance(text, str):
        raise UsageError(f'expected a text under "{key}"')
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise UsageError(f"the {key} holds half a surrogate pair")
    return text


def _conversation(messages: Any, render: Render | None) -> str:
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise UsageError('expected a list of objects under "messages"')
    for message in messages:
        for key in ("role", "content"):
            _text(message, key)
    if render is None:
        raise UsageError('"messages" needs a model with a chat template')
    try:
        return render(messages)
    except DataError as error:  # the template does not take such a conversation
        raise UsageError(str(error)) from None


def _value(key: str, value: Any) -> Any:
    """The value of an option, checked against its type and its bounds. Raises UsageError."""
    if key == "match":
        if not isinstance(value, str):
            raise UsageError('expected a regular expression under "match"')
        return value
    if key in _TEXTS:
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
            raise UsageError(f'expected a text, or a list of texts, under "{key}"')
        return tuple(texts)
    field = _FIELDS[_OPTIONS[key]]
    limits = bounds(field)
    assert limits is not None
    low, high = limits
    whole = str(field.type).startswith("int")
    fine = isinstance(value, int if whole else int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not fine or not low <= value <= high:
        range_ = f"{low:,.0f} to {high:,.0f}" if whole else f"{low:g} to {high:g}"
        raise UsageError(f'expected a {"whole " if whole else ""}number from {range_} under "{key}"')
    return value if whole else float(value)


def _log_probabilities(body: Mapping[str, Any]) -> dict[str, Any]:
    """The options that "logprobs" (true, or in completions a number) and "top_logprobs" stand for. Raises UsageError."""
    wanted, key = body.get("logprobs"), "top_logprobs"
    top = body.get(key) or 0
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        wanted, key, top = True, "logprobs", wanted
    if wanted not in (None, False, True):
        raise UsageError('expected true, false or a number under "logprobs"')
    if not isinstance(top, int) or not 0 <= top <= _MOST_TOP:
        raise UsageError(f'expected a whole number from 0 to {_MOST_TOP} under "{key}"')
    return {"logprobs": True, "top_logprobs": top, "json": True} if wanted or top else {}


def _echo(echo: Any) -> dict[str, bool]:
    if echo is None:
        return {}
    if not isinstance(echo, bool):
        raise UsageError('expected true or false under "echo"')
    return {"echo": echo}


def _seed(seed: Any) -> int | None:
    if seed is not None and (not isinstance(seed, int) or not 0 <= seed <= LARGEST_SEED):
        raise UsageError(f'expected a whole number from 0 to {LARGEST_SEED} under "seed"')
    return seed


def batch_line(asked: Request, number: int, outputs: Sequence[Output]) -> dict[str, Any]:
    """The line of a batch API's output for the request on line `number`, counted from 0."""
    answer = {"status_code": 200, "request_id": f"req_{number}", "body": response(asked, number, outputs)}
    return {"id": f"batch_req_{number}", "custom_id": asked.record["custom_id"], "response": answer, "error": None}


def response(asked: Request, number: int, outputs: Sequence[Output]) -> dict[str, Any]:
    """The object of a chat completion, or of a completion, with a choice for each output."""
    body = asked.record.get("body", asked.record)
    read, written = outputs[0].usage[0], sum(output.usage[1] for output in outputs)
    choice = _chat_choice if asked.chat else _choice
    return {
        "id": f"{'chatcmpl' if asked.chat else 'cmpl'}-{number}",
        "object": "chat.completion" if asked.chat else "text_completion",
        "created": 0,
        "model": body.get("model", ""),
        "choices": [
            {
                "index": index,
                **choice(asked, output),
                "finish_reason": "length" if output.finish == "length" else "stop",
            }
            for index, output in enumerate(outputs)
        ],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }


def _choice(asked: Request, output: Output) -> dict[str, Any]:
    echoed = asked.prompt if asked.settings.echo else ""
    if not asked.settings.logprobs:
        return {"text": echoed + output.text, "logprobs": None}
    offsets, end = [], len(echoed)
    for piece in output.pieces:
        offsets.append(end)
        end += len(piece)
    scores = {
        "tokens": list(output.pieces),
        "token_logprobs": list(output.logprobs[: len(offsets)]),
        "top_logprobs": [dict(each) for each in output.top[: len(offsets)]] or None,
        "text_offset": offsets,
    }
    return {"text": echoed + output.text, "logprobs": scores}


def _chat_choice(asked: Request, output: Output) -> dict[str, Any]:
    message = {"role": "assistant", "content": output.text, "refusal": None}
    if not asked.settings.logprobs:
        return {"message": message, "logprobs": None}
    top = output.top or [{}] * len(output.pieces)
    content = [
        {**_token(piece, logprob), "top_logprobs": [_token(*each) for each in best.items()]}
        for piece, logprob, best in zip(output.pieces, output.logprobs, top)  # the end token has no piece
    ]
    return {"message": message, "logprobs": {"content": content, "refusal": None}}


def _token(piece: str, logprob: float) -> dict[str, Any]:
    return {"token": piece, "logprob": logprob, "bytes": list(piece.encode("utf-8", "replace"))}
