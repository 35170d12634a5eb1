"""The task regress: a number for one text or two; see `texts`.

Departure: the bias of the head starts from the mean of the training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from nlptools import bundle
from nlptools.batches.features import WEIGHT, Features
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.files import Files
from nlptools.errors import UsageError
from nlptools.formats.examples import TextExample
from nlptools.json_types import JsonObject
from nlptools.metrics import correlation
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks.classify import training_labels
from nlptools.tasks.classify.texts import NumberTask, gold_numbers
from nlptools.tasks.labels import id2label


@dataclass(frozen=True)
class Regression(NumberTask):
    """See the module's docstring.

    Attributes:
        mean: the mean of the training numbers, learned.
    """

    mean: float = 0.0

    learns: ClassVar[tuple[str, ...]] = ("mean", "texts", *training_labels.COLUMNS)
    in_common: ClassVar[tuple[str, ...]] = ("texts",)

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> Regression:
        if settings.class_weights != "none":
            raise UsageError("--class-weights needs examples with exactly one label each")
        return cls.chosen(settings, files).checked(settings)

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> Regression:
        return cls.saved("regress", loaded, settings, files)

    @property
    def num_labels(self) -> int:
        return 1

    @property
    def own_numbers(self) -> tuple[str, ...]:
        return ("loss", "spearman", "pearson")

    def learn(self, examples: Sequence[TextExample]) -> Regression:
        task = self.with_columns(examples[0].read)
        task = replace(task, mean=float(np.mean(gold_numbers(examples))), texts=len(examples[0].texts))
        task.check(examples)
        return task

    def check(self, examples: Sequence[TextExample]) -> None:
        for e in examples:
            if len(e.texts) != self.texts:
                raise e.place.error(f"{len(e.texts)} texts, the first training example has {self.texts}")

    def targets(self, examples: Sequence[TextExample]) -> dict[str, np.ndarray]:
        return {"number": gold_numbers(examples).astype(np.float32), WEIGHT: np.ones(len(examples), np.float32)}

    @torch.no_grad()
    def begin(self, model: nn.Module) -> None:
        output = cast(nn.Linear, model.get_submodule("sequence.output"))
        if output.bias is not None:
            output.bias.fill_(self.mean)

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        logits, target, weight = self.of_examples(logits, targets)
        return ((logits[:, 0] - target).square() * weight).sum()

    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[TextExample]) -> list[float]:
        return [float(logits[0]) for logits in self.summed(outputs)]

    def measure(self, predictions: Sequence[float], examples: Sequence[TextExample]) -> dict[str, float]:
        """Mean squared error, Pearson and Spearman correlation (0 where all numbers are equal), and the mean of both."""
        right, predicted = gold_numbers(examples), np.array(predictions)
        both = correlation.coefficients(right, predicted)
        loss, mean = float(((right - predicted) ** 2).mean()), (both["pearson"] + both["spearman"]) / 2
        numbers = {"loss": loss, **both, "mean": mean}
        return {"answers": float(len(set(predictions))), **{name: numbers[name] for name in self.numbers}}

    def label_settings(self) -> JsonObject:
        return {**id2label(["LABEL_0"]), "problem_type": "regression"}
