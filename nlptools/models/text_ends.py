"""The tokens that models of each family put around the texts that they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nlptools.models import registry
from nlptools.text.boundaries import Boundaries
from nlptools.text.more_tokens import row_tokens
from nlptools.text.text_boundaries import of_encoder
from nlptools.text.tokenizer import Tokenizer


def around(arch: str, tokenizer: Tokenizer, config: Mapping[str, Any]) -> Boundaries | None:
    """The tokens around texts in a model of ours with this config.json; None: its family adds none."""
    start, end = config.get("bos_token_id"), config.get("eos_token_id")
    return {
        registry.ENCODER: of_encoder(tokenizer),
        registry.TASK_DECODER: Boundaries(start, () if end is None else (end,))
        if (special := row_tokens(tokenizer.vocab)) is None
        else Boundaries(special.start, (special.delimiter,), special.extract),
        registry.LANGUAGE: Boundaries(start, () if start is None else (start,)),
    }.get(registry.find(arch).family)
