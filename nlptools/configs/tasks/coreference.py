"""Options of the task coreference."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import redefined
from nlptools.configs.tasks.shared import MEASURES, PretrainedOptions, TaskOptions


@dataclass(frozen=True)
class CoreferenceOptions(PretrainedOptions):
    """The name that a pronoun refers to (GAP), or the chains of documents (CoNLL-2012)"""

    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        "Validation metric for the choice of the weights. auto: f1; of chains conll.",
        choices=("auto", *MEASURES, "conll", "lea"),
    )


@dataclass(frozen=True)
class ChainOptions(CoreferenceOptions):
    """Coreference chains of documents: --task coreference for files in CoNLL-2012's columns"""

    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        "Validation metric for the choice of the weights. auto: conll.",
        choices=("auto", "conll", "lea", "loss"),
    )
