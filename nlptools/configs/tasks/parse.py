"""Options of the task parse."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import redefined
from nlptools.configs.tasks.shared import PretrainedOptions, TaskOptions


@dataclass(frozen=True)
class ParseOptions(PretrainedOptions):
    """Dependency trees: the head of each word, and its relation to it"""

    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        "Validation metric for the choice of the weights. auto: las.",
        choices=("auto", "las", "uas", "loss"),
    )
