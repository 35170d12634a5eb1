"""Settings of encoder pretraining."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nlptools.configs import Training, option, redefined
from nlptools.configs.combinations import check_combinations
from nlptools.errors import UsageError

OBJECTIVES = ("bert", "mlm", "electra")


def _sizes(layers: int, hidden: int, heads: int, inner: int = 0) -> dict[str, object]:
    return {"layers": layers, "hidden": hidden, "heads": heads, "intermediate": inner or 4 * hidden}


# Devlin et al. 2019, A.2: a million steps of 256 sequences, of 128 tokens for the first 90% of the steps, then of 512.
_BERT = {
    "lr": 1e-4,
    "warmup": 0.01,
    "steps": 1_000_000,
    "weight_decay": 0.01,
    "beta2": 0.999,
    "schedule": "linear",
    "min_lr": 0.0,
    "max_length": 128,
    "long_phase": "512:0.1",
    "dropout": 0.1,
}
# The sizes of the small models of Turc et al. 2019 (arXiv:1908.08962), trained as the small BERT of Clark et al. 2020.
_SMALL = {**_BERT, "lr": 5e-4, "batch_size": 128, "long_phase": None}
# The sizes of mini, with the best settings for a short training: many small steps, many predictions, short sequences, no
# dropout.
_HOUR = {
    "objective": "mlm",
    "mask_rate": 0.3,
    "max_length": 64,
    "batch_size": 16,
    "dropout": 0.0,
    "lr": 1e-3,
    "warmup": 400,
    "steps": 16_000,
    "beta2": 0.98,
}
# Clark et al. 2020, table 6; warm-up of 10,000 steps.
_ELECTRA = {**_BERT, "objective": "electra", "long_phase": None}
PRESETS: dict[str, dict[str, object]] = {
    "tiny": {**_sizes(2, 128, 2), **_SMALL},
    "mini": {**_sizes(4, 256, 4), **_SMALL},
    "hour": {**_sizes(4, 256, 4), **_HOUR},
    "small": {**_sizes(4, 512, 8), **_SMALL},
    "medium": {**_sizes(8, 512, 8), **_SMALL},
    "base": {**_sizes(12, 768, 12), **_BERT, "batch_size": 64, "accumulate": 4},
    "large": {**_sizes(24, 1024, 16), **_BERT, "batch_size": 32, "accumulate": 8},
    "electra-small": {
        **_sizes(12, 256, 4),
        **_ELECTRA,
        "embedding": 128,
        "generator_size": 0.25,
        "lr": 5e-4,
        "batch_size": 128,
    },
    "electra-base": {
        **_sizes(12, 768, 12),
        **_ELECTRA,
        "embedding": 768,
        "generator_size": 1 / 3,
        "lr": 2e-4,
        "steps": 766_000,
        "warmup": 0.01305,
        "max_length": 512,
        "batch_size": 16,
        "accumulate": 16,
    },
}


def long_phase(text: str) -> tuple[int, float]:
    """(sequence length, share of the steps at the end) of a text such as `512:0.1`. Raises UsageError."""
    match = re.fullmatch(r"(\d{1,9}):(0?\.\d+|0|1|1\.0*|0\.0*)", text)
    if not match or int(match[1]) < 8 or not 0 < float(match[2]) < 1:
        raise UsageError(f"not a length and a share of the steps: {text!r}, expected something like 512:0.1")
    return int(match[1]), float(match[2])


@dataclass(frozen=True)
class TrainBert:
    """Model options"""

    tokenizer: str | None = option(
        None,
        "Tokenizer with [CLS], [SEP], [MASK] and [PAD]: a tokenizer.json, a vocab.txt, or a model directory. Default:"
        " the tokenizer of --init.",
        short="-t",
        metavar="PATH",
    )
    objective: str = option(
        "bert",
        "Predict masked tokens and whether the second segment follows the first (bert; Devlin et al. 2019), masked"
        " tokens only (mlm), or which tokens a generator has replaced (electra; Clark et al. 2020).",
        choices=OBJECTIVES,
    )
    preset: str | None = option(
        None,
        "Named sizes and training schedule; shorten it with --steps or --max-time. FORMATS lists the cost of each.",
        choices=tuple(PRESETS),
        needs={name: ("objective electra",) for name in PRESETS if name.startswith("electra")},
    )
    layers: int = option(4, "Layers.", low=1, metavar="N")
    hidden: int = option(256, "Width of the hidden states.", low=2, metavar="N")
    heads: int = option(4, "Attention heads.", low=1, metavar="N")
    intermediate: int = option(0, "Inner width of the layers; 0: 4 times --hidden.", low=0, metavar="N")
    embedding: int = option(
        0, "Width of the embeddings; 0: --hidden.", low=0, metavar="N", only={"objective": ("electra",)}
    )
    generator_size: float = option(
        0.25,
        "Width of the generator, as a share of --hidden.",
        low=0,
        high=1,
        metavar="SHARE",
        only={"objective": ("electra",)},
    )
    dropout: float = option(
        0.1, "Probability of dropout, including dropout of the attention weights.", low=0, high=0.9, metavar="P"
    )
    attention: str = option(
        "neighbors",
        "Initial attention of a new model: heads of the first block attend to neighboring tokens, which saves thousands"
        " of steps (neighbors), or random weights, as published (random).",
        choices=("neighbors", "random"),
    )
    init: str | None = option(
        None,
        "Start from the weights and sizes of this BERT or ELECTRA directory; missing heads are initialized at random.",
        metavar="DIR",
    )
    sentences: str = option(
        "lines",
        "Where sentences end: at line ends (lines), or at detected sentence boundaries of running text (auto). Documents"
        " end at blank lines.",
        choices=("lines", "auto"),
    )
    max_length: int = option(128, "Tokens of a sequence, special tokens included.", low=8, metavar="N")
    long_phase: str | None = option(
        None,
        "Train on longer sequences for the last share of the steps, such as 512:0.1; the tokens per step stay the same.",
        metavar="LENGTH:SHARE",
        check=long_phase,
    )
    mask_rate: float = option(0.15, "Share of the tokens to predict.", low=0.01, high=0.9, metavar="P")
    whole_word: bool = option(False, "Mask all pieces of a word or none.")
    span: bool = option(False, "Mask runs of words (Joshi et al. 2020) instead of single tokens.")

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        check_combinations(self)
        if self.tokenizer is None and self.init is None:
            raise UsageError("no tokenizer: give --tokenizer, or --init with a model to start from")
        if self.hidden % self.heads:
            raise UsageError(f"--hidden {self.hidden} is not a multiple of --heads {self.heads}")
        if self.long_phase is not None and long_phase(self.long_phase)[0] <= self.max_length:
            raise UsageError(
                f"--long-phase {self.long_phase}: the length must be more than --max-length {self.max_length}"
            )

    @property
    def longest(self) -> int:
        """Number of tokens of the longest sequences."""
        return max(self.max_length, long_phase(self.long_phase)[0] if self.long_phase else 0)


@dataclass(frozen=True)
class Pretraining(Training):
    """Training options"""

    valid: str | None = redefined(
        Training, "valid", None, "Held-out text for validation, with the same masks every time."
    )
    batch_size: int = redefined(
        Training, "batch_size", 32, "Sequences of --max-length per step and process; shorter ones share a row."
    )
    lr: float = redefined(Training, "lr", 5e-4)
    min_lr: float = redefined(Training, "min_lr", 0.0)
    warmup: float = redefined(Training, "warmup", 0.01)
    schedule: str = redefined(Training, "schedule", "linear")
    weight_decay: float = redefined(Training, "weight_decay", 0.01)
    beta2: float = redefined(Training, "beta2", 0.999)
    log_every: str = redefined(Training, "log_every", "50")
