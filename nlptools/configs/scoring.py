"""Options of scoring."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from nlptools.configs import option
from nlptools.configs.tasks import changed
from nlptools.errors import UsageError

MEASURES = ("surprisal", "rank", "entropy", "tokens", "unknown")  # of --per word
LOGARITHMS = {"2": math.log(2), "e": 1.0, "10": math.log(10)}  # nats in one unit


def mixture_weights(text: str) -> tuple[float, ...]:
    """Weights in a text such as `.7,.3`, which sum to 1. Raises UsageError."""
    numbers = _numbers(text)
    if not numbers or not all(0 <= number <= 1 for number in numbers) or abs(sum(numbers) - 1) > 1e-6:
        raise UsageError(f"{text!r}: expected numbers such as .7,.3, one for each model, that sum to 1")
    return numbers


def cache_settings(text: str) -> tuple[float, float]:
    """The weight and the flatness of a cache in a text such as `.1,.3`. Raises UsageError."""
    numbers = _numbers(text)
    if len(numbers) != 2 or not 0 <= numbers[0] < 1 or not 0 <= numbers[1] < math.inf:
        raise UsageError(f"{text!r}: expected two numbers such as .1,.3: a weight below 1, and a factor of at least 0")
    return numbers[0], numbers[1]


def _numbers(text: str) -> tuple[float, ...]:
    """The numbers between commas; none if one of them is not a number."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        return ()


_MIXTURE: dict[str, Any] = {"section": "Mixtures"}
_ADAPTATION: dict[str, Any] = {"section": "Adaptation to the text"}


