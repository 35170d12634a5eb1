"""Options of feed-forward language models."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.architectures.shared import architecture
from nlptools.configs.lm import TrainLM


@dataclass(frozen=True)
class FeedForwardOptions(TrainLM):
    """Feed-forward network over the last tokens (Bengio et al. 2003)"""

    arch: str = architecture("feedforward")
    order: int = option(
        5, "N-gram order: the model predicts the last of N tokens from the others.", low=2, high=64, metavar="N"
    )
    far: int = option(
        0,
        "Tokens before the last --order tokens; the mean of their embeddings is another input.",
        high=1 << 12,
        metavar="N",
    )
    direct: bool = option(False, "Direct connections past the hidden layer.", needs=("layers 1",))
