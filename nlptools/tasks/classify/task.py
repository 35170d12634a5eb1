"""The tasks classify, pair and regress: one text or two, and a label, several labels or a number.

Devlin et al. 2019, section 4.1: a linear layer on the first token's vector; of a GPT the last one's (Radford et al. 2018).
Departure: a head for numbers begins with the mean of the training data as its bias, where it has one.
Shapes: N examples, B of a batch, K labels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.batches.text_rows import TextEncoding
from nlptools.configs.finetuning import Files, Finetune, Predict, class_weights
from nlptools.errors import DataError, UsageError
from nlptools.files.line_records import escape
from nlptools.formats.examples import TextExample
from nlptools.formats.glue import glue_task, submission
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.formats.texts import columns_with, header_with
from nlptools.metrics import classification, correlation, glue
from nlptools.metrics.criterion import Criterion
from nlptools.metrics.glue import find
from nlptools.tasks import task as kind


@dataclass(frozen=True)
class Texts:
    """See the module's docstring; fulfils `kind.Kind`.

    Attributes:
        name: classify, pair or regress.
        options: how files are read.
        glue: name of the GLUE task, or "".
        best: the number to choose by, or auto.
        weights: what --class-weights says.
        labels: (K,), learnt.
        mean: of the numbers to be learnt, learnt.
    """

    name: str
    options: Options
    multi_label: bool = False
    glue: str = ""
    best: str = "auto"
    weights: str = "none"
    labels: tuple[str, ...] = ()
    mean: float = 0.0
    head: str = "sequence"
    unit: str = "examples"

    @staticmethod
    def new(settings: Finetune, files: Files) -> Texts:
        """See `kind.new`."""
        name, glue_name, changes = settings.task, "", {}
        if name.startswith("glue/"):
            glue_name = find(name.removeprefix("glue/"))
            name, changes = glue_task(glue_name).task, {"layout": f"glue/{glue_name}"}
        options = kind.options(files, multi_label=settings.multi_label, **changes)
        made = Texts(name, options, settings.multi_label, glue_name, settings.best, settings.class_weights)
        if settings.best not in ("auto", *made._measures):
            raise UsageError(f"--best {settings.best}: expected one of auto, {', '.join(made._measures)}")
        if settings.class_weights != "none" and (name == "regress" or settings.multi_label):
            raise UsageError("--class-weights: goes with labels of which an example has one")
        return made

    @staticmethod
    def opened(found: bundle.Bundle, settings: Predict, files: Files) -> Texts:
        """See `kind.opened`."""
        config: Any = found.config
        model: Any = found.model
        problem = config.get("problem_type")
        number = problem == "regression" or (problem is None and model.num_labels == 1)
        name = "regress" if number else "classify"
        name = kind.noted(config, "name", "pair" if settings.pair and not number else name)
        glue_name = kind.noted(config, "glue", "")
        if settings.submission and not glue_name:
            raise UsageError("--submission: the model was not trained with --task glue/NAME")
        multi_label = problem == "multi_label_classification"
        changes: dict[str, Any] = {"layout": f"glue/{glue_name}"} if settings.submission else {}
        options = kind.options(files, labelled=False, multi_label=multi_label, **changes)
        labels = () if number else kind.labels_of(config, model.num_labels)
        return Texts(name, options, multi_label, glue_name, labels=labels)

    @property
    def num_labels(self) -> int:
        return 1 if self.name == "regress" else len(self.labels)

    @property
    def criterion(self) -> Criterion:
        name = self._measures[-1] if self.best == "auto" else self.best
        return Criterion(name, higher_is_better=name != "loss")

    @property
    def measures(self) -> tuple[str, ...]:
        chosen = self.criterion.name
        return (*(name for name in ("answers", *self._measures) if name != chosen), chosen)

    @property
    def _measures(self) -> tuple[str, ...]:
        """Names of the numbers of `measure`, the usual one last."""
        if self.glue:
            metrics = glue.TASKS[self.glue].metrics
            return ("loss", *metrics, "mean") if len(metrics) > 1 else ("loss", *metrics)
        if self.name == "regress":
            return ("loss", "spearman", "pearson")
        return (
            ("loss", "f1_macro", "accuracy", "f1_micro")
            if self.multi_label
            else ("loss", "f1_macro", "matthews", "accuracy")
        )

    # -- examples -----------------------------------------------------------------------------------------------------

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterator[Any]:
        return read(self.name, names, replace(self.options, labelled=labelled), errors)

    def learn(self, examples: Sequence[TextExample]) -> Texts:
        if self.name == "regress":
            return replace(self, mean=float(np.mean([_number(e) for e in examples])))
        if self.multi_label:
            found = Counter(chain.from_iterable(e.labels for e in examples))
        else:
            found = Counter(_label(e) for e in examples)
        labels = tuple(sorted(found))
        if self.glue and set(found) <= set(glue.TASKS[self.glue].labels):
            labels = glue.TASKS[self.glue].labels
        path = examples[0].place.path
        if not labels:
            raise DataError("no example has a label", path=path)
        if len(found) == 1 and not self.multi_label:
            raise DataError(f"only one class: every label is {labels[0]!r}", path=path, hint="is it the right column?")
        unknown = sorted(set(class_weights(self.weights)) - set(labels))
        if unknown:
            raise UsageError(
                f"--class-weights: no label {unknown[0]!r} in the training data (there are {kind.some(labels)})"
            )
        return replace(self, labels=labels)

    def learned(self) -> dict[str, Any]:
        return {"labels": list(self.labels), "mean": self.mean}

    def restored(self, learned: Mapping[str, Any]) -> Texts:
        return replace(self, labels=tuple(learned["labels"]), mean=float(learned["mean"]))

    def check(self, examples: Sequence[TextExample]) -> None:
        if self.name == "regress":
            return
        known = set(self.labels)
        for e in examples:
            for label in e.labels if self.multi_label else (_label(e),):
                if label not in known:
                    raise DataError(
                        f"the label {label!r} was not seen in training (seen: {kind.some(self.labels)})",
                        path=e.place.path,
                        line=e.place.line,
                        hint="take its lines out, or train on examples of it",
                    )

    def features(self, examples: Sequence[TextExample], encoding: Encoding | TextEncoding, labelled: bool) -> Features:
        rows = encoding.rows([e.texts for e in examples])
        return replace(rows, targets=self._targets(examples)) if labelled else rows

    def _targets(self, examples: Sequence[TextExample]) -> dict[str, np.ndarray]:
        weight = np.ones(len(examples), np.float32)
        if self.name == "regress":
            return {"number": np.array([_number(e) for e in examples], np.float32), WEIGHT: weight}
        place = {label: i for i, label in enumerate(self.labels)}
        if self.multi_label:
            table = np.zeros((len(examples), len(self.labels)), np.float32)
            for row, e in enumerate(examples):
                table[row, [place[label] for label in e.labels]] = 1
            return {"labels": table, WEIGHT: weight}
        label = np.array([place[_label(e)] for e in examples], np.int64)
        if self.weights != "none":
            weight = self._class_weights(label)[label]
            weight = (weight * (len(weight) / weight.sum(dtype=np.float64))).astype(np.float32)  # 1 in the mean
        return {"label": label, WEIGHT: weight}

    def _class_weights(self, label: np.ndarray) -> np.ndarray:
        """(K,) what each label counts."""
        if self.weights == "balanced":
            balanced: np.ndarray = 1 / np.maximum(1, np.bincount(label, minlength=len(self.labels)))
            return balanced
        given = class_weights(self.weights)
        return np.array([given.get(label, 1.0) for label in self.labels])

    # -- learning -----------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def begin(self, model: Any) -> None:
        if self.name == "regress" and model.sequence.output.bias is not None:
            model.sequence.output.bias.fill_(self.mean)

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        target, weight = targets
        if self.name == "regress":
            each = (logits[:, 0] - target).square()
        elif self.multi_label:
            each = F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(1)
        else:
            each = F.cross_entropy(logits, target, reduction="none")
        return (each * weight).sum()

    # -- predicting ---------------------------------------------------------------------------------------------------

    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Any]) -> list[Any]:
        """The number (regress), or (K,) log-probabilities of the labels, of all of them at once or each for itself."""
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
        return {"answers": float(len(answers)), **{name: numbers[name] for name in self._measures}}

    def _answer(self, logs: np.ndarray) -> tuple[int, ...]:
        """The numbers of the labels that are given."""
        return tuple(np.flatnonzero(logs >= math.log(0.5)).tolist()) if self.multi_label else (int(logs.argmax()),)

    def _measured_labels(self, logs: np.ndarray, examples: Sequence[TextExample]) -> dict[str, float]:
        gold = [_label(e) for e in examples]
        place = {label: i for i, label in enumerate(self.labels)}
        loss = -float(logs[np.arange(len(gold)), [place[label] for label in gold]].mean())
        said = [self.labels[i] for i in logs.argmax(1)]
        if self.glue:
            return {"loss": loss, **glue.measures(self.glue, gold, said).values()}
        metrics = [name for name in self._measures if name != "loss"]
        return {"loss": loss, **classification.measures(gold, said, metrics, labels=self.labels).values()}

    def _measured_sets(self, logs: np.ndarray, examples: Sequence[TextExample]) -> dict[str, float]:
        gold = self._targets(examples)["labels"] > 0  # (N, K)
        said = logs >= math.log(0.5)
        # the logarithm of the probability that a label is not there
        other = np.log1p(-np.exp(np.minimum(logs, -1e-12)))
        hits, sides = (gold & said).sum(0), (gold.sum(0) + said.sum(0))
        return {
            "loss": -float(np.where(gold, logs, other).mean()),
            "f1_macro": float((2 * hits / np.maximum(1, sides)).mean()),
            "f1_micro": float(2 * hits.sum() / max(1, sides.sum())),
            "accuracy": float((gold == said).all(1).mean()),
        }

    def lines(
        self, predictions: Sequence[Any], examples: Sequence[TextExample], settings: Predict, first: bool
    ) -> list[str]:
        if settings.submission:
            said = [p if self.name == "regress" else self.labels[int(p.argmax())] for p in predictions]
            return list(submission(self.glue, zip(map(_id, examples), said, strict=True)))[not first :]
        fields = [self._fields(p, settings) for p in predictions]
        if settings.columns:
            named = header_with(examples[0], list(fields[0])) if first else None
            lines = [columns_with(e, row) for e, row in zip(examples, fields, strict=True)]
            return lines if named is None else [named, *lines]
        return ["\t".join(escape(v) if isinstance(v, str) else _shown(v) for v in row.values()) for row in fields]

    def _fields(self, prediction: Any, settings: Predict) -> dict[str, str | float]:
        """The columns of a prediction, by name."""
        if self.name == "regress":
            return {"prediction": round(prediction, 6)}
        probabilities = np.exp(prediction)
        if settings.probabilities:
            return {f"probability:{label}": _rounded(p) for label, p in zip(self.labels, probabilities, strict=True)}
        order = np.argsort(-probabilities, kind="stable")
        if self.multi_label and settings.top_k == 1:
            given = [i for i in order if probabilities[i] >= settings.threshold]
            separator = self.options.label_separator
            numbers = separator.join(f"{probabilities[i]:.4f}" for i in given)
            return {"prediction": separator.join(self.labels[i] for i in given), "probability": numbers}
        found: dict[str, str | float] = {}
        for rank, i in enumerate(order[: settings.top_k], 1):
            end = f"_{rank}" if rank > 1 else ""
            found |= {f"prediction{end}": self.labels[i], f"probability{end}": _rounded(probabilities[i])}
        return found

    def config(self) -> dict[str, Any]:
        task = {"name": self.name, "glue": self.glue}
        if self.name == "regress":
            numbers = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "problem_type": "regression"}
            return {**numbers, "nlptools": {"task": task}}
        return {
            "id2label": {str(i): label for i, label in enumerate(self.labels)},
            "label2id": {label: i for i, label in enumerate(self.labels)},
            "problem_type": f"{'multi' if self.multi_label else 'single'}_label_classification",
            "nlptools": {"task": task},
        }


def _label(example: TextExample) -> str:
    assert example.label is not None
    return example.label


def _id(example: TextExample) -> str:
    """What a submission calls the example: its id, or its number in the file."""
    return example.id if example.id is not None else str(example.place.line - 1 - bool(example.header))


def _number(example: TextExample) -> float:
    return float(_label(example))


def _rounded(probability: float) -> float:
    return round(float(probability), 4)


def _shown(number: float) -> str:
    return f"{number:.6g}"


def _measured_numbers(gold: np.ndarray, said: np.ndarray) -> dict[str, float]:
    """Mean squared error, Pearson and Spearman correlation, 0 where all numbers are the same, and their mean."""
    loss = float(((gold - said) ** 2).mean())
    both = {"pearson": 0.0, "spearman": 0.0}
    if np.ptp(gold) > 0 and np.ptp(said) > 0:
        both = correlation.measures(list(map(str, gold)), list(map(str, said)), ("pearson", "spearman")).values()
    return {"loss": loss, **both, "mean": (both["pearson"] + both["spearman"]) / 2}
