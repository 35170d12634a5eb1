"""A conversation with a language model: a history of messages, and answers to the last one."""

from __future__ import annotations

from collections.abc import Callable

from nlptools import messages
from nlptools.configs.chat import Chat
from nlptools.errors import DataError
from nlptools.inference.generation.generated import Generated
from nlptools.inference.language_model import TextLanguageModel
from nlptools.json_types import JsonObject
from nlptools.text import chat_templates


class Conversation:
    """The messages so far, and the model that answers.

    Attributes:
        history: "role" and "content" of each message.
    """

    def __init__(
        self, model: TextLanguageModel, template: chat_templates.Conversation, settings: Chat, seed: int
    ) -> None:
        """Args:
        template: makes a text of messages.
        seed: of the whole conversation; every answer has its own random numbers.
        """
        self.model, self.template, self.seed = model, template, seed
        end = chat_templates.end_of_turn(template)  # special tokens in it end an answer by themselves
        self.settings = settings.generation((end,) if end else ())
        self._first: list[JsonObject] = (
            [] if settings.system is None else [{"role": "system", "content": settings.system}]
        )
        self._answers = 0
        self.history: list[JsonObject] = []
        self.reset()

    def reset(self) -> None:
        """Forget the messages, except for the system message."""
        self.history = list(self._first)

    def ask(self, content: str, on_text: Callable[[str], None] | None = None) -> Generated:
        """The answer to a message of the user, which becomes part of the history.

        Args:
            on_text: called with the text of the answer as it grows, piece by piece.

        Raises:
            DataError: the message alone is longer than the context, or with `Chat.strict` the conversation; or the template
                does not take it.
        """
        asked, prompt = self._fitting([*self.history, {"role": "user", "content": content}])
        [[answer]] = self.model.generate_batch(
            [prompt], self.settings, seed=self.seed, first=self._answers, on_text=on_text
        )
        self._answers += 1
        self.history = [*asked, {"role": "assistant", "content": answer.text}]
        return answer

    def _fitting(self, asked: list[JsonObject]) -> tuple[list[JsonObject], str]:
        """The messages without the oldest questions and answers that do not fit in the context, and their text."""
        begin, dropped = len(self._first), 0
        while True:
            prompt = self.template(asked, True)
            last = len(asked) <= begin + 1
            try:
                self.model.prompts.check(prompt, self.settings, "message" if last else "conversation")
                break
            except DataError:
                if last or self.settings.strict:
                    raise
            asked = [*asked[:begin], *asked[begin + 2 :]]
            dropped += 1
        if dropped:
            messages.warn(
                f"the oldest {messages.counted(dropped, 'question')} left the context", kind="left the context"
            )
        return asked, prompt
