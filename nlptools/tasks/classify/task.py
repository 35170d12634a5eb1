"""The tasks classify and pair: one text or two, and a label or several labels; see `texts`.

Shapes: N examples, B of a batch, K labels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.features import WEIGHT, Features
from nlptools.configs.finetuning import Finetune, Predict
from nlptools.configs.tasks.classify import class_weights
from nlptools.configs.tasks.files import Files
from nlptools.errors import DataError, UsageError, shown
from nlptools.files.line_records import escape
from nlptools.formats import values
from nlptools.formats.examples import TextExample
from nlptools.formats.glue import GLUE as GLUE_TASKS
from nlptools.json_types import JsonObject
from nlptools.metrics import classification, glue
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks.classify import training_labels
from nlptools.tasks.classify.texts import TextTask
from nlptools.tasks.ensembles import mean_of_logs
from nlptools.tasks.labels import gold, id2label, labels_of, listed
from nlptools.tasks.task import saved_setting


@dataclass(frozen=True)
class Classification(TextTask[np.ndarray]):
    """See the module's docstring. Predictions: (K,) log-probabilities of the labels, normalized over all labels or each by
    itself.

    Attributes:
        weights: the value of --class-weights.
        labels: (K,), learned.
    """

    multi_label: bool = False
    weights: str = "none"
    labels: tuple[str, ...] = ()

    learns: ClassVar[tuple[str, ...]] = ("labels", *training_labels.COLUMNS)
    in_common: ClassVar[tuple[str, ...]] = ("labels", "multi_label", "texts")

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> Classification:
        if settings.class_weights != "none" and settings.multi_label:
            raise UsageError("--class-weights needs examples with exactly one label each")
        task = cls.chosen(settings, files, settings.multi_label)
        return replace(task, multi_label=settings.multi_label, weights=settings.class_weights).checked(settings)

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> Classification:
        """See `Task`. A classifier of Hugging Face may read pairs."""
        name = saved_setting(loaded.config, "name", "") or ("pair" if len(files.text_column) == 2 else "classify")
        several = loaded.config.get("problem_type") == "multi_label_classification"
        task = cls.saved(name, loaded, settings, files, several)
        return replace(task, multi_label=several, labels=labels_of(loaded.config, loaded.model.num_labels))

    @property
    def num_labels(self) -> int:
        return len(self.labels)

    @property
    def own_numbers(self) -> tuple[str, ...]:
        if self.multi_label:
            return ("loss", "f1_macro", "accuracy", "f1_micro")
        return ("loss", "f1_macro", "matthews", "accuracy")

    # -- examples -----------------------------------------------------------------------------------------------------

    def learn(self, examples: Sequence[TextExample]) -> Classification:
        counts = self.count_labels(examples)
        path = examples[0].place.path
        if not counts:
            raise DataError("no example has a label", path=path)
        if not self.multi_label:
            training_labels.require_two(counts, path)
        training_labels.check(counts, examples)
        names = tuple(sorted(counts))
        if self.glue and set(counts) <= set(GLUE_TASKS[self.glue].labels):
            names = GLUE_TASKS[self.glue].labels
        known = set(map(values.key, names))
        unknown = sorted(label for label in class_weights(self.weights) if values.key(label) not in known)
        if unknown:
            raise UsageError(
                f"--class-weights: no label {shown(unknown[0])} in the training data (there are {listed(names)})"
            )
        return replace(self.with_columns(examples[0].read), labels=names)

    def count_labels(self, examples: Sequence[TextExample]) -> Counter[str]:
        return training_labels.counted(chain.from_iterable(map(self._labels_of, examples)))

    def _labels_of(self, example: TextExample) -> tuple[str, ...]:
        """The labels of an example that was read as labelled."""
        return example.labels if self.multi_label else (gold(example.label),)

    @cached_property
    def _place(self) -> dict[str, int]:
        """The number of each label, by its key."""
        return {values.key(label): i for i, label in enumerate(self.labels)}

    def check(self, examples: Sequence[TextExample]) -> None:
        for e in examples:
            for label in self._labels_of(e):
                if values.key(label) not in self._place:
                    raise e.place.error(
                        f"the label {shown(label)} was not seen in training (seen: {listed(self.labels)})",
                        "remove its lines, or add examples of it to the training data",
                    )

    def targets(self, examples: Sequence[TextExample]) -> dict[str, np.ndarray]:
        weight = np.ones(len(examples), np.float32)
        places = [[self._place[values.key(label)] for label in self._labels_of(e)] for e in examples]
        if self.multi_label:
            table = np.zeros((len(examples), len(self.labels)), np.float32)
            for row, some in enumerate(places):
                table[row, some] = 1
            return {"labels": table, WEIGHT: weight}
        label = np.array([place for (place,) in places], np.int64)
        if self.weights != "none":
            weight = self._class_weights(label)[label]
            weight = (weight * (len(weight) / weight.sum(dtype=np.float64))).astype(np.float32)  # mean 1
        return {"label": label, WEIGHT: weight}

    def _class_weights(self, label: np.ndarray) -> np.ndarray:
        """(K,) the weight of each label."""
        if self.weights == "balanced":
            balanced: np.ndarray = 1 / np.maximum(1, np.bincount(label, minlength=len(self.labels)))
            return balanced
        given = {values.key(label): number for label, number in class_weights(self.weights).items()}
        return np.array([given.get(label, 1.0) for label in self._place])

    # -- training -----------------------------------------------------------------------------------------------------

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        logits, target, weight = self.of_examples(logits, targets)
        if self.multi_label:
            each = F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(1)
        else:
            each = F.cross_entropy(logits, target, reduction="none")
        return (each * weight).sum()

    # -- prediction ---------------------------------------------------------------------------------------------------

    def decode(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[TextExample]
    ) -> list[np.ndarray]:
        if not outputs:
            return []
        logits = torch.from_numpy(np.stack(self.summed(outputs)).astype(np.float64))
        return list((F.logsigmoid(logits) if self.multi_label else F.log_softmax(logits, -1)).numpy())

    def combined(self, predictions: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        return mean_of_logs(predictions)

    def measure(self, predictions: Sequence[np.ndarray], examples: Sequence[TextExample]) -> dict[str, float]:
        if self.multi_label:
            numbers = self._measured_sets(np.stack(predictions), examples)
        else:
            numbers = self._measured_labels(np.stack(predictions), examples)
        answers = set(map(self._answer, predictions))
        return {"answers": float(len(answers)), **{name: numbers[name] for name in self.numbers}}

    def _answer(self, logs: np.ndarray) -> tuple[int, ...]:
        """The numbers of the predicted labels."""
        return tuple(np.flatnonzero(logs >= math.log(0.5)).tolist()) if self.multi_label else (int(logs.argmax()),)

    def _measured_labels(self, logs: np.ndarray, examples: Sequence[TextExample]) -> dict[str, float]:
        places = [self._place[values.key(gold(e.label))] for e in examples]
        right = [self.labels[place] for place in places]
        loss = -float(logs[np.arange(len(right)), places].mean())
        predicted = [self.labels[i] for i in logs.argmax(1)]
        if self.glue:
            return {"loss": loss, **glue.evaluate(self.glue, right, predicted).values()}
        metrics = [name for name in self.numbers if name != "loss"]
        return {"loss": loss, **classification.evaluate(right, predicted, metrics, labels=self.labels).values()}

    def _measured_sets(self, logs: np.ndarray, examples: Sequence[TextExample]) -> dict[str, float]:
        right = self.targets(examples)["labels"] > 0  # (N, K)
        predicted = logs >= math.log(0.5)
        absent = np.log1p(-np.exp(np.minimum(logs, -1e-12)))  # log-probabilities that an example lacks the label
        hits, sides = (right & predicted).sum(0), (right.sum(0) + predicted.sum(0))
        return {
            "loss": -float(np.where(right, logs, absent).mean()),
            "f1_macro": float((2 * hits / np.maximum(1, sides)).mean()),
            "f1_micro": float(2 * hits.sum() / max(1, sides.sum())),
            "accuracy": float((right == predicted).all(1).mean()),
        }

    def submitted(self, prediction: np.ndarray) -> str:
        return self.labels[int(prediction.argmax())]

    def header(self, settings: Predict) -> list[str]:
        return ["\t".join(map(escape, self.labels))] if settings.probabilities else []

    def json_fields(self, prediction: np.ndarray, settings: Predict) -> dict[str, object]:
        if not self.multi_label:
            return super().json_fields(prediction, settings)
        best = self._best(prediction, settings)
        return {"prediction": [label for label, _ in best], "probability": [number for _, number in best]}

    def _best(self, prediction: np.ndarray, settings: Predict) -> list[tuple[str, float]]:
        """Labels and their probabilities, the greatest first: the K best, or of several labels all above the threshold."""
        probabilities = np.exp(prediction)
        order = np.argsort(-probabilities, kind="stable")
        best = [(self.labels[i], round(float(probabilities[i]), 4)) for i in order]
        if self.multi_label and settings.top_k == 1:
            return best[: int((probabilities >= settings.threshold).sum())]
        return best[: settings.top_k]

    def fields(self, prediction: np.ndarray, settings: Predict) -> dict[str, str | float]:
        if settings.probabilities:
            numbers = np.exp(prediction).round(4).tolist()
            return {f"probability:{label}": number for label, number in zip(self.labels, numbers, strict=True)}
        best = self._best(prediction, settings)
        if self.multi_label and settings.top_k == 1:
            joined = (self.options.label_separator.join(column) for column in zip(*((a, f"{b:.4f}") for a, b in best)))
            return dict(zip(("prediction", "probability"), joined)) or {"prediction": "", "probability": ""}
        fields: dict[str, str | float] = {}
        for rank, (label, number) in enumerate(best, 1):
            end = f"_{rank}" if rank > 1 else ""
            fields |= {f"prediction{end}": label, f"probability{end}": number}
        return fields

    def label_settings(self) -> JsonObject:
        problem = f"{'multi' if self.multi_label else 'single'}_label_classification"
        return {**id2label(self.labels), "problem_type": problem}
