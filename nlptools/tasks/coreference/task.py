"""The task coreference: which of two names a pronoun means, or neither.

Data, and the measure: Webster et al. 2018, "Mind the GAP" (Q18-1042). Mentions are told apart by the encoder and compared
by `layers.heads.MentionHead`; transformers has no word for such a head, and leaves it out when it opens the directory.
Shapes: N examples, B rows of a batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.features import WEIGHT, Encoding, Features, with_types
from nlptools.configs.finetuning import Files, Finetune, Predict
from nlptools.errors import DataError
from nlptools.formats.examples import Coreference
from nlptools.formats.gap import predictions_line
from nlptools.formats.readers import read
from nlptools.formats.reading_options import Options
from nlptools.metrics.criterion import Criterion
from nlptools.tasks import task as kind
from nlptools.tasks.coreference.features import LABELS, coreference_features

_MASCULINE, _FEMININE = ("he", "his", "him"), ("she", "her", "hers")


@dataclass(frozen=True)
class Pronouns:
    """See the module's docstring; fulfils `kind.Kind`.

    Attributes:
        options: how files are read.
        best: the number to choose by, or auto.
    """

    options: Options
    best: str = "auto"
    name: str = "coreference"
    head: str = "mentions"
    unit: str = "examples"
    num_labels: int = 2  # of other heads; this one always has three

    @staticmethod
    def new(settings: Finetune, files: Files) -> Pronouns:
        """See `kind.new`."""
        return Pronouns(kind.options(files), kind.chosen(settings, ("loss", "accuracy", "f1")))

    @staticmethod
    def opened(found: bundle.Bundle, settings: Predict, files: Files) -> Pronouns:
        """See `kind.opened`."""
        return Pronouns(kind.options(files, labelled=False))

    @property
    def criterion(self) -> Criterion:
        name = "f1" if self.best == "auto" else self.best
        return Criterion(name, higher_is_better=name != "loss")

    @property
    def measures(self) -> tuple[str, ...]:
        chosen = self.criterion.name
        some = ("answers", "loss", "accuracy", "f1_masculine", "f1_feminine", "f1_nearest", "f1")
        return (*(name for name in some if name != chosen), chosen)

    # -- examples -----------------------------------------------------------------------------------------------------

    def read(self, names: Sequence[str], labelled: bool, errors: str) -> Iterator[Any]:
        return read(self.name, names, replace(self.options, labelled=labelled), errors)

    def learn(self, examples: Sequence[Coreference]) -> Pronouns:
        labels = {_label(e) for e in examples}
        if len(labels) < 2:
            raise DataError(f"only one class: every label is {labels.pop()}", path=examples[0].place.path)
        return self

    def learned(self) -> dict[str, Any]:
        return {}

    def restored(self, learned: Mapping[str, Any]) -> Pronouns:
        return self

    def check(self, examples: Sequence[Coreference]) -> None:
        """There are no other labels than those."""

    def features(self, examples: Sequence[Coreference], encoding: Encoding, labelled: bool) -> Features:
        how: dict[str, Any] = {"max_length": encoding.max_length, "marks": encoding.marks, "threads": encoding.threads}
        found = coreference_features(examples, encoding.tokenizer, **how)
        targets: dict[str, np.ndarray] = {"spans": found.spans.reshape(-1, 6)}
        if labelled:
            targets |= {"label": found.labels, WEIGHT: np.ones(len(examples), np.float32)}
        return Features(with_types(found.rows, encoding), targets, cut=found.cut_texts)

    # -- learning and predicting --------------------------------------------------------------------------------------

    def begin(self, model: Any) -> None:
        """Nothing to do."""

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        label, weight = targets
        return (F.cross_entropy(logits, label, reduction="none") * weight).sum()

    def decode(self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Any]) -> list[Any]:
        """(3,) log-probabilities of A, B and neither, of each example."""
        if not outputs:
            return []
        return list(F.log_softmax(torch.from_numpy(np.stack(outputs).astype(np.float64)), -1).numpy())

    def measure(self, predictions: Sequence[np.ndarray], examples: Sequence[Coreference]) -> dict[str, float]:
        """GAP's F1, of all and of each gender, and `f1_nearest`: that of the name next to the pronoun, to be compared."""
        gold, said = [_label(e) for e in examples], [LABELS[int(p.argmax())] for p in predictions]
        numbers = {
            "answers": float(len(set(said))),
            "loss": -float(np.mean([p[LABELS.index(g)] for p, g in zip(predictions, gold, strict=True)])),
            "accuracy": float(np.mean([g == s for g, s in zip(gold, said, strict=True)])),
            "f1": f1(gold, said),
            "f1_nearest": f1(gold, [nearest(e) for e in examples]),
        }
        for name, words in (("f1_masculine", _MASCULINE), ("f1_feminine", _FEMININE)):
            some = [i for i, e in enumerate(examples) if e.pronoun.lower() in words]
            if some:
                numbers[name] = f1([gold[i] for i in some], [said[i] for i in some])
        return numbers

    def lines(
        self, predictions: Sequence[np.ndarray], examples: Sequence[Coreference], settings: Predict, first: bool
    ) -> list[str]:
        if settings.submission:
            said = [LABELS[int(p.argmax())] for p in predictions]
            return [predictions_line(e.id, s) for e, s in zip(examples, said, strict=True)]
        if settings.to == "json":
            return [_object(p, e) for p, e in zip(predictions, examples, strict=True)]
        return ["\t".join((LABELS[int(p.argmax())], *(f"{share:.4f}" for share in np.exp(p)))) for p in predictions]

    def config(self) -> dict[str, Any]:
        return {"nlptools": {"task": {"name": self.name}}}


def _label(example: Coreference) -> str:
    assert example.label is not None
    return example.label


def _object(logs: np.ndarray, example: Coreference) -> str:
    """A line of JSON: which name, and the probabilities."""
    shares = {label: round(float(share), 6) for label, share in zip(LABELS, np.exp(logs), strict=True)}
    said = LABELS[int(logs.argmax())]
    return json.dumps({"id": example.id, "prediction": said, "probabilities": shares}, ensure_ascii=False)


def f1(gold: Sequence[str], said: Sequence[str]) -> float:
    """GAP's F1: whether the pronoun means A, and whether it means B, are two decisions of each example; 0 without any."""
    right = sum(g == s != "neither" for g, s in zip(gold, said, strict=True))
    sides = sum(g != "neither" for g in gold) + sum(s != "neither" for s in said)
    return 2 * right / max(1, sides)


def nearest(example: Coreference) -> str:
    """The name with the fewest characters between it and the pronoun, A of two as near."""

    def away(name: str, offset: int) -> int:
        end = example.pronoun_offset + len(example.pronoun)
        return max(offset - end, example.pronoun_offset - offset - len(name))

    a, b = away(example.name_a, example.a_offset), away(example.name_b, example.b_offset)
    return "A" if a <= b else "B"
