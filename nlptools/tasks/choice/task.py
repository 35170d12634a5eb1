"""The task choice: which of several endings goes on with a context.

Devlin et al. 2019, section 4.4: a number for each context with one of its endings; the softmax is over the endings of an
example, which stay together in a batch. Examples may have different numbers of endings.
Shapes: N examples, B rows of a batch, R rows of some examples, K endings of an example.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from nlptools import bundle
from nlptools.batches.features import WEIGHT, Encoding, Features, with_types
from nlptools.configs.finetuning import Files, Finetune, Predict
from nlptools.errors import DataError
from nlptools.formats.examples import Choice
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.metrics.criterion import Criterion
from nlptools.tasks import task as kind
from nlptools.tasks.choice.features import choice_features, choice_probabilities


@dataclass(frozen=True)
class Choices:
    """See the module's docstring; fulfils `kind.Kind`.

    Attributes:
        options: how files are read.
        best: the number to choose by, or auto.
    """

    options: Options
    best: str = "auto"
    name: str = "choice"
    head: str = "choice"
    unit: str = "examples"
    num_labels: int = 1

    @staticmethod
    def new(settings: Finetune, files: Files) -> Choices:
        """See `kind.new`."""
        return Choices(kind.options(files), kind.chosen(settings, ("loss", "accuracy")))

    @staticmethod
    def opened(found: bundle.Bundle, settings: Predict, files: Files) -> Choices:
        """See `kind.opened`."""
        return Choices(kind.options(files, labelled=False))

    @property
    def criterion(self) -> Criterion:
        name = "accuracy" if self.best == "auto" else self.best
        return Criterion(name, higher_is_better=name != "loss")

    @property
    def measures(self) -> tuple[str, ...]:
        return ("answers", "accuracy", "loss") if self.best == "loss" else ("answers", "loss", "accuracy")

    # -- examples -----------------------------------------------------------------------------------------------------

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterator[Any]:
        return read(self.name, names, replace(self.options, labelled=labelled), errors)

    def learn(self, examples: Sequence[Choice]) -> Choices:
        labels = {e.label for e in examples}
        if len(labels) < 2:
            told = f"the right ending is always number {labels.pop()}"
            raise DataError(
                told, path=examples[0].place.path, hint="endings in random order cannot be told by their place"
            )
        return self

    def learned(self) -> dict[str, Any]:
        return {}

    def restored(self, learned: Mapping[str, Any]) -> Choices:
        return self

    def check(self, examples: Sequence[Choice]) -> None:
        """Any number of endings goes with any model."""

    def features(self, examples: Sequence[Choice], encoding: Encoding, labelled: bool) -> Features:
        how: dict[str, Any] = {"max_length": encoding.max_length, "marks": encoding.marks, "threads": encoding.threads}
        found = choice_features(examples, encoding.tokenizer, **how)
        made = Features(with_types(found.rows, encoding), examples=found.examples, cut=found.cut_rows)
        if not labelled:
            return made
        weight = np.zeros(len(made), np.float32)
        weight[found.examples[:-1] + found.labels] = 1
        of_row = np.repeat(np.arange(len(examples)), np.diff(found.examples))
        return replace(made, targets={"example": of_row, WEIGHT: weight})

    # -- learning and predicting --------------------------------------------------------------------------------------

    def begin(self, model: Any) -> None:
        """Nothing to do."""

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        """(B,) scores, the example of each row, and a weight where the row has the right ending."""
        example, weight = targets
        same = example[:, None] == example  # (B, B)
        total = logits.expand(len(logits), -1).masked_fill(~same, -math.inf).logsumexp(1)
        return ((total - logits) * weight).sum()

    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Any]) -> list[Any]:
        """(K,) the probability of each ending of each example."""
        assert features.examples is not None
        shares = choice_probabilities(np.array(outputs, np.float64), features.examples)
        return np.split(shares, features.examples[1:-1])

    def measure(self, predictions: Sequence[np.ndarray], examples: Sequence[Choice]) -> dict[str, float]:
        said = [int(p.argmax()) for p in predictions]
        right = [float(p[_label(e)]) for p, e in zip(predictions, examples, strict=True)]
        return {
            "answers": float(len(set(said))),
            "loss": -float(np.log(np.maximum(right, np.finfo(float).tiny)).mean()),
            "accuracy": float(np.mean([s == e.label for s, e in zip(said, examples, strict=True)])),
        }

    def lines(
        self, predictions: Sequence[np.ndarray], examples: Sequence[Choice], settings: Predict, first: bool
    ) -> list[str]:
        if settings.to == "json":
            return [_object(p, e) for p, e in zip(predictions, examples, strict=True)]
        if settings.probabilities:
            return ["\t".join(f"{share:.4f}" for share in p) for p in predictions]
        lines = []
        for p in predictions:
            best = np.argsort(-p, kind="stable")[: settings.top_k]
            lines.append("\t".join(f"{i}\t{p[i]:.4f}" for i in best))
        return lines

    def config(self) -> dict[str, Any]:
        return {"nlptools": {"task": {"name": self.name}}}


def _label(example: Choice) -> int:
    assert example.label is not None
    return example.label


def _object(shares: np.ndarray, example: Choice) -> str:
    """A line of JSON: which ending, numbered from 0."""
    number = int(shares.argmax())
    named = {} if example.id is None else {"id": example.id}
    return json.dumps(
        {**named, "prediction": number, "probability": round(float(shares[number]), 6)}, ensure_ascii=False
    )
