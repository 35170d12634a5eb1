"""Options of training language models that all neural architectures share; `architectures` holds the others."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from nlptools.configs import REQUIRED, Compute, Training, option
from nlptools.configs.combinations import check_combinations
from nlptools.configs.lm_presets import PRESETS


@dataclass(frozen=True)
class TrainLM:
    """Model options"""

    groups: ClassVar[tuple[type, ...]] = (Training, Compute)  # the other options of training such a model

    tokenizer: str = option(
        REQUIRED,
        "Tokenizer: a name, a SentencePiece .model, a tokenizer.json, a vocabulary, or a model directory.",
        short="-t",
    )
    vocab: str | None = option(None, "Vocabulary of a tokenizer given by name.", metavar="FILE")
    document: str = option(
        "line",
        "Unit of text that ends with an end-of-text token: a line, a paragraph (lines up to an empty line), or a file.",
        choices=("line", "paragraph", "file"),
    )
    arch: str = option("transformer", "Architecture.", metavar="NAME")
    preset: str | None = option(
        None,
        "Named architecture, sizes and training options; other options take precedence:",
        choices=tuple(PRESETS),
        metavar="NAME",
    )
    layers: int = option(4, "Layers.", low=1, metavar="N")
    hidden: int = option(256, "Width of the hidden states.", low=1, metavar="N")
    context: int = option(256, "Tokens of a training sequence.", low=1, metavar="N")
    dropout: float = option(0.0, "Probability of dropout.", low=0, high=0.9, metavar="P")
    init: str | None = option(None, "Start from the weights and sizes of this model directory.", metavar="DIR")
    vectors: str | None = option(
        None,
        "Start from the word vectors of this file or directory, in any format that convert reads. Tokens without a vector get"
        " random vectors of the same variance. The vectors must have the size of the embeddings (--hidden).",
        metavar="FILE",
        excludes=("init",),
    )
    freeze_embeddings: bool = option(
        False,
        "Do not train the embeddings of tokens with a vector. A tied output is also frozen for them.",
        needs=("vectors",),
    )
    carry: bool = option(
        False,
        "Treat all documents as one stream: a model with a state carries it from batch to batch, other models read windows"
        " in random order. --valid is measured as by score --carry, where tokens also see earlier documents.",
    )

    @property
    def shared(self) -> dict[str, object]:
        """The options that all architectures have, but the architecture itself."""
        return {each.name: getattr(self, each.name) for each in fields(TrainLM) if each.name != "arch"}

    @property
    def varies_context(self) -> bool:
        """Whether the length of training sequences varies around `context`."""
        return False

    @property
    def needs_frequencies(self) -> str | None:
        """The option that expects a vocabulary in the order of frequency, if one is set."""
        return None

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_combinations(self)
