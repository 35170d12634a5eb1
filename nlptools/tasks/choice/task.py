"""The task choice: which of several endings continues a context.

Devlin et al. 2019, section 4.4: one score for the context with each ending; the softmax is over the endings of an
example, which stay together in a batch. Examples may have different numbers of endings.
Shapes: N examples, B rows of a batch, R rows of some examples, K endings of an example.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor

from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.configs.finetuning import Predict
from nlptools.errors import DataError
from nlptools.formats.examples import Choice
from nlptools.tasks.choice.features import choice_features
from nlptools.tasks.ensembles import mean
from nlptools.tasks.labels import gold
from nlptools.tasks.task import TaskOf


@dataclass(frozen=True)
class MultipleChoice(TaskOf[Choice, np.ndarray, Encoding]):
    """See the module's docstring."""

    bests: ClassVar[tuple[str, ...]] = ("loss", "accuracy")

    @property
    def num_labels(self) -> int:
        return 1

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("loss", "accuracy")

    def learn(self, examples: Sequence[Choice]) -> MultipleChoice:
        labels = {e.label for e in examples}
        if len(labels) < 2:
            message = f"the right ending is always number {labels.pop()}"
            hint = "shuffle the endings of each example, so that the position does not give the answer away"
            raise DataError(message, path=examples[0].place.path, hint=hint)
        return self

    def features(self, examples: Sequence[Choice], encoding: Encoding, labelled: bool) -> Features:
        features = choice_features(examples, encoding)
        if not labelled:
            return features
        assert features.examples is not None
        weight = np.zeros(len(features), np.float32)
        weight[features.examples[:-1] + [gold(e.label) for e in examples]] = 1
        of_row = np.repeat(np.arange(len(examples)), np.diff(features.examples))
        return replace(features, targets={"example": of_row, WEIGHT: weight})

    # -- training and prediction --------------------------------------------------------------------------------------

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        """(B,) scores, the example of each row, and a weight above 0 where the row has the right ending."""
        example, weight = targets
        same = example[:, None] == example  # (B, B)
        total = logits.expand(len(logits), -1).masked_fill(~same, -math.inf).logsumexp(1)
        return ((total - logits) * weight).sum()

    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Choice]) -> list[np.ndarray]:
        """(K,) the probability of each ending of each example."""
        assert features.examples is not None
        scores = np.split(np.array(outputs, np.float64), features.examples[1:-1])
        shares = [np.exp(each - each.max()) for each in scores]
        return [each / each.sum() for each in shares]

    def combined(self, predictions: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        return mean(predictions)

    def measure(self, predictions: Sequence[np.ndarray], examples: Sequence[Choice]) -> dict[str, float]:
        predicted = [int(p.argmax()) for p in predictions]
        right = [float(p[gold(e.label)]) for p, e in zip(predictions, examples, strict=True)]
        return {
            "answers": float(len(set(predicted))),
            "loss": -float(np.log(np.maximum(right, np.finfo(float).tiny)).mean()),
            "accuracy": float(np.mean([p == e.label for p, e in zip(predicted, examples, strict=True)])),
        }

    def text_lines(
        self, predictions: Sequence[np.ndarray], examples: Sequence[Choice], settings: Predict, first: bool
    ) -> list[str]:
        if settings.probabilities:
            return ["\t".join(f"{probability:.4f}" for probability in p) for p in predictions]
        lines = []
        for p in predictions:
            best = np.argsort(-p, kind="stable")[: settings.top_k]
            lines.append("\t".join(f"{i}\t{p[i]:.4f}" for i in best))
        return lines

    def as_json(self, prediction: np.ndarray, example: Choice, settings: Predict) -> dict[str, object]:
        """The number of the best ending, from 0."""
        number = int(prediction.argmax())
        named = {} if example.id is None else {"id": example.id}
        return {**named, "prediction": number, "probability": round(float(prediction[number]), 6)}
