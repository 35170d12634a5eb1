"""Options of the task rank."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import redefined
from nlptools.configs.tasks.shared import PretrainedOptions, TaskOptions


@dataclass(frozen=True)
class RankOptions(PretrainedOptions):
    """How well a text answers a query: a cross-encoder, for rerank"""

    best: str = redefined(
        TaskOptions,
        "best",
        "auto",
        "Validation metric for the choice of the weights. auto: ndcg if the queries have several texts on average, otherwise"
        " spearman.",
        choices=("auto", "ndcg", "mrr", "spearman", "pearson", "loss"),
    )
