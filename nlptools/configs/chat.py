"""Options of conversations."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option, quantize_option, redefined
from nlptools.configs.generation import Generate, PromptFiles

# chat templates that are known by name, see `text.chat_templates`
FORMATS = ("chatml", "gemma", "llama-3", "phi-3", "zephyr")


@dataclass(frozen=True)
class Chat:
    """Conversation options"""

    system: str | None = option(None, "System message of every conversation.", metavar="TEXT")
    chat: str | None = redefined(
        PromptFiles,
        "chat",
        None,
        "Chat template: a model directory, or a known format such as chatml. Default: the template of the model.",
    )
    max_new_tokens: int = option(512, "Maximum number of tokens of an answer.", low=1, metavar="N")
    temperature: float = redefined(Generate, "temperature", 0.7)
    top_k: int = redefined(Generate, "top_k", 0)
    top_p: float = redefined(Generate, "top_p", 1.0)
    min_p: float = redefined(Generate, "min_p", 0.0)
    repetition_penalty: float = redefined(Generate, "repetition_penalty", 1.0)
    strict: bool = redefined(
        Generate,
        "strict",
        False,
        "Refuse a message if the conversation exceeds the context of the model, and end an answer where the context"
        " is full. Default: drop the oldest questions and answers, and count them.",
    )
    stop: tuple[str, ...] = redefined(Generate, "stop", (), "End an answer before any of these texts.")
    quantize: str | None = quantize_option()

    def generation(self, stop: tuple[str, ...]) -> Generate:
        """The options of an answer, which also ends at the texts `stop`."""
        return Generate(
            max_new_tokens=self.max_new_tokens,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            strict=self.strict,
            stop=(*self.stop, *stop),
            quantize=self.quantize,
        )
