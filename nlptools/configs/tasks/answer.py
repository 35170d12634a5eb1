"""Options of the task answer."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option, redefined
from nlptools.configs.tasks.shared import PretrainedOptions, TaskOptions


@dataclass(frozen=True)
class AnswerOptions(PretrainedOptions):
    """The answer to a question, as a span of a context"""

    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        "Validation metric for the choice of the weights. auto: f1.",
        choices=("auto", "exact", "f1", "loss"),
    )
    max_length: int = redefined(
        TaskOptions,
        "max_length",
        0,
        "Tokens of a window over the context, question and special tokens included; 0: 384.",
    )
    stride: int = option(128, "Tokens from one window of a long context to the next.", low=1, metavar="N")
