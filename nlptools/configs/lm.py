"""Options of training language models."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any

from nlptools.configs import check_architecture, option
from nlptools.configs.ngram import SMOOTHINGS, limits, weights
from nlptools.errors import UsageError

# gpt2: sizes of Radford et al. 2019; small-char: the 10.6M-parameter character model of nanoGPT's README.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"layers": 4, "hidden": 128, "heads": 4, "context": 128, "batch_size": 16, "lr": 2e-3},
    "small-char": {"layers": 6, "hidden": 384, "heads": 6, "context": 256, "batch_size": 64, "dropout": 0.2},
    "gpt2": {"layers": 12, "hidden": 768, "heads": 12, "context": 1024, "batch_size": 8, "lr": 6e-4},
    "gpt2-medium": {"layers": 24, "hidden": 1024, "heads": 16, "context": 1024, "batch_size": 8, "lr": 3e-4},
    "gpt2-large": {"layers": 36, "hidden": 1280, "heads": 20, "context": 1024, "batch_size": 8, "lr": 2.5e-4},
    "gpt2-xl": {"layers": 48, "hidden": 1600, "heads": 25, "context": 1024, "batch_size": 8, "lr": 2e-4},
}


_NGRAM: dict[str, Any] = {"architectures": ("ngram",), "section": "Options of n-gram models"}


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
    heads: int = option(4, "Attention heads.", low=1, metavar="N", architectures=("transformer",))
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
    carry: bool = option(
        False,
        "Validate on --valid as score --carry does: each token given all tokens before it, those of earlier documents included.",
    )
    order: int = option(5, "Words of the longest n-grams.", low=1, high=7, metavar="N", **_NGRAM)
    smoothing: str = option(
        "kneser-ney",
        "Estimation of rare and unseen n-grams; kneser-ney is interpolated modified Kneser-Ney, as in KenLM.",
        choices=SMOOTHINGS,
        **_NGRAM,
    )
    prune: str | None = option(
        None,
        "Leave out n-grams that occur at most N times, for 1, 2, ... words; the last number holds for longer ones.",
        metavar="0,N,...",
        check=limits,
        **_NGRAM,
    )
    weights: str | None = option(
        None,
        "Weights of n-grams of 1, 2, ... words (jelinek-mercer). Default: the best ones for the text of --valid.",
        metavar="P,P,...",
        check=weights,
        **_NGRAM,
    )
    add: float = option(1.0, "Number added to each count (add-k).", low=1e-9, high=1e6, metavar="K", **_NGRAM)
    arpa: str | None = option(None, "Also write the model to this ARPA file.", metavar="FILE", **_NGRAM)

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_architecture(self, self.arch)
        if self.weights is not None and self.smoothing != "jelinek-mercer":
            raise UsageError("--weights goes with --smoothing jelinek-mercer")
        if self.weights is not None and len(weights(self.weights)) != self.order:
            raise UsageError(
                f"--weights has {len(weights(self.weights))} numbers, --order {self.order} needs {self.order}"
            )
        if self.add != 1.0 and self.smoothing != "add-k":
            raise UsageError("--add goes with --smoothing add-k")
