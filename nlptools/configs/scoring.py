"""Options of scoring."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nlptools.configs import option, quantize_option
from nlptools.configs.combinations import check_combinations
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


_MIXTURE = "Mixtures"
_ADAPTATION = "Adaptation to the text"


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
        "Output format: tab-separated fields, or a JSON object per line.",
        choices=("text", "jsonl"),
        was={"--json": "--to jsonl"},
    )
    choices: bool = option(
        False,
        "Score alternatives: the log-probability of each choice of a record, given the context of the record. Writes"
        " JSON lines, and the accuracy if the records have answers; with --per total only the accuracy.",
        section="Choices",
        only={"per": ("line", "total")},
        excludes=("text_column", "masked", "stride", "document", "carry", "tune", "save", "cache", "dynamic", "eos"),
    )
    unconditional: str | None = option(
        None,
        "Also score each choice after TEXT alone, and select choices by the difference. '': after the start of a text.",
        metavar="TEXT",
        section="Choices",
        needs=("choices",),
    )
    by: str | None = option(
        None,
        "Also print the accuracy for each value of this column or key, such as phenomenon.",
        metavar="COLUMN",
        section="Choices",
        needs=("choices",),
    )
    target_delimiter: str = option(
        " ",
        "Text between a context and its choices, unless either has white space there. Prompts written by nlptools prompt"
        " need none.",
        metavar="TEXT",
        was={"--delimiter": "--target-delimiter"},
        section="Choices",
        needs=("choices",),
    )
    strict: bool = option(
        False,
        "Refuse a record that does not fit in the context of the model. Default: cut the context of the record on the left,"
        " and report how many were cut.",
        section="Choices",
        needs=("choices",),
    )
    text_column: str | None = option(
        None,
        "Score this column of a table (CSV, Parquet or JSON lines by suffix, otherwise tab-separated fields) and keep"
        " the others. A column is a name in the first line, or a number from 1 (-1: the last).",
        metavar="NAME",
        was={"--field": "--text-column"},
        only={"per": ("line", "word"), "to": ("text",)},
    )
    masked: str | None = option(
        None,
        "Score with a masked language model (BERT): the log-probability of each token given all others. pll masks one"
        " token at a time; within-word also masks the later pieces of its word. Without a value: pll.",
        choices=("pll", "within-word"),
        bare="pll",
        metavar="[HOW]",
        excludes=(
            "eos",
            "document",
            "stride",
            "carry",
            "mixed",
            "tune",
            "cache",
            "dynamic",
            "memory_length",
            "boundary_correction",
        ),
    )
    measures: tuple[str, ...] = option(
        ("surprisal",),
        "Measures of each word: surprisal; rank of its first token among all tokens; entropy of the distribution of"
        " this token; tokens: the number of tokens; unknown: 1 if one of them is unknown to the model, else 0.",
        choices=MEASURES,
        was={"--columns": "--measures"},
        section="Words",
        only={"per": ("word",)},
    )
    base: str | None = option(
        None,
        "Base of the logarithm of surprisals and entropies: 2 (bits), e (nats) or 10. Default: 2.",
        choices=tuple(LOGARITHMS),
        section="Words",
        only={"per": ("word",)},
    )
    boundary_correction: bool = option(
        True,
        "Include the end of a word in its surprisal, if the tokenizer joins a space to the word after it.",
        section="Words",
        only={"per": ("word",)},
    )
    stride: int = option(
        0,
        "Distance between the starts of two windows, in tokens, for texts longer than the context. A shorter distance"
        " gives each token more context and takes longer. 0: the context length, with --carry half of it. The last window"
        " is moved back until it is full; a token counts in the first window that contains it.",
        low=0,
        metavar="N",
    )
    document: str | None = option(
        None,
        "Unit that --per total scores independently. Default: as in training.",
        choices=("line", "paragraph", "file"),
        only={"per": ("total",)},
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
        section=_MIXTURE,
    )
    mix_weights: str | None = option(
        None,
        "Weights of the models, MODEL first, with sum 1. Default: equal weights, or the weights of the saved mixture.",
        metavar="P,P,...",
        check=mixture_weights,
        was={"--weights": "--mix-weights"},
        excludes=("tune",),
        section=_MIXTURE,
    )
    tune: str | None = option(
        None,
        "Find the mixture weights and the --cache-settings with the lowest perplexity on this held-out text.",
        metavar="FILE",
        section=_MIXTURE,
    )
    save: str | None = option(
        None,
        "Save the mixture as a model directory for score and generate. It contains the models, as hard links where"
        " possible.",
        metavar="DIR",
        section=_MIXTURE,
    )
    cache: int = option(
        0,
        "Neural cache of the last N tokens (Grave et al. 2017): raise the probability of tokens that followed a"
        " similar hidden state. Implies --carry.",
        low=0,
        metavar="N",
        excludes=("per word",),
        section=_ADAPTATION,
    )
    cache_settings: str | None = option(
        None,
        "Weight of the cache, and scale of the similarities. Default: .1,.3; --tune finds better values.",
        metavar="P,X",
        check=cache_settings,
        needs=("cache",),
        excludes=("tune",),
        section=_ADAPTATION,
    )
    dynamic: float = option(
        0.0,
        "Dynamic evaluation (Krause et al. 2018): train on each segment after it is scored, by gradient descent with"
        " this learning rate. Implies --carry. The model directory does not change.",
        low=0,
        metavar="RATE",
        excludes=("stride",),
        section=_ADAPTATION,
    )
    dynamic_decay: float = option(
        0.0,
        "Fraction by which each update decays the weights towards the saved ones.",
        low=0,
        high=1,
        metavar="X",
        needs=("dynamic",),
        section=_ADAPTATION,
    )
    dynamic_segment: int = option(
        20,
        "Tokens per update.",
        low=1,
        metavar="N",
        needs=("dynamic",),
        section=_ADAPTATION,
    )
    eos: bool = option(
        True,
        "Score the end-of-text token of each line or document. --no-eos without --stride gives the values of"
        " loglikelihood_rolling in lm-evaluation-harness.",
        excludes=("per word",),
    )
    batch_tokens: int = option(4096, "Tokens per batch, padding included.", low=1, metavar="N")
    quantize: str | None = quantize_option(
        " To see the difference, compare the perplexities with and without it.",
        was={"--weights int8": "--quantize int8"},
        excludes=("mixed", "mix_weights", "tune", "save", "dynamic"),
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
        check_combinations(self)
        if self.per == "total" and not self.eos and self.one_stream:
            raise UsageError(
                "--no-eos with --per total cannot be combined with --carry: documents of a stream have an end"
            )
        if len(set(self.measures)) < max(1, len(self.measures)):
            raise UsageError("--measures: expected different ones")
        if self.mix_weights is not None and self.mixed:
            count, models = len(mixture_weights(self.mix_weights)), 1 + len(self.mixed)
            if count != models:
                raise UsageError(f"--mix-weights has {count} numbers, the mixture has {models} models")
        if self.text_column is not None and self.text_column.lstrip("-").isdecimal() and int(self.text_column) == 0:
            raise UsageError("--text-column: columns count from 1, or from -1 for the last")
