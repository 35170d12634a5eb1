"""Perplexity from log-probabilities in nats."""

from __future__ import annotations

import math

from nlptools.corpora.token_file import TextCounts


def perplexities(log_probability: float, counts: TextCounts) -> dict[str, float]:
    """Perplexity per token, word and byte, and bits per byte, of a text with this total log-probability (nats)."""
    nats = -log_probability
    return {
        "loss": nats / max(1, counts.tokens),
        "perplexity": perplexity(nats / max(1, counts.tokens)),
        "word_perplexity": perplexity(nats / max(1, counts.words)),
        "byte_perplexity": perplexity(nats / max(1, counts.bytes)),
        "bits_per_byte": nats / max(1, counts.bytes) / math.log(2),
    }


def perplexity(nats: float) -> float:
    """The perplexity of a mean loss; infinity where no float can hold it."""
    return math.exp(nats) if nats < 700 else math.inf
