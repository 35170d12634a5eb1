"""Settings of models without pretraining: `finetune --scratch`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nlptools.configs import option, word_taggers
from nlptools.configs.word_vectors import lengths
from nlptools.errors import UsageError

HEADS = 4  # attention heads of a transformer
ARCHITECTURES = ("mean", "bag", "cnn", "lstm", "gru", "rnn", "transformer")
# Share of words that are unknown in training, drawn anew each time (Iyyer et al. 2015).
WORD_DROPOUT = {"mean": 0.3, "cnn": 0.3, "lstm": 0.4, "gru": 0.4, "rnn": 0.4, "transformer": 0.1}

_COMMON: dict[str, Any] = {"lr": 1e-3, "epochs": 5.0, "batch_size": 32, "warmup": 0.0, "weight_decay": 0.0}
_RECURRENT = {**_COMMON, "epochs": 6.0, "dim": 100, "hidden_size": 128, "dropout": 0.5}
# Defaults of options for each --scratch, tuned on movie reviews (SST-2).
PRESETS: dict[str, dict[str, Any]] = {
    "mean": {**_COMMON, "lr": 3e-3, "dim": 100, "hidden_size": 100, "dropout": 0.5},
    "bag": {
        "lr": 0.08,
        "epochs": 6.0,
        "batch_size": 0,  # a step costs its 0.4 ms however few examples it has, but few data want many steps
        "warmup": 0.0,
        "weight_decay": 0.0,
        "clip": 0.0,
        "dim": 16,
        "dropout": 0.0,
    },
    "cnn": {**_COMMON, "epochs": 4.0, "dim": 100, "hidden_size": 100, "dropout": 0.5},
    "lstm": _RECURRENT,
    "gru": _RECURRENT,
    "rnn": _RECURRENT,
    "transformer": {**_COMMON, "warmup": 0.1, "dim": 128, "hidden_size": 128, "depth": 2, "dropout": 0.2},
}


def _options(values: dict[str, Any]) -> str:
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in values.items())


# The defaults of each --scratch as options, a paragraph for each, for the manual.
DEFAULTS = "\n\n".join(f"{name}: {_options(values)}" for name, values in {**PRESETS, **word_taggers.PRESETS}.items())


@dataclass(frozen=True)
class Scratch:
    """Options without pretraining"""

    vectors: str | None = option(
        None, "Start from these word vectors, in any format that convert reads.", metavar="FILE"
    )
    tokenizer: str = option("words", "Tokenizer of texts: a name or a path, as in tokenize.", metavar="NAME")
    lowercase: bool = option(True, "Lower-case the texts; tag: only for the lookup of words, not for their characters.")
    min_count: int = option(
        1, "Minimum frequency of a word in the training texts; rarer words are unknown.", low=1, metavar="N"
    )
    dim: int = option(100, "Dimensions of word vectors, without --vectors.", low=1, high=1 << 16, metavar="N")
    hidden_size: int = option(
        128, "Size of a layer: of the MLP, the filters of each width, the states of each direction.", low=1, metavar="N"
    )
    depth: int = option(1, "Number of layers.", low=1, high=64, metavar="N")
    dropout: float = option(0.5, "Dropout before the last layer, and between layers.", low=0, high=0.99, metavar="X")
    word_ngrams: int = option(2, "Maximum length of word n-grams.", low=1, high=16, metavar="N")
    char_ngrams: str | None = option(
        None, "Add n-grams of A to B characters of each word, such as 3-6.", metavar="A-B", check=lengths
    )

    characters: str | None = option(
        None,
        "tag: vector for the spelling of a word, in addition to its word vector: cnn (Ma & Hovy 2016), lstm in both"
        " directions (Lample et al. 2016), or none. Default: cnn.",
        choices=word_taggers.CHARACTERS,
    )
    char_dim: int = option(30, "tag: dimensions of this vector.", low=1, high=1 << 12, metavar="N")
    max_vectors: int = option(
        200_000,
        "tag: words of --vectors, from the top of the file, that the model knows in addition to the training words;"
        " 0: all.",
        low=0,
        metavar="N",
    )

    def check(self, arch: str) -> None:
        """Raises UsageError for options that do not go together."""
        if arch == "transformer" and self.hidden_size % (2 * HEADS):
            raise UsageError(f"--hidden-size {self.hidden_size}: expected a multiple of {2 * HEADS} for a transformer")
        if self.char_ngrams is not None and arch != "bag":
            raise UsageError(f"--char-ngrams goes with --scratch bag, not {arch}")
        if self.characters == "lstm" and self.char_dim % 2:
            raise UsageError(f"--char-dim {self.char_dim}: expected an even number for --characters lstm")
