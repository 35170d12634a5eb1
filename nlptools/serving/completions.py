"""Requests for text as JSON objects with options, in the shape of OpenAI's API.

A request is an object with a text under "prompt", or a conversation under "messages", and perhaps options. In a file for
OpenAI's batch API it is under "body", next to "custom_id".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeGuard

from nlptools.configs import LARGEST_SEED, bounds
from nlptools.configs.generation import Generate
from nlptools.configs.serve import Serve
from nlptools.errors import DataError, UsageError, shown
from nlptools.inference.generation.requests import CompletionRequest
from nlptools.json_types import Json, JsonObject
from nlptools.serving import completion_keys, json_schemas
from nlptools.serving.completion_keys import OPTIONS

_TEXTS = ("stop", "force_words", "ban_words")
_FIELDS = {each.name: each for each in fields(Generate)}
_MOST_TOP = 20  # top_logprobs, as in OpenAI's API
_URLS = {"/v1/completions": "prompt", "/v1/chat/completions": "messages"}  # and the key that a body for it has
USUAL_TOKENS = 16  # new tokens of a completion that names no number, as in OpenAI's API
Decode = Callable[[Sequence[int]], str]
Fields = dict[str, Any]  # some fields of `Generate`, by name, with checked values


class Render(Protocol):
    """Makes a prompt of a conversation, see `text.chat_templates.Renderer`."""

    @property
    def end(self) -> str: ...
    def __call__(self, messages: Sequence[Mapping[str, Json]], /) -> str: ...


@dataclass(frozen=True)
class Prompting:
    """How a model's prompts are made.

    Attributes:
        render: makes the prompt of a conversation with the model's chat template; an answer ends with `render.end`. None: the
            model has no template.
        decode: the text of token numbers; raises IndexError for a number without a token. None: numbers are refused.
    """

    render: Render | None = None
    decode: Decode | None = None


def request(
    record: JsonObject,
    settings: Generate,
    prompting: Prompting = Prompting(),
    path: str | None = None,
    line: int | None = None,
) -> CompletionRequest:
    """The request in a JSON object with one prompt; see `requests`."""
    asked = requests(record, settings, prompting, path, line)
    if len(asked) > 1:
        raise DataError('expected one text under "prompt"', path=path, line=line)
    return asked[0]


def requests(
    record: JsonObject,
    settings: Generate,
    prompting: Prompting,
    path: str | None = None,
    line: int | None = None,
    *,
    strict: bool = False,
    streams: bool = False,
) -> list[CompletionRequest]:
    """The requests in a JSON object, one for each of its prompts, with defaults from `settings`.

    Args:
        path, line: the place of the object, for messages.
        strict: refuse keys that are not obeyed. Those of requests for OpenAI's batch API always are.
        streams: whether an answer may be sent in pieces.

    Raises:
        DataError: no prompt, or an option with a value that it cannot have; the message names the key.
    """
    try:
        body = record.get("body", record)
        if not isinstance(body, dict):
            raise UsageError('expected a JSON object under "body"')
        chat = "prompt" not in body and "messages" in body
        batch = body is not record and "custom_id" in record
        if batch:
            _check_url(record, chat)
        if strict or batch:
            completion_keys.check(body, chat=chat, streams=streams)
        own = _options(body, chat, settings)
        if batch:  # as a server answers it
            own["strict"] = True
        if batch and settings.max_new_tokens is None:
            least = own.get("min_new_tokens", settings.min_new_tokens)
            own.setdefault("max_new_tokens", max(Serve.most_tokens if chat else USUAL_TOKENS, least))
        if chat and prompting.render is not None and prompting.render.end:
            own["stop"] = (*own.get("stop", settings.stop), prompting.render.end)
        chosen, seed = replace(settings, **own), _seed(body.get("seed"))
        chosen.check()
        if chat:
            return [CompletionRequest(_conversation(body["messages"], prompting.render), chosen, record, seed, chat)]
        return [
            CompletionRequest(text, chosen, record, seed, chat, ids) for text, ids in _prompts(body, prompting.decode)
        ]
    except UsageError as error:
        raise DataError(str(error), path=path, line=line) from None


def _check_url(record: Mapping[str, Json], chat: bool) -> None:
    """Raise UsageError for a request to another address of the API."""
    url = record.get("url", "/v1/chat/completions" if chat else "/v1/completions")
    if url not in _URLS:
        raise UsageError(f'expected {" or ".join(_URLS)} under "url", found {shown(str(url))}')
    if _URLS[url] != ("messages" if chat else "prompt"):
        raise UsageError(f'"url" is {url}, which expects "{_URLS[url]}"')
    if record.get("method", "POST") != "POST":
        raise UsageError('expected POST under "method"')


# -- prompts ----------------------------------------------------------------------------------------------------------


def _prompts(body: Mapping[str, Json], decode: Decode | None) -> list[tuple[str, tuple[int, ...] | None]]:
    """The text of each prompt, and its token numbers if it is given as these."""
    value = body.get("prompt")
    several = value if isinstance(value, list) and value and not _are_numbers(value) else [value]
    out: list[tuple[str, tuple[int, ...] | None]] = []
    for each in several:
        if isinstance(each, list) and each and _are_numbers(each) and decode is not None:
            out.append((_decoded(each, decode), tuple(each)))
        elif isinstance(each, str):
            out.append((_text({"prompt": each}, "prompt"), None))
        else:
            raise UsageError('expected a text under "prompt", or token numbers, or a list of these')
    return out


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_numbers(values: Sequence[Json]) -> TypeGuard[list[int]]:
    return all(map(_is_number, values))


def _decoded(ids: Sequence[int], decode: Decode) -> str:
    try:
        if min(ids) >= 0:
            return decode(ids)
    except (IndexError, OverflowError):
        pass
    raise UsageError('"prompt": expected numbers of tokens of the model')


def _text(body: Mapping[str, Json], key: str) -> str:
    text = body.get(key)
    if not isinstance(text, str):
        raise UsageError(f'expected a text under "{key}"')
    if not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text):
        raise UsageError(f"the {key} holds half a surrogate pair")
    return text


def _conversation(messages: Json, render: Render | None) -> str:
    listed = messages if isinstance(messages, list) else []
    objects = [each for each in listed if isinstance(each, dict)]
    if not objects or len(objects) < len(listed):
        raise UsageError('expected a list of objects under "messages"')
    plain: list[JsonObject] = []
    for message in objects:
        plain.append({**message, "content": _content(message.get("content"))})
        for key in ("role", "content"):
            _text(plain[-1], key)
    if render is None:
        raise UsageError('"messages" needs a model with a chat template')
    try:
        return render(plain)
    except DataError as error:  # the template does not take such a conversation
        raise UsageError(str(error)) from None


def _content(content: Json) -> Json:
    """The text of a message, joined from its parts. Raises UsageError for parts that are not text."""
    if not isinstance(content, list):
        return content
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or kind not in ("text", "input_text"):
            raise UsageError(f'a part of the type {shown(str(kind))} under "content" is not supported, only "text"')
        texts.append(_text(part, "text"))
    return "".join(texts)


# -- options ----------------------------------------------------------------------------------------------------------


def _options(body: Mapping[str, Json], chat: bool, settings: Generate) -> Fields:
    """The options of a request, by their names here. Raises UsageError."""
    own = _echo(body.get("echo"))
    scores_prompt = not chat and own.get("echo", settings.echo)
    for key, name in OPTIONS.items():
        if body.get(key) is not None:
            nothing_new = name == "max_new_tokens" and body[key] == 0 and _is_number(body[key]) and scores_prompt
            own[name] = 0 if nothing_new else _value(key, body[key])
    own.update(_log_probabilities(body))
    match = json_schemas.response_pattern(body.get("response_format"))
    if match is not None:
        if "match" in own:
            raise UsageError('expected one of "match" and "response_format"')
        own["match"] = match
    return own


def _value(key: str, value: Json) -> str | float | tuple[str, ...]:
    """The value of an option, checked against its type and its bounds. Raises UsageError."""
    if key == "match":
        if not isinstance(value, str):
            raise UsageError('expected a regular expression under "match"')
        return value
    if key in _TEXTS:
        values = value if isinstance(value, list) else [value]
        texts = [text for text in values if isinstance(text, str) and text]
        if len(texts) < len(values):
            raise UsageError(f'expected a text, or a list of texts, under "{key}"')
        return tuple(texts)
    field = _FIELDS[OPTIONS[key]]
    limits = bounds(field)
    assert limits is not None
    low, high = limits
    whole = str(field.type).startswith("int")
    number = value if isinstance(value, int if whole else int | float) and not isinstance(value, bool) else math.nan
    if not low <= number <= high or math.isinf(number):
        range_ = f"{low:,.0f} to {high:,.0f}" if whole else f"{low:g} to {high:g}"
        raise UsageError(f'expected a {"whole " if whole else ""}number from {range_} under "{key}"')
    return number if whole else float(number)


def _log_probabilities(body: Mapping[str, Json]) -> Fields:
    """The options for "logprobs" (true, or in completions a number) and "top_logprobs". Raises UsageError."""
    wanted, key = body.get("logprobs"), "top_logprobs"
    top = body.get(key) or 0
    if isinstance(wanted, int) and not isinstance(wanted, bool):
        wanted, key, top = True, "logprobs", wanted
    if wanted not in (None, False, True):
        raise UsageError('expected true, false or a number under "logprobs"')
    if not _is_number(top) or not 0 <= top <= _MOST_TOP:
        raise UsageError(f'expected a whole number from 0 to {_MOST_TOP} under "{key}"')
    return {"logprobs": True, "top_logprobs": top} if wanted or top else {}


def _echo(echo: Json) -> Fields:
    if echo is None:
        return {}
    if not isinstance(echo, bool):
        raise UsageError('expected true or false under "echo"')
    return {"echo": echo}


def _seed(seed: Json) -> int | None:
    if seed is not None and (not _is_number(seed) or not 0 <= seed <= LARGEST_SEED):
        raise UsageError(f'expected a whole number from 0 to {LARGEST_SEED} under "seed"')
    return seed
