"""Answers to requests in the shape of OpenAI's API: whole, as lines of its batch API, and in pieces of a stream.

"created" is 0, so that the same input has the same output.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nlptools.inference.generation.requests import CompletionRequest
from nlptools.inference.generation.token_pieces import Piece
from nlptools.serving.completion_pieces import chat_scores, completion_scores


class CompletionOutput(Protocol):
    """A continuation, see `inference.generation.generated.Generated`."""

    @property
    def text(self) -> str: ...
    @property
    def finish(self) -> str: ...
    @property
    def prompt(self) -> Sequence[Piece]: ...
    @property
    def pieces(self) -> Sequence[Piece]: ...
    @property
    def usage(self) -> tuple[int, int]: ...


def batch_line(
    asked: Sequence[CompletionRequest], number: int, outputs: Sequence[Sequence[CompletionOutput]]
) -> dict[str, object]:
    """The line of a batch API's output for the prompts of the request on line `number`, counted from 0."""
    answer = {"status_code": 200, "request_id": f"req_{number}", "body": response(asked, number, outputs)}
    return {"id": f"batch_req_{number}", "custom_id": asked[0].record["custom_id"], "response": answer, "error": None}


def response(
    asked: Sequence[CompletionRequest], number: int, outputs: Sequence[Sequence[CompletionOutput]]
) -> dict[str, object]:
    """The object of a chat completion, or of a completion, with a choice for each output of each prompt."""
    record, chat = asked[0].record, asked[0].chat
    body = record.get("body", record)
    choice = _chat_choice if chat else _choice
    choices = [choice(each, output) for each, row in zip(asked, outputs, strict=True) for output in row]
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{number}",
        "object": "chat.completion" if chat else "text_completion",
        "created": 0,
        "model": body.get("model", "") if isinstance(body, dict) else "",
        "choices": [{"index": index, **each} for index, each in enumerate(choices)],
        "usage": usage(outputs),
    }


def usage(outputs: Sequence[Sequence[CompletionOutput]]) -> dict[str, int]:
    """The numbers of tokens of prompts, and of their outputs."""
    read = sum(row[0].usage[0] for row in outputs)
    written = sum(output.usage[1] for row in outputs for output in row)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def finish_reason(output: CompletionOutput) -> str:
    """Why an output ends: "length" or "stop"."""
    return "length" if output.finish == "length" else "stop"


def echoed(asked: CompletionRequest, prompt: Sequence[Piece]) -> str:
    """The echoed text of the prompt."""
    if not asked.settings.echo or asked.chat:
        return ""
    return "".join(piece.text for piece in prompt) if prompt else asked.prompt


def _choice(asked: CompletionRequest, output: CompletionOutput) -> dict[str, object]:
    scores = None
    if asked.settings.logprobs:
        scores = completion_scores([*output.prompt, *output.pieces], 0, bool(asked.settings.top_logprobs))
    text = echoed(asked, output.prompt) + output.text
    return {"text": text, "logprobs": scores, "finish_reason": finish_reason(output)}


def _chat_choice(asked: CompletionRequest, output: CompletionOutput) -> dict[str, object]:
    message = {"role": "assistant", "content": output.text, "refusal": None}
    scores = chat_scores(output.pieces) if asked.settings.logprobs else None
    return {"message": message, "logprobs": scores, "finish_reason": finish_reason(output)}


class ChoiceStream:
    """One choice that is sent in pieces. Each method returns the choice of a chunk."""

    def __init__(self, asked: CompletionRequest, index: int) -> None:
        self.asked, self.index = asked, index
        self._written = 0  # characters of a completion

    def begin(self) -> dict[str, object]:
        """The first chunk: the role, or the prompt if it is echoed without log-probabilities."""
        if self.asked.chat:
            return self._chunk({"delta": {"role": "assistant", "content": ""}})
        settings = self.asked.settings
        return self.grow(echoed(self.asked, ()) if not settings.logprobs else "", ())

    def grow(self, text: str, pieces: Sequence[Piece], finish: str | None = None) -> dict[str, object]:
        """More of the answer, with its tokens if they are asked for."""
        settings = self.asked.settings
        scores: dict[str, object] | None = None
        if self.asked.chat:
            if settings.logprobs and pieces:
                scores = chat_scores(pieces)
            return self._chunk({"delta": {"content": text}}, scores, finish)
        if settings.logprobs and pieces:
            scores = completion_scores(pieces, self._written, bool(settings.top_logprobs))
        self._written += len(text)
        return self._chunk({"text": text}, scores, finish)

    def end(self, finish: str) -> dict[str, object]:
        """Its end: why there is no more."""
        return self._chunk({"delta": {}} if self.asked.chat else {"text": ""}, None, finish)

    def _chunk(
        self, content: dict[str, object], scores: dict[str, object] | None = None, finish: str | None = None
    ) -> dict[str, object]:
        return {"index": self.index, **content, "logprobs": scores, "finish_reason": finish}
