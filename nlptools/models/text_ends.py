"""The tokens that models of each family put around the texts that they read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nlptools.models import registry
from nlptools.text.boundaries import Boundaries
from nlptools.text.vocab import Vocab


def around(arch: str, vocab: Vocab | None, config: Mapping[str, Any]) -> Boundaries | None:
    """The tokens around texts in a model of ours with this config.json; None: its family adds none."""
    start, end = config.get("bos_token_id"), config.get("eos_token_id")
    return {
        registry.ENCODER: Boundaries.of_encoder(vocab),
        registry.TASK_DECODER: Boundaries(start, end),
        registry.LANGUAGE: Boundaries(start, start),
    }.get(registry.find(arch).family)
