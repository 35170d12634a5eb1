"""Options of the tasks classify, pair and regress: one or two texts, and a label or a number."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nlptools.configs import LARGEST_FLOAT, option, redefined
from nlptools.configs.tasks.shared import PretrainedOptions, TaskOptions, scratch_option
from nlptools.configs.text_classifiers import ARCHITECTURES, SCRATCH
from nlptools.errors import UsageError


def class_weights(text: str) -> dict[str, float]:
    """The weights in `A=2,B=0.5`; none for `none` and `balanced`. Raises UsageError."""
    if text in ("none", "balanced"):
        return {}
    weights = {}
    for part in text.split(","):
        label, _, number = part.rpartition("=")
        if not label or not re.fullmatch(r"\d*\.?\d+([eE]-?\d+)?", number) or float(number) > LARGEST_FLOAT:
            raise UsageError(f"not a weight: {part!r}, expected balanced, or LABEL=NUMBER,LABEL=NUMBER")
        weights[label] = float(number)
    return weights


def _scratch(architectures: tuple[str, ...] = ARCHITECTURES, first: str = "") -> str | None:
    return scratch_option(
        architectures,
        f"{first}the mean of word vectors, a bag of n-grams (fastText), a CNN, an LSTM, a GRU, an RNN or a Transformer",
    )


def _class_weights() -> str:
    return option(
        "none",
        "Weights of the labels in the loss: balanced (the same total for every label), or LABEL=NUMBER,... (others: 1).",
        metavar="WEIGHTS",
        check=class_weights,
    )


@dataclass(frozen=True)
class SequenceOptions(PretrainedOptions):
    """Options of tasks with one label or number for each example"""

    lm_weight: float = option(
        0.0,
        "Weight of an auxiliary language-model loss: the mean cross-entropy of the tokens of each example, added to the loss of"
        " the task (Radford et al. 2018 use 0.5). For language models.",
        low=0,
        high=100,
        metavar="X",
        excludes=("scratch", "features", "layers", "lora"),
    )


def _both_orders() -> bool:
    return option(
        False,
        "Read both orders of the two texts, and add their hidden states: for symmetric relations such as similarity (Radford et"
        " al. 2018). For language models.",
        excludes=("scratch", "features"),
    )


@dataclass(frozen=True)
class ClassifyOptions(SequenceOptions):
    """One label of a text, or several with --multi-label"""

    scratch: str | None = _scratch(SCRATCH, "logistic regression, a ViT (Vision Transformer, for paths of pictures), ")
    multi_label: bool = option(False, "An example has any number of labels.")
    class_weights: str = _class_weights()


@dataclass(frozen=True)
class PairOptions(SequenceOptions):
    """One label of two texts, such as entailment"""

    both_orders: bool = _both_orders()
    scratch: str | None = _scratch()
    class_weights: str = _class_weights()


@dataclass(frozen=True)
class RegressOptions(SequenceOptions):
    """A number for one or two texts, such as similarity"""

    best: str = redefined(
        TaskOptions, "best", "auto", "Validation metric for the choice of the weights. auto: pearson."
    )
    both_orders: bool = _both_orders()
    scratch: str | None = _scratch()
