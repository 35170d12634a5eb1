"""The task coreference: which of two names a pronoun refers to, or neither.

Data and measure: Webster et al. 2018, "Mind the GAP" (Q18-1042). The encoder marks the mentions and
`layers.heads.MentionHead` compares them; transformers has no such head and leaves it out when it opens the directory.
Shapes: N examples, B rows of a batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.configs.finetuning import Predict
from nlptools.errors import DataError
from nlptools.formats.examples import Coreference
from nlptools.formats.gap import LABELS, predictions_line
from nlptools.tasks.coreference.features import coreference_features
from nlptools.tasks.ensembles import mean_of_logs
from nlptools.tasks.labels import gold
from nlptools.tasks.task import TaskOf

_MASCULINE, _FEMININE = ("he", "his", "him"), ("she", "her", "hers")


@dataclass(frozen=True)
class PronounResolution(TaskOf[Coreference, np.ndarray, Encoding]):
    """See the module's docstring."""

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("loss", "accuracy", "f1_masculine", "f1_feminine", "f1_nearest", "f1")

    def learn(self, examples: Sequence[Coreference]) -> PronounResolution:
        labels = self.count_labels(examples)
        if len(labels) < 2:
            raise DataError(f"only one class: every label is {min(labels)}", path=examples[0].place.path)
        return self

    def count_labels(self, examples: Sequence[Coreference]) -> Counter[str]:
        return Counter(gold(e.label) for e in examples)

    def features(self, examples: Sequence[Coreference], encoding: Encoding, labelled: bool) -> Features:
        features = coreference_features(examples, encoding)
        if not labelled:
            return features
        labels = np.array([LABELS.index(gold(e.label)) for e in examples], np.int64)
        targets = {**features.targets, "label": labels, WEIGHT: np.ones(len(examples), np.float32)}
        return replace(features, targets=targets)

    # -- training and prediction --------------------------------------------------------------------------------------

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        label, weight = targets
        return (F.cross_entropy(logits, label, reduction="none") * weight).sum()

    def decode(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Coreference]
    ) -> list[np.ndarray]:
        """(3,) log-probabilities of A, B and neither, of each example."""
        if not outputs:
            return []
        return list(F.log_softmax(torch.from_numpy(np.stack(outputs).astype(np.float64)), -1).numpy())

    def combined(self, predictions: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        return mean_of_logs(predictions)

    def measure(self, predictions: Sequence[np.ndarray], examples: Sequence[Coreference]) -> dict[str, float]:
        """GAP's F1 of all examples and of each gender, and as a baseline `f1_nearest`, of the name nearest to the pronoun."""
        right, predicted = [gold(e.label) for e in examples], [_label(p) for p in predictions]
        numbers = {
            "answers": float(len(set(predicted))),
            "loss": -float(np.mean([p[LABELS.index(g)] for p, g in zip(predictions, right, strict=True)])),
            "accuracy": float(np.mean([g == p for g, p in zip(right, predicted, strict=True)])),
            "f1": f1(right, predicted),
            "f1_nearest": f1(right, [nearest(e) for e in examples]),
        }
        for name, words in (("f1_masculine", _MASCULINE), ("f1_feminine", _FEMININE)):
            some = [i for i, e in enumerate(examples) if e.pronoun.lower() in words]
            if some:
                numbers[name] = f1([right[i] for i in some], [predicted[i] for i in some])
        return numbers

    def text_lines(
        self, predictions: Sequence[np.ndarray], examples: Sequence[Coreference], settings: Predict, first: bool
    ) -> list[str]:
        if settings.submission:
            return [predictions_line(e.id, _label(p)) for p, e in zip(predictions, examples, strict=True)]
        return ["\t".join((_label(p), *(f"{probability:.4f}" for probability in np.exp(p)))) for p in predictions]

    def as_json(self, prediction: np.ndarray, example: Coreference, settings: Predict) -> dict[str, object]:
        probabilities = {label: round(float(p), 6) for label, p in zip(LABELS, np.exp(prediction), strict=True)}
        return {"id": example.id, "prediction": _label(prediction), "probabilities": probabilities}


def _label(log_probabilities: np.ndarray) -> str:
    return LABELS[int(log_probabilities.argmax())]


def f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """GAP's F1: each example is two decisions, whether the pronoun means A and whether it means B; 0 if neither ever does."""
    right = sum(g == p != "neither" for g, p in zip(gold, predicted, strict=True))
    positive = sum(g != "neither" for g in gold) + sum(p != "neither" for p in predicted)
    return 2 * right / max(1, positive)


def nearest(example: Coreference) -> str:
    """The name with the fewest characters between it and the pronoun; A if both are equally near."""

    def distance(name: str, offset: int) -> int:
        end = example.pronoun_offset + len(example.pronoun)
        return max(offset - end, example.pronoun_offset - offset - len(name))

    a, b = distance(example.name_a, example.a_offset), distance(example.name_b, example.b_offset)
    return "A" if a <= b else "B"
