"""Options of the task coreference."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import redefined
from nlptools.configs.tasks.shared import PretrainedOptions, TaskOptions


@dataclass(frozen=True)
class CoreferenceOptions(PretrainedOptions):
    """The name that a pronoun refers to"""

    best: str = redefined(TaskOptions, "best", "auto", "Validation metric for the choice of the weights. auto: f1.")
