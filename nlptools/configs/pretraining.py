"""Settings of pretraining encoders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from nlptools.configs import Training, interval, option
from nlptools.errors import UsageError

OBJECTIVES = ("bert", "mlm", "electra")


def _sizes(layers: int, hidden: int, heads: int, inner: int = 0) -> dict[str, Any]:
    return {"layers": layers, "hidden": hidden, "heads": heads, "intermediate": inner or 4 * hidden}


# What Devlin et al. 2019 did, A.2: a million steps of 256 sequences, 128 tokens long nine tenths of the time, then 512.
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
# The small models of Turc et al. 2019 (arXiv:1908.08962) in size; trained as Clark et al. 2020 trained their small BERT.
_SMALL = {**_BERT, "lr": 5e-4, "batch_size": 128, "long_phase": None}
# The sizes of mini, and what little time is best spent on: many small steps, many predictions, short sequences, no dropout.
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
PRESETS: dict[str, dict[str, Any]] = {
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
    """(length, share of the steps at the end) of a text such as `512:0.1`. Raises UsageError."""
    found = re.fullmatch(r"(\d{1,9}):(0?\.\d+|0|1|1\.0*|0\.0*)", text)
    if not found or int(found[1]) < 8 or not 0 < float(found[2]) < 1:
        raise UsageError(f"not a length and a share of the steps: {text!r}, expected something like 512:0.1")
    return int(found[1]), float(found[2])


@dataclass(frozen=True)
class TrainBert:
    """Model options"""

    tokenizer: str | None = option(
        None,
        "Tokenizer with [CLS], [SEP], [MASK] and [PAD]: a tokenizer.json, a vocab.txt, or a model directory; by default"
        " that of --init.",
        short="-t",
        metavar="PATH",
    )
    objective: str = option(
        "bert",
        "What is learned: masked tokens and whether the second segment follows the first (bert; Devlin et al. 2019),"
        " masked tokens alone (mlm), or which tokens a generator has replaced (electra; Clark et al. 2020).",
        choices=OBJECTIVES,
    )
    preset: str | None = option(
        None,
        "Sizes and published training with a name; --steps and --max-time make it shorter. FORMATS says what each costs.",
        choices=tuple(PRESETS),
    )
    layers: int = option(4, "Layers.", low=1, metavar="N")
    hidden: int = option(256, "Width of the hidden states.", low=2, metavar="N")
    heads: int = option(4, "Attention heads.", low=1, metavar="N")
    intermediate: int = option(0, "Inner width of the layers; 0: 4 times --hidden.", low=0, metavar="N")
    embedding: int = option(0, "Width of ELECTRA's embeddings; 0: --hidden.", low=0, metavar="N")
    generator_size: float = option(
        0.25, "Width of ELECTRA's generator, as a share of --hidden.", low=0, high=1, metavar="SHARE"
    )
    dropout: float = option(
        0.1, "Probability of dropout, that of the attention weights included.", low=0, high=0.9, metavar="P"
    )
    attention: str = option(
        "neighbors",
        "What attention begins with in a new model: in its first block, with the tokens before and behind, which saves"
        " thousands of steps (neighbors), or with chance alone, as published (random).",
        choices=("neighbors", "random"),
    )
    init: str | None = option(
        None,
        "Go on from the weights and sizes of this BERT or ELECTRA directory; heads that it lacks are drawn anew.",
        metavar="DIR",
    )
    sentences: str = option(
        "lines",
        "Where sentences end: at line ends, or where running text has them (auto). Documents end at blank lines.",
        choices=("lines", "auto"),
    )
    max_length: int = option(128, "Tokens of a sequence, marks included.", low=8, metavar="N")
    long_phase: str | None = option(
        None,
        "Train the last share of the steps on longer sequences, such as 512:0.1; the tokens of a step stay as many.",
        metavar="LENGTH:SHARE",
        check=long_phase,
    )
    short_rate: float = option(0.1, "Share of sequences of a random shorter length.", low=0, high=1, metavar="P")
    mask_rate: float = option(0.15, "Share of the tokens to be predicted.", low=0.01, high=0.9, metavar="P")
    whole_word: bool = option(False, "Mask all pieces of a word or none.")
    span: bool = option(False, "Mask runs of words (Joshi et al. 2020) instead of single tokens.")

    def check(self) -> None:
        """Raises UsageError for options that do not go together."""
        if self.tokenizer is None and self.init is None:
            raise UsageError("give a tokenizer with --tokenizer, or a model to go on from with --init")
        if (self.preset or "").startswith("electra") and self.objective != "electra":
            raise UsageError(f"--preset {self.preset} is an ELECTRA, --objective says {self.objective}")
        if self.hidden % self.heads:
            raise UsageError(f"--hidden {self.hidden} is not a multiple of --heads {self.heads}")
        if self.embedding and self.objective != "electra":
            raise UsageError("--embedding is for --objective electra: a BERT's embeddings are as wide as --hidden")
        if self.long_phase is not None and long_phase(self.long_phase)[0] <= self.max_length:
            raise UsageError(f"--long-phase {self.long_phase} is not longer than --max-length {self.max_length}")

    @property
    def longest(self) -> int:
        """Tokens of the longest sequences."""
        return max(self.max_length, long_phase(self.long_phase)[0] if self.long_phase else 0)


@dataclass(frozen=True)
class Pretraining(Training):
    """Training options"""

    valid: str | None = option(None, "Held-out text to measure on, with the same masks every time.", metavar="FILE")
    batch_size: int = option(
        32, "Sequences of --max-length per step and process; shorter ones share a row.", low=1, metavar="N"
    )
    batch_tokens: int = option(
        0, "Tokens per step and process, padding included, in place of --batch-size.", low=0, metavar="N"
    )
    lr: float = option(5e-4, "Peak learning rate.", low=0, metavar="X")
    min_lr: float = option(
        0.0,
        "Final learning rate, as a share of the peak; constant and inverse-sqrt do not use it.",
        low=0,
        high=1,
        metavar="X",
    )
    warmup: float = option(0.01, "Linear warm-up: steps, or a share of all steps when below 1.", low=0, metavar="STEPS")
    schedule: str = option(
        "linear",
        "Learning rate after the warm-up: trapezoid holds it and falls over the last fifth, inverse-sqrt falls with the"
        " square root of the step (Vaswani et al. 2017).",
        choices=("linear", "cosine", "trapezoid", "constant", "inverse-sqrt"),
    )
    weight_decay: float = option(0.01, "Decay of matrices (AdamW).", low=0, metavar="X")
    beta2: float = option(0.999, "Second-moment decay of AdamW.", low=0, high=1, metavar="X")
    log_every: str = option("50", "Report interval, as --save-every.", check=interval)
