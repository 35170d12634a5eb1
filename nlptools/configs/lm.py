"""Options of training language models."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any

from nlptools.configs import option

# gpt2: sizes of Radford et al. 2019; small-char: the 10.6M-parameter character model of nanoGPT's README.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"layers": 4, "hidden": 128, "heads": 4, "context": 128, "batch_size": 16, "lr": 2e-3},
    "small-char": {"layers": 6, "hidden": 384, "heads": 6, "context": 256, "batch_size": 64, "dropout": 0.2},
    "gpt2": {"layers": 12, "hidden": 768, "heads": 12, "context": 1024, "batch_size": 8, "lr": 6e-4},
    "gpt2-medium": {"layers": 24, "hidden": 1024, "heads": 16, "context": 1024, "batch_size": 8, "lr": 3e-4},
    "gpt2-large": {"layers": 36, "hidden": 1280, "heads": 20, "context": 1024, "batch_size": 8, "lr": 2.5e-4},
    "gpt2-xl": {"layers": 48, "hidden": 1600, "heads": 25, "context": 1024, "batch_size": 8, "lr": 2e-4},
}


@dataclass(frozen=True)
class TrainLM:
    """Model options"""

    tokenizer: str = option(
        MISSING,
        "Tokenizer: a name, a SentencePiece .model, a tokenizer.json, a vocabulary, or a model directory.",
        short="-t",
    )
    arch: str = option("transformer", "Architecture.", families=("language", "n-gram"))
    preset: str | None = option(
        None, "Named sizes and training options; other options override them.", choices=tuple(PRESETS)
    )
    vocab: str | None = option(None, "Vocabulary of a tokenizer given by name.", metavar="FILE")
    layers: int = option(4, "Layers.", low=1, metavar="N")
    hidden: int = option(256, "Width of the hidden states.", low=1, metavar="N")
    heads: int = option(4, "Attention heads.", low=1, metavar="N")
    context: int = option(
        256,
        "Length of a training sequence in tokens, and the longest that a transformer can read.",
        low=1,
        metavar="N",
    )
    dropout: float = option(0.0, "Probability of dropout.", low=0, high=0.9, metavar="P")
    init: str | None = option(None, "Start from the weights and sizes of this model directory.", metavar="DIR")
    document: str = option(
        "line",
        "Unit of text that an end-of-text token follows: a line, a paragraph (lines up to an empty one), or a file.",
        choices=("line", "paragraph", "file"),
    )
