"""Settings of text classifiers without pretraining: `finetune --scratch`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from nlptools.configs import option
from nlptools.configs.word_vectors import lengths
from nlptools.errors import UsageError

ARCHITECTURES = ("mean", "bag", "cnn", "lstm", "gru", "rnn", "transformer")
POOLINGS = ("mean", "max", "last", "both")

_COMMON: dict[str, Any] = {"lr": 1e-3, "epochs": 5.0, "batch_size": 32, "warmup": 0.0, "weight_decay": 0.0}
_RECURRENT = {
    **_COMMON,
    "epochs": 6.0,
    "dim": 100,
    "hidden_size": 128,
    "pooling": "mean",
    "dropout": 0.5,
    "word_dropout": 0.4,
}
# What --scratch sets unless it is said otherwise: the values of options. Found on movie reviews (SST-2).
PRESETS: dict[str, dict[str, Any]] = {
    "mean": {**_COMMON, "lr": 3e-3, "dim": 100, "hidden_size": 100, "dropout": 0.5, "word_dropout": 0.3},
    "bag": {
        "lr": 0.08,
        "epochs": 6.0,
        "batch_size": 0,  # a step costs its 0.4 ms however few examples it has, but few data want many steps
        "warmup": 0.0,
        "weight_decay": 0.0,
        "clip": 0.0,
        "dim": 16,
        "dropout": 0.0,
        "word_dropout": 0.0,
    },
    "cnn": {
        **_COMMON,
        "epochs": 4.0,
        "dim": 100,
        "hidden_size": 100,
        "pooling": "both",
        "dropout": 0.5,
        "word_dropout": 0.3,
    },
    "lstm": _RECURRENT,
    "gru": _RECURRENT,
    "rnn": _RECURRENT,
    "transformer": {
        **_COMMON,
        "warmup": 0.1,
        "dim": 128,
        "hidden_size": 128,
        "depth": 2,
        "pooling": "mean",
        "dropout": 0.2,
        "word_dropout": 0.1,
    },
}


def told(presets: dict[str, dict[str, Any]]) -> str:
    """The presets as options, a paragraph for each."""

    def options(values: dict[str, Any]) -> str:
        return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in values.items())

    return "\n\n".join(f"{name}: {options(values)}" for name, values in presets.items())


def kernel_sizes(text: str) -> tuple[int, ...]:
    """The widths in `3,4,5`. Raises UsageError."""
    if not re.fullmatch(r"[1-9]\d?(,[1-9]\d?)*", text):
        raise UsageError(f"not widths of windows: {text!r}, expected something like 3,4,5")
    return tuple(map(int, text.split(",")))


@dataclass(frozen=True)
class Scratch:
    """Options without pretraining"""

    vectors: str | None = option(
        None, "Begin with the word vectors of this file, in any format that convert reads.", metavar="FILE"
    )
    tokenizer: str = option("words", "What cuts the texts: a name or a path, as in tokenize.", metavar="NAME")
    lowercase: bool = option(True, "Lower-case the texts.")
    min_count: int = option(1, "Words of the training texts that occur less often are unknown.", low=1, metavar="N")
    dim: int = option(100, "Numbers of a word's vector; --vectors brings its own.", low=1, high=1 << 16, metavar="N")
    hidden_size: int = option(
        128, "Size of a layer: of the MLP, filters of each width, states of each direction.", low=1, metavar="N"
    )
    depth: int = option(1, "Layers (lstm, gru, rnn, transformer).", low=1, high=64, metavar="N")
    heads: int = option(4, "Attention heads (transformer).", low=1, metavar="N")
    bidirectional: bool = option(True, "Read from both ends (lstm, gru, rnn).")
    pooling: str = option(
        "max",
        "From states to one vector (cnn, lstm, gru, rnn, transformer); last is the end of reading, both max and mean.",
        choices=POOLINGS,
    )
    kernel_sizes: str = option("3,4,5", "Widths of the windows (cnn).", metavar="N,...", check=kernel_sizes)
    dropout: float = option(0.5, "Dropout before the last layer, and between layers.", low=0, high=0.99, metavar="X")
    word_dropout: float = option(
        0.1, "Share of words that are unknown in training, drawn anew each time.", low=0, high=0.99, metavar="X"
    )
    word_ngrams: int = option(2, "Longest n-grams of words (bag).", low=1, high=16, metavar="N")
    char_ngrams: str | None = option(
        None, "Add n-grams of so many characters, such as 3-6 (bag).", metavar="A-B", check=lengths
    )
    buckets: int = option(
        2_000_000, "How many different n-grams are told apart (bag).", low=1, high=1 << 31, metavar="N"
    )

    def check(self, arch: str) -> None:
        """Raises UsageError for options that do not go together."""
        if arch == "transformer" and self.hidden_size % (2 * self.heads):
            raise UsageError(f"--hidden-size {self.hidden_size} is no even multiple of --heads {self.heads}")
        if self.char_ngrams is not None and arch != "bag":
            raise UsageError(f"--char-ngrams goes with --scratch bag, not {arch}")
