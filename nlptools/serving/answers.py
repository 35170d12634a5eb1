"""The objects of one answer, whole or in pieces of a stream."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

from nlptools.inference.generation.requests import CompletionRequest
from nlptools.inference.generation.token_pieces import Piece
from nlptools.serving import completion_answers
from nlptools.serving.completion_answers import ChoiceStream, CompletionOutput, finish_reason


class CompletionAnswer:
    """The answer to the prompts of one request; each prompt has the same number of choices."""

    def __init__(self, model: str, asked: Sequence[CompletionRequest]) -> None:
        self.asked, self.chat = asked, asked[0].chat
        kind = "chatcmpl" if self.chat else "cmpl"
        self.head = {"id": f"{kind}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}
        self.width = asked[0].settings.num_samples
        self.choices = [
            ChoiceStream(each, n * self.width + k) for n, each in enumerate(asked) for k in range(self.width)
        ]

    def whole(self, results: Sequence[Sequence[CompletionOutput]]) -> dict[str, object]:
        """The choices of all prompts, one prompt after the other."""
        return {**completion_answers.response(self.asked, 0, results), **self.head}

    def begin(self) -> Iterator[dict[str, object]]:
        """The first chunk of each choice."""
        return (self._chunk(choice.begin()) for choice in self.choices)

    def piece(self, number: int, sample: int, text: str, pieces: Sequence[Piece]) -> dict[str, object]:
        """More of the answer to a prompt."""
        return self._chunk(self.choices[number * self.width + sample].grow(text, pieces))

    def ends(self, number: int, outputs: Sequence[CompletionOutput]) -> Iterator[dict[str, object]]:
        """The last chunk of each choice of a prompt."""
        for sample, output in enumerate(outputs):
            yield self._chunk(self.choices[number * self.width + sample].end(finish_reason(output)))

    def usage(self, results: Sequence[Sequence[CompletionOutput]]) -> dict[str, object]:
        """The numbers of tokens, at the end of a stream."""
        return {**self._kind(), "choices": [], "usage": completion_answers.usage(results)}

    def _chunk(self, choice: dict[str, object]) -> dict[str, object]:
        return {**self._kind(), "choices": [choice]}

    def _kind(self) -> dict[str, object]:
        return {**self.head, "object": "chat.completion.chunk" if self.chat else "text_completion"}
