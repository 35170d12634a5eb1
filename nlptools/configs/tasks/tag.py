"""Options of the tasks tag and roles: a label for each word."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option, redefined
from nlptools.configs.tasks.shared import PretrainedOptions, TaskOptions, scratch_option
from nlptools.configs.word_taggers import ARCHITECTURES

_CRF = "Add a conditional random field over the labels."


@dataclass(frozen=True)
class TagOptions(PretrainedOptions):
    """A tag of each word: named entities, parts of speech"""

    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        "Validation metric for the choice of the weights. auto: f1 of spans, accuracy of other tags.",
        choices=("auto", "accuracy", "f1", "loss"),
    )
    scratch: str | None = scratch_option(ARCHITECTURES, "a CNN, an LSTM, a GRU, an RNN or a Transformer over the words")
    crf: bool = option(False, _CRF)


@dataclass(frozen=True)
class RolesOptions(PretrainedOptions):
    """Semantic roles: who does what to whom"""

    best: str = redefined(TagOptions, "best", "auto", "Validation metric for the choice of the weights. auto: f1.")
    crf: bool = option(False, _CRF)
    role_spans: str = option(
        "heads",
        "Words of an argument to learn: its head, as in the file, or the whole subtree of the head.",
        choices=("heads", "subtrees"),
    )