@dataclass(frozen=True)
class Score:
    """Scoring options"""

    per: str = option(
        "line",
        "Unit of the output: log-probability per line or per token, surprisal per word, or perplexity of the whole"
        " text (total).",
        choices=("line", "token", "word", "total"),
    )
    to: str = option(
        "text",
        "Output format: fields between tabs, or a JSON object per line.",
        choices=("text", "jsonl"),
        was={"--json": "--to jsonl"},
    )
    choices: bool = option(
        False,
        "Score alternatives: the log-probability of each choice of a record, given the context of the record. Writes"
        " JSON lines, and the accuracy if the records have answers; with --per total only the accuracy.",
        section="Choices",
    )
    unconditional: str | None = option(
        None,
        "Also score each choice after TEXT alone, and select choices by the difference. '': after the start of a text.",
        metavar="TEXT",
        section="Choices",
    )
    by: str | None = option(
        None,
        "Also print the accuracy for each value of this column or key, such as phenomenon.",
        metavar="COLUMN",
        section="Choices",
    )
    target_delimiter: str = option(
        " ",
        "Text between a context and its choices, unless either has white space there. Prompts of the prompt command"
        " need none.",
        metavar="TEXT",
        was={"--delimiter": "--target-delimiter"},
        section="Choices",
    )
    strict: bool = option(
        False,
        "Refuse a context that exceeds the context length of the model together with its choices. Default: cut it on"
        " the left, and count it.",
        section="Choices",
    )
    text_column: str | None = option(
        None,
        "Score this column of a table (CSV, Parquet or JSON lines by suffix, otherwise fields between tabs) and keep"
        " the others. A column is a name in the first line, or a number from 1 (-1: the last).",
        metavar="NAME",
        was={"--field": "--text-column"},
    )
    masked: str | None = option(
        None,
        "Score with a masked language model (BERT): the log-probability of each token given all others. pll masks one"
        " token at a time; within-word also masks the later pieces of its word. Without a value: pll.",
        choices=("pll", "within-word"),
        bare="pll",
        metavar="[HOW]",
    )
    measures: tuple[str, ...] = option(
        ("surprisal",),
        "Measures of each word: surprisal; rank of the first token of the word among all tokens; entropy of the distribution of"
        " this token; tokens, their number; unknown, 1 if the model does not know a token of the word, else 0.",
        choices=MEASURES,
        was={"--columns": "--measures"},
        section="Words",
    )
    base: str | None = option(
        None,
        "Base of the logarithm of surprisals and entropies: 2 (bits), e (nats) or 10. Default: 2.",
        choices=tuple(LOGARITHMS),
        section="Words",
    )
    boundary_correction: bool = option(
        True,
        "Include the end of a word in its surprisal, where the first piece of a word contains the space before it.",
        section="Words",
    )
    stride: int = option(
        0,
        "Tokens from one window to the next in texts longer than the context; fewer give each token more context and"
        " take longer. 0: the context length, with --carry half of it. The last window is moved back until it is full;"
        " a token counts in the first window that contains it.",
        low=0,
        metavar="N",
    )
    document: str | None = option(
        None,
        "Unit that --per total scores independently. Default: as in training.",
        choices=("line", "paragraph", "file"),
    )
    carry: bool = option(
        False,
        "Score the input as one stream, in which tokens of earlier lines and documents are context. A recurrent model"
        " carries its state; others see the last tokens that fit into their context.",
    )
    mixed: tuple[str, ...] = option(
        (),
        "Interpolate with this model: the probability of a token is the weighted mean over all models.",
        flag="with",
        multiple=True,
        metavar="MODEL",
        **_MIXTURE,
    )
    mix_weights: str | None = option(
        None,
        "Weights of the models, MODEL first, with sum 1. Default: equal weights, or the weights of the saved mixture.",
        metavar="P,P,...",
        check=mixture_weights,
        was={"--weights": "--mix-weights"},
        **_MIXTURE,
    )
    tune: str | None = option(
        None,
        "Find the mixture weights and the --cache-settings with the lowest perplexity on this held-out text.",
        metavar="FILE",
        **_MIXTURE,
    )
    save: str | None = option(
        None,
        "Save the mixture as a model directory for score and generate. It contains the models, as hard links where"
        " possible.",
        metavar="DIR",
        **_MIXTURE,
    )
    cache: int = option(
        0,
        "Neural cache of the last N tokens (Grave et al. 2017): raise the probability of tokens that followed a"
        " similar hidden state. Implies --carry.",
        low=0,
        metavar="N",
        **_ADAPTATION,
    )
    cache_settings: str | None = option(
        None,
        "Weight of the cache, and scale of the similarities. Default: .1,.3; --tune finds better values.",
        metavar="P,X",
        check=cache_settings,
        **_ADAPTATION,
    )
    dynamic: float = option(
        0.0,
        "Dynamic evaluation (Krause et al. 2018): train on each segment after it is scored, by gradient descent with"
        " this learning rate. Implies --carry. The model directory does not change.",
        low=0,
        metavar="RATE",
        **_ADAPTATION,
    )
    dynamic_decay: float = option(
        0.0,
        "Fraction of the way back to the saved weights that each update goes.",
        low=0,
        high=1,
        metavar="X",
        **_ADAPTATION,
    )
    dynamic_segment: int = option(20, "Tokens per update.", low=1, metavar="N", **_ADAPTATION)
    eos: bool = option(
        True,
        "Score the end-of-text token of each line or document. --no-eos without --stride gives the values of"
        " loglikelihood_rolling in lm-evaluation-harness.",
    )
    batch_tokens: int = option(4096, "Tokens per batch, padding included.", low=1, metavar="N")
    quantize: str | None = option(
        None,
        "Round weights and activations to 8 bits in matrix products, as generate --quantize int8 does.",
        choices=("int8",),
        was={"--weights int8": "--quantize int8"},
    )
    memory_length: int | None = option(
        None,
        "Positions of memory that a Transformer-XL attends to; more than in training often help. Default: from the"
        " model directory.",
        low=0,
        high=1 << 20,
        metavar="N",
    )

    @property
    def json(self) -> bool:
        """Whether the output is JSON lines."""
        return self.to == "jsonl"

    @property
    def unit(self) -> float:
        """Nats in one unit of surprisal."""
        return LOGARITHMS[self.base or "2"]

    @property
    def one_stream(self) -> bool:
        """Whether what comes before a line or a document has an influence on its scores."""
        return self.carry or self.cache > 0 or self.dynamic > 0

    def check(self) -> None:
        """Raise UsageError for options that cannot be combined."""
        if self.per == "total" and not self.eos and self.one_stream:
            raise UsageError("--no-eos with --per total does not go with --carry: documents of a stream have an end")
        if self.per == "word" and not self.eos:
            raise UsageError("--no-eos does not go with --per word, which never writes the end of text")
        if self.per != "total" and self.document:
            raise UsageError("--document goes with --per total; otherwise each line is scored independently")
        for_words = {
            "--measures": self.measures != ("surprisal",),
            "--base": self.base is not None,
            "--no-boundary-correction": not self.boundary_correction,
        }
        if self.per != "word" and (flags := [flag for flag, given in for_words.items() if given]):
            raise UsageError(f"{flags[0]} goes with --per word")
        if len(set(self.measures)) < max(1, len(self.measures)):
            raise UsageError("--measures: expected different ones")
        self._check_choices()
        self._check_text_column()
        self._check_masked()
        self._check_mixture()
        self._check_adaptation()

    def _check_choices(self) -> None:
        if not self.choices:
            if flags := changed(self, ("unconditional", "by", "target_delimiter", "strict")):
                raise UsageError(f"{flags[0]} goes with --choices")
            return
        if self.per not in ("line", "total"):
            raise UsageError(f"--per {self.per} does not go with --choices: expected line or total")
        unfit = ("text_column", "masked", "stride", "document", "carry", "tune", "save", "cache", "dynamic", "eos")
        if flags := changed(self, unfit):
            raise UsageError(
                f"{flags[0].replace('--eos', '--no-eos')} does not go with --choices",
                hint="choices are scored given their context, and written as JSON lines",
            )

    def _check_masked(self) -> None:
        if self.masked is None:
            return
        unfit = {
            "--no-eos": not self.eos,
            "--document": self.document is not None,
            "--stride": self.stride != 0,
            "--carry": self.carry,
            "--with": len(self.mixed) > 0,
            "--tune": self.tune is not None,
            "--cache": self.cache > 0,
            "--dynamic": self.dynamic > 0,
            "--memory-length": self.memory_length is not None,
            "--no-boundary-correction": not self.boundary_correction,
        }
        if flags := [flag for flag, given in unfit.items() if given]:
            raise UsageError(
                f"{flags[0]} does not go with --masked",
                hint="lines are scored one by one, each token in the middle of its context, without an end of text",
            )

    def _check_mixture(self) -> None:
        if self.quantize is not None:
            unfit = {
                "--with": len(self.mixed) > 0,
                "--mix-weights": self.mix_weights is not None,
                "--tune": self.tune is not None,
                "--save": self.save is not None,
                "--masked": self.masked is not None,
                "--dynamic": self.dynamic > 0,
            }
            if flags := [flag for flag, given in unfit.items() if given]:
                raise UsageError(f"{flags[0]} does not go with --quantize, which rounds the weights of a single model")
            return
        if self.mix_weights is not None and self.tune is not None:
            raise UsageError("--mix-weights does not go with --tune, which chooses them")
        if (
            self.mix_weights is not None
            and self.mixed
            and len(mixture_weights(self.mix_weights)) != 1 + len(self.mixed)
        ):
            count = len(mixture_weights(self.mix_weights))
            raise UsageError(f"--mix-weights has {count} numbers, the mixture has {1 + len(self.mixed)} models")

    def _check_adaptation(self) -> None:
        if self.cache_settings is not None and not self.cache:
            raise UsageError("--cache-settings goes with --cache")
        if self.cache_settings is not None and self.tune is not None:
            raise UsageError("--cache-settings does not go with --tune, which chooses them")
        if self.cache and self.per == "word":
            raise UsageError("--cache does not go with --per word, which needs whole distributions")
        if not self.dynamic and (self.dynamic_decay or self.dynamic_segment != 20):
            raise UsageError("--dynamic-decay and --dynamic-segment go with --dynamic")
        if self.dynamic and self.stride:
            raise UsageError("--stride does not go with --dynamic: windows move on by --dynamic-segment")

    def _check_text_column(self) -> None:
        if self.text_column is None:
            return
        if self.text_column.lstrip("-").isdecimal() and int(self.text_column) == 0:
            raise UsageError("--text-column: columns count from 1, or from -1 for the last")
        if self.per not in ("line", "word") or self.json:
            raise UsageError(
                "--text-column keeps columns of lines or words: it does not go with --to jsonl or with --per token or total"
            )
