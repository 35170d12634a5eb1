"""The task rank: how well the second of two texts answers the first, by a model that reads both (a cross-encoder).

Nogueira & Cho 2019 (arXiv:1901.04085): a linear layer on the vector of the pair. One number of a sigmoid, trained with the
binary cross-entropy of labels or grades between 0 and 1, as sentence-transformers' CrossEncoder; other scores are scaled by the
lowest and the highest one of the training data.
Shapes: N examples, B of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.features import WEIGHT, Features
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.files import Files
from nlptools.formats.examples import TextExample
from nlptools.json_types import JsonObject
from nlptools.metrics import correlation
from nlptools.metrics.retrieval import graded
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks.classify import training_labels
from nlptools.tasks.classify.texts import NumberTask, gold_numbers
from nlptools.tasks.labels import id2label
from nlptools.tasks.task import saved_setting


@dataclass(frozen=True)
class PairRanking(NumberTask):
    """See the module's docstring. Predictions are between 0 and 1.

    Attributes:
        lowest, highest: the scores that stand for 0 and 1, learned.
        grouped: whether queries have several texts on average, learned; then a ranking can be measured.
    """

    lowest: float = 0.0
    highest: float = 1.0
    grouped: bool = False

    learns: ClassVar[tuple[str, ...]] = ("lowest", "highest", "grouped", "texts", *training_labels.COLUMNS)
    in_common: ClassVar[tuple[str, ...]] = ("lowest", "highest")
    bests: ClassVar[tuple[str, ...]] = ("loss", "pearson", "spearman", "mrr", "ndcg")

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> PairRanking:
        task = cls.chosen(settings, files)
        return replace(task, options=replace(task.options, texts=2)).checked(settings)

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> PairRanking:
        bounds = {name: saved_setting(loaded.config, name, vars(cls)[name]) for name in ("lowest", "highest")}
        return replace(cls.saved("rank", loaded, settings, files), **bounds)

    @property
    def num_labels(self) -> int:
        return 1

    @property
    def own_numbers(self) -> tuple[str, ...]:
        rankings, correlations = ("mrr", "ndcg"), ("pearson", "spearman")
        return ("loss", *correlations, *rankings) if self.grouped else ("loss", *rankings, *correlations)

    def learn(self, examples: Sequence[TextExample]) -> PairRanking:
        scores = gold_numbers(examples)
        low, high = float(scores.min()), float(scores.max())
        if low >= 0 and high <= 1:
            low, high = 0.0, 1.0
        elif low == high:
            raise examples[0].place.error(f"every score is {low:g}", "--label-column names the scores")
        grouped = len(examples) >= 2 * len({e.texts[0] for e in examples})
        task = replace(self.with_columns(examples[0].read), lowest=low, highest=high, grouped=grouped, texts=2)
        task.check(examples)
        return task

    def check(self, examples: Sequence[TextExample]) -> None:
        for e, score in zip(examples, gold_numbers(examples), strict=True):
            if not self.lowest <= score <= self.highest:
                raise e.place.error(f"the score {score:g} is outside the range of the training data, {self._range}")

    @property
    def _range(self) -> str:
        return f"{self.lowest:g} to {self.highest:g}"

    def targets(self, examples: Sequence[TextExample]) -> dict[str, np.ndarray]:
        return {"number": self._scaled(examples).astype(np.float32), WEIGHT: np.ones(len(examples), np.float32)}

    def _scaled(self, examples: Sequence[TextExample]) -> np.ndarray:
        """(N,) float64, between 0 and 1."""
        scaled: np.ndarray = (gold_numbers(examples) - self.lowest) / (self.highest - self.lowest)
        return scaled

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        target, weight = targets
        return F.binary_cross_entropy_with_logits(logits[:, 0], target, weight, reduction="sum")

    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[TextExample]) -> list[float]:
        return [float(1 / (1 + np.exp(-np.float64(logits[0])))) for logits in outputs]

    def measure(self, predictions: Sequence[float], examples: Sequence[TextExample]) -> dict[str, float]:
        """The loss, correlations with the scores, and the means over queries with several texts, some of them with the lowest
        score and some not, of MRR (a text of at least half the highest score is relevant) and nDCG; 0 without such queries.
        """
        right, predicted = self._scaled(examples), np.array(predictions)
        safe = np.clip(predicted, 1e-12, 1 - 1e-12)
        loss = -(right * np.log(safe) + (1 - right) * np.log1p(-safe)).mean()
        groups: dict[str, list[int]] = {}
        for number, e in enumerate(examples):
            groups.setdefault(e.texts[0], []).append(number)
        several = [rows for rows in groups.values() if right[rows].max() > right[rows].min()]
        found = [graded(right[rows].tolist(), predicted[rows].tolist()) for rows in several]
        mrr, ndcg = np.mean(found, axis=0).tolist() if found else (0.0, 0.0)
        numbers = {"loss": float(loss), **correlation.coefficients(right, predicted), "mrr": mrr, "ndcg": ndcg}
        return {"answers": float(len(set(predictions))), **{name: numbers[name] for name in self.numbers}}

    def label_settings(self) -> JsonObject:
        return id2label(["LABEL_0"])

    def own_settings(self) -> JsonObject:
        return {**super().own_settings(), "lowest": self.lowest, "highest": self.highest}
