"""The tokens of prompts, as a language model reads them."""

from __future__ import annotations

from collections.abc import Sequence

from nlptools import messages
from nlptools.bundle import Bundle
from nlptools.configs.generation import Generate
from nlptools.errors import DataError
from nlptools.inference.generation.continuation import readable
from nlptools.models.contract import LanguageModel
from nlptools.text.text_boundaries import started


class PromptTokens:
    """Turns prompts, which are texts or tokens, into the tokens that a model reads."""

    def __init__(self, loaded: Bundle, model: LanguageModel) -> None:
        self.bundle, self.model = loaded, model

    def encoded(self, prompt: str | Sequence[int]) -> list[int]:
        """The tokens of a prompt alone."""
        return self.bundle.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)

    def started(self, ids: list[int]) -> list[int]:
        """`ids` after the start token, if the model needs one and a chat template has not written it."""
        if not ids:
            return [self.bundle.start]
        has_bos = self.bundle.bos is not None and ids[:1] == [self.bundle.bos]
        if has_bos or not self.bundle.prepends_start:
            return ids
        return started(ids, self.bundle.start, self.bundle.eos)

    def read(self, prompt: str | Sequence[int], settings: Generate) -> list[int]:
        """The tokens of a prompt; the last ones if it does not fit in the context. Raises DataError, with `settings.strict`."""
        ids = self.started(self.encoded(prompt))
        lost = len(ids) - (readable(self.model, settings) or len(ids))
        if lost <= 0:
            return ids
        if settings.strict:
            self._check_length(len(ids), settings, "prompt")
        self.warn_cut(lost)
        return [self.bundle.start, *ids[lost + 1 :]] if ids[0] == self.bundle.start else ids[lost:]

    def check(self, prompt: str | Sequence[int], settings: Generate, name: str = "prompt") -> None:
        """Raise DataError, with both numbers, for a prompt that is longer than the context; `name` is for the message."""
        self._check_length(len(self.started(self.encoded(prompt))), settings, name)

    def _check_length(self, tokens: int, settings: Generate, name: str) -> None:
        most = readable(self.model, settings)
        if most is not None and tokens > most:
            raise DataError(f"the {name} has {tokens} tokens, and the context of the model has room for {most}")

    def warn_cut(self, lost: int) -> None:
        """Warn that a prompt lost tokens."""
        count = messages.counted(lost, "token")
        text = f"prompt cut by {count} on the left to fit the context of {self.model.max_context}"
        messages.warn(text, kind="prompt cut")
