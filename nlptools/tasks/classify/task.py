"""The tasks classify, pair and regress: one text or two, and a label, several labels or a number.

Devlin et al. 2019, section 4.1: a linear layer on the vector of the first token, in a GPT of the last (Radford et al. 2018).
Departure: the bias of a head for numbers starts from the mean of the training data.
Shapes: N examples, B of a batch, K labels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.batches.text_rows import TextEncoding
from nlptools.configs.finetuning import Files, Finetune, Predict
from nlptools.configs.tasks.classify import class_weights
from nlptools.configs.tasks.table import GLUE
from nlptools.errors import DataError, UsageError, shown
from nlptools.files.artifacts import JsonObject
from nlptools.files.line_records import escape
from nlptools.formats import values
from nlptools.formats.examples import TextExample
from nlptools.formats.glue import GLUE as GLUE_TASKS
from nlptools.formats.glue import find, glue_task, submission
from nlptools.formats.texts import columns_with, header_with
from nlptools.metrics import classification, correlation, glue
from nlptools.tasks.classify import training_labels
from nlptools.tasks.task import TaskOf, check_best, gold, id2label, labels_of, listed, reading_options, saved_setting


@dataclass(frozen=True)
class Classification(TaskOf[TextExample, Any]):
    """See the module's docstring.

    Attributes:
        name: classify, pair or regress.
        glue: name of the GLUE task, or "".
        weights: the value of --class-weights.
        texts: of regress: texts per example, learned; 0: as many as the file has.
        labels: (K,), learned.
        mean: the mean of the training numbers, learned.
        text_column, label_column, width, delimiter: the columns of the first training file (`Columns`), learned.
    """

    multi_label: bool = False
    glue: str = ""
    weights: str = "none"
    texts: int = 0
    labels: tuple[str, ...] = ()
    mean: float = 0.0
    text_column: tuple[str, ...] = ()
    label_column: str = ""
    width: int = 0
    delimiter: str = ""

    not_remembered: ClassVar[tuple[str, ...]] = ("layout", "delimiter")  # `text_column` and so on are remembered
    learns: ClassVar[tuple[str, ...]] = ("labels", "mean", "texts", *training_labels.COLUMNS)

    @classmethod
    def from_options(cls, settings: Finetune, files: Files) -> Classification:
        name, glue_name, changes = settings.task, "", {}
        if name.startswith(GLUE):
            glue_name = find(name.removeprefix(GLUE))
            name, changes = glue_task(glue_name).task, {"layout": GLUE + glue_name}
        options = reading_options(files, multi_label=settings.multi_label, **changes)
        task = cls(name, options, settings.best, settings.multi_label, glue_name, settings.class_weights)
        check_best(settings, task.numbers)
        if settings.class_weights != "none" and (name == "regress" or settings.multi_label):
            raise UsageError("--class-weights needs examples with exactly one label each")
        return task

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle, settings: Predict, files: Files) -> Classification:
        config: Any = loaded.config
        model: Any = loaded.model
        problem = config.get("problem_type")
        number = problem == "regression" or (problem is None and model.num_labels == 1)
        pair = len(files.text_column) == 2
        name = saved_setting(config, "name", "") or ("regress" if number else "pair" if pair else "classify")
        texts = saved_setting(config, "texts", 2 if pair else 1)
        glue_name = saved_setting(config, "glue", "")
        if settings.submission and not glue_name:
            raise UsageError("--submission: expected a model of --task glue/NAME")
        multi_label = problem == "multi_label_classification"
        changes: JsonObject = {"layout": GLUE + glue_name} if settings.submission else {}
        learned = training_labels.learned_columns(config)
        options = reading_options(
            files, labelled=False, multi_label=multi_label, texts=texts, learned=learned, **changes
        )
        names = () if number else labels_of(config, model.num_labels)
        return cls(name, options, multi_label=multi_label, glue=glue_name, texts=texts, labels=names)

    @property
    def num_labels(self) -> int:
        return 1 if self.name == "regress" else len(self.labels)

    @property
    def numbers(self) -> tuple[str, ...]:
        if self.glue:
            metrics = GLUE_TASKS[self.glue].metrics
            return ("loss", *metrics, "mean") if len(metrics) > 1 else ("loss", *metrics)
        if self.name == "regress":
            return ("loss", "spearman", "pearson")
        if self.multi_label:
            return ("loss", "f1_macro", "accuracy", "f1_micro")
        return ("loss", "f1_macro", "matthews", "accuracy")

    # -- examples -----------------------------------------------------------------------------------------------------

    def learn(self, examples: Sequence[TextExample]) -> Classification:
        read = training_labels.columns_settings(examples[0].read)
        if self.name == "regress":
            task = replace(
                self, **read, mean=float(np.mean([_number(e) for e in examples])), texts=len(examples[0].texts)
            )
            task.check(examples)
            return task
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
        return replace(self, **read, labels=names)

    def count_labels(self, examples: Sequence[TextExample]) -> Counter[str]:
        if self.name == "regress":
            return Counter()
        return training_labels.counted(chain.from_iterable(map(self._labels_of, examples)))

    def _labels_of(self, example: TextExample) -> tuple[str, ...]:
        """The labels of an example that was read as labelled."""
        return example.labels if self.multi_label else (gold(example.label),)

    @cached_property
    def _place(self) -> dict[str, int]:
        """The number of each label, by its key."""
        return {values.key(label): i for i, label in enumerate(self.labels)}

    def check(self, examples: Sequence[TextExample]) -> None:
        for e in examples if self.name == "regress" else ():
            if len(e.texts) != self.texts:
                raise e.place.error(f"{len(e.texts)} texts, the first training example has {self.texts}")
        if self.name == "regress":
            return
        for e in examples:
            for label in self._labels_of(e):
                if values.key(label) not in self._place:
                    raise e.place.error(
                        f"the label {shown(label)} was not seen in training (seen: {listed(self.labels)})",
                        "remove its lines, or add examples of it to the training data",
                    )

    def features(self, examples: Sequence[TextExample], encoding: Encoding | TextEncoding, labelled: bool) -> Features:
        rows = encoding.rows([e.texts for e in examples])
        return replace(rows, targets=self._targets(examples)) if labelled else rows

    def _targets(self, examples: Sequence[TextExample]) -> dict[str, np.ndarray]:
        weight = np.ones(len(examples), np.float32)
        if self.name == "regress":
            return {"number": np.array([_number(e) for e in examples], np.float32), WEIGHT: weight}
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

    @torch.no_grad()
    def begin(self, model: nn.Module) -> None:
        if self.name == "regress":
            output = cast(nn.Linear, model.get_submodule("sequence.output"))
            if output.bias is not None:
                output.bias.fill_(self.mean)

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        target, weight = targets
        if self.name == "regress":
            each = (logits[:, 0] - target).square()
        elif self.multi_label:
            each = F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(1)
        else:
            each = F.cross_entropy(logits, target, reduction="none")
        return (each * weight).sum()

    # -- prediction ---------------------------------------------------------------------------------------------------

    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[TextExample]) -> list[Any]:
        """The number (regress), or (K,) log-probabilities of the labels, normalized over all labels or each by itself."""
        if not outputs:
            return []
        logits = torch.from_numpy(np.stack(outputs).astype(np.float64))
        if self.name == "regress":
            return logits[:, 0].tolist()
        return list((F.logsigmoid(logits) if self.multi_label else F.log_softmax(logits, -1)).numpy())

    def measure(self, predictions: Sequence[Any], examples: Sequence[TextExample]) -> dict[str, float]:
        if self.name == "regress":
            numbers = _measured_numbers(np.array([_number(e) for e in examples]), np.array(predictions))
        elif self.multi_label:
            numbers = self._measured_sets(np.stack(predictions), examples)
        else:
            numbers = self._measured_labels(np.stack(predictions), examples)
        answers = {p if self.name == "regress" else self._answer(p) for p in predictions}
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
        right = self._targets(examples)["labels"] > 0  # (N, K)
        predicted = logs >= math.log(0.5)
        absent = np.log1p(-np.exp(np.minimum(logs, -1e-12)))  # log-probabilities that an example lacks the label
        hits, sides = (right & predicted).sum(0), (right.sum(0) + predicted.sum(0))
        return {
            "loss": -float(np.where(right, logs, absent).mean()),
            "f1_macro": float((2 * hits / np.maximum(1, sides)).mean()),
            "f1_micro": float(2 * hits.sum() / max(1, sides.sum())),
            "accuracy": float((right == predicted).all(1).mean()),
        }

    def layout_written(self, example: TextExample, settings: Predict) -> str:
        layout = {"csv": "csv", "jsonl": "jsonl"}.get(example.layout, "text") if settings.columns else ""
        return layout or super().layout_written(example, settings)

    def text_lines(
        self, predictions: Sequence[Any], examples: Sequence[TextExample], settings: Predict, first: bool
    ) -> list[str]:
        if settings.submission:
            predicted = [p if self.name == "regress" else self.labels[int(p.argmax())] for p in predictions]
            return list(submission(self.glue, zip(map(_id, examples), predicted, strict=True)))[not first :]
        fields = [self._fields(p, settings) for p in predictions]
        if settings.columns:
            named = header_with(examples[0], list(fields[0])) if first else None
            lines = [columns_with(e, row) for e, row in zip(examples, fields, strict=True)]
            return lines if named is None else [named, *lines]
        lines = ["\t".join(escape(v) if isinstance(v, str) else f"{v:.6g}" for v in row.values()) for row in fields]
        return (
            ["\t".join(map(escape, self.labels)), *lines] if settings.probabilities and self.labels and first else lines
        )

    def as_json(self, prediction: Any, example: TextExample, settings: Predict) -> JsonObject:
        fields: JsonObject = self._fields(prediction, settings)
        if self.multi_label:
            best = self._best(prediction, settings)
            fields = {"prediction": [label for label, _ in best], "probability": [number for _, number in best]}
        return fields if example.id is None else {"id": example.id, **fields}

    def _best(self, prediction: np.ndarray, settings: Predict) -> list[tuple[str, float]]:
        """Labels and their probabilities, the greatest first: the K best, or of several labels all above the threshold."""
        probabilities = np.exp(prediction)
        order = np.argsort(-probabilities, kind="stable")
        best = [(self.labels[i], round(float(probabilities[i]), 4)) for i in order]
        if self.multi_label and settings.top_k == 1:
            return best[: int((probabilities >= settings.threshold).sum())]
        return best[: settings.top_k]

    def _fields(self, prediction: Any, settings: Predict) -> dict[str, str | float]:
        """The columns of a prediction, by name."""
        if self.name == "regress":
            return {"prediction": round(prediction, 6)}
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
        if self.name == "regress":
            return {**id2label(["LABEL_0"]), "problem_type": "regression"}
        problem = f"{'multi' if self.multi_label else 'single'}_label_classification"
        return {**id2label(self.labels), "problem_type": problem}

    def own_settings(self) -> JsonObject:
        columns = {name: vars(self)[name] for name in training_labels.COLUMNS if self.text_column}
        return {"glue": self.glue, "texts": self.texts, **columns}


def _id(example: TextExample) -> str:
    """The id of the example in a submission: its own, or its number in the file."""
    return example.id if example.id is not None else str(example.place.line - 1 - bool(example.header))


def _number(example: TextExample) -> float:
    return float(gold(example.label))


def _measured_numbers(right: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    """Mean squared error, Pearson and Spearman correlation (0 where all numbers are equal), and the mean of both."""
    loss = float(((right - predicted) ** 2).mean())
    both = {"pearson": 0.0, "spearman": 0.0}
    if np.ptp(right) > 0 and np.ptp(predicted) > 0:
        both = correlation.evaluate(list(map(str, right)), list(map(str, predicted)), ("pearson", "spearman")).values()
    return {"loss": loss, **both, "mean": (both["pearson"] + both["spearman"]) / 2}
