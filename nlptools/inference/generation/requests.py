"""Requests for text: a prompt with its own options."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs.generation import Generate
from nlptools.json_types import JsonObject


@dataclass(frozen=True)
class CompletionRequest:
    """A prompt with the options for its continuation."""

    prompt: str
    settings: Generate
    record: JsonObject  # the JSON object of its line
    seed: int | None = None  # its own seed
    chat: bool = False  # whether it is a conversation
    ids: tuple[int, ...] | None = None  # the tokens of its prompt, if they were given as numbers
