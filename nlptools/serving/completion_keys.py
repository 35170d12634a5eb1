"""The keys of requests in the shape of OpenAI's API: those that are obeyed, those that change nothing, those that are refused."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from nlptools.errors import UsageError, shown
from nlptools.json_types import Json

# The options that a request may have: OpenAI's names of them, and those that have the name of the option.
OPTIONS: Mapping[str, str] = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "min_tokens": "min_new_tokens",
    "n": "num_samples",
    **{
        name: name
        for name in (
            *("max_new_tokens", "min_new_tokens", "temperature", "top_k", "top_p", "min_p", "typical"),
            *("top_n_sigma", "contrastive", "repetition_penalty", "presence_penalty", "frequency_penalty"),
            *("no_repeat_ngram", "num_samples", "best_of", "stop", "match", "force_words", "ban_words"),
        )
    },
}
_READ = ("model", "logprobs", "top_logprobs", "seed", "response_format", "stream", "stream_options")
# keys about the client, or about how to compute the answer; they do not change it
_WITHOUT_EFFECT = (
    *("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"),
    *("parallel_tool_calls", "prediction"),
)
# keys of OpenAI's API that would change the answer, and that no model here can obey
_UNSUPPORTED = (
    *("tools", "tool_choice", "functions", "function_call", "logit_bias", "suffix", "audio", "modalities"),
    *("reasoning_effort", "verbosity", "web_search_options", "moderation"),
)
_NOTHING: tuple[Json, ...] = (None, [], {}, "none", ["text"])  # values that ask for nothing


def check(body: Mapping[str, Json], *, chat: bool, streams: bool) -> None:
    """Raise UsageError for the first key of a request that is not obeyed.

    Args:
        chat: whether it is a conversation, else a completion.
        streams: whether the answer may be sent in pieces.
    """
    own = ("messages",) if chat else ("prompt", "echo")
    known = (*own, *_READ, *OPTIONS, *_WITHOUT_EFFECT)
    for key, value in body.items():
        if key in _UNSUPPORTED:
            if value not in _NOTHING:
                raise UsageError(f"{key!r} is not supported")
        elif key not in known:
            raise unknown(key, known)
    if not streams and body.get("stream"):
        raise UsageError("'stream' needs a server, see nlptools serve")


def unknown(key: str, known: tuple[str, ...]) -> UsageError:
    """The error for a key that no request of its kind has."""
    close = get_close_matches(key.lower(), known, n=1)
    return UsageError(f"unknown key {shown(key)}" + (f", did you mean {close[0]!r}?" if close else ""))
