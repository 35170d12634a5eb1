"""The task reward: how good a response to a prompt is, learned from responses that people ranked.

Ouyang et al. 2022 (arXiv:2203.02155), section 3.5: the Bradley-Terry loss -log sigmoid(r(better) - r(worse) - margin), the mean
over all pairs of a prompt; its responses are in one batch (margins: Touvron et al. 2023, arXiv:2307.09288). A reward is the
number of a head "sequence" with one label, less the mean reward of the best responses of the validation data, so that such a
response has 0 on average.
Shapes: N examples, R rows of some examples, B rows of a batch, K responses of an example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from torch import Tensor
from torch.nn import functional as F

from nlptools import bundle
from nlptools.batches.conversations import judged_texts
from nlptools.batches.features import WEIGHT, Encoding, Features
from nlptools.configs.finetuning import Predict
from nlptools.configs.tasks.files import Files
from nlptools.formats.examples import Choice, Ranking
from nlptools.json_types import JsonObject
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks.choice.features import choice_features
from nlptools.tasks.ensembles import mean
from nlptools.tasks.labels import id2label
from nlptools.tasks.task import TaskOf, reading_options, saved_setting

_BINS = 10  # of probabilities, for the calibration


@dataclass(frozen=True)
class RewardTask(TaskOf[Ranking, np.ndarray, Encoding]):
    """See the module's docstring.

    Attributes:
        best_reward: the mean of the head's number for the best responses, which rewards are less by.
    """

    best_reward: float = 0.0

    bests: ClassVar[tuple[str, ...]] = ("loss", "accuracy")
    tuned: ClassVar[tuple[str, ...]] = ("best_reward",)

    @classmethod
    def from_bundle(cls, loaded: bundle.Bundle[TaskModel], settings: Predict, files: Files) -> RewardTask:
        mean = saved_setting(loaded.config, "best_reward", 0.0)
        return cls("reward", replace(reading_options(files), labelled=False), best_reward=mean)

    @property
    def num_labels(self) -> int:
        return 1

    @property
    def numbers(self) -> tuple[str, ...]:
        return ("loss", "calibration", "length_correlation", "accuracy_longer", "best_reward", "accuracy")

    def learn(self, examples: Sequence[Ranking]) -> RewardTask:
        return self

    def features(self, examples: Sequence[Ranking], encoding: Encoding, labelled: bool) -> Features:
        if encoding.marks.causal:  # text goes on after the prompt, as it does where it is generated
            encoding = replace(encoding, marks=replace(encoding.marks, sep=None))
        features = choice_features([self._texts(e, encoding) for e in examples], encoding)
        if not labelled:
            return features
        counts = np.array([len(e.responses) for e in examples])
        targets: dict[str, np.ndarray] = {
            "example": np.repeat(np.arange(len(examples)), counts),
            "rank": np.array([rank for e in examples for rank in e.ranks], np.float32),
            "margin": np.repeat(np.array([e.margin for e in examples], np.float32), counts),
            WEIGHT: np.repeat((1 / counts).astype(np.float32), counts),
        }
        return replace(features, targets=targets)

    def _texts(self, example: Ranking, encoding: Encoding) -> Choice:
        """The texts of a prompt and its responses. A start token that a chat template writes is left out: rows have one."""
        prompt, chat, place = example.prompt, encoding.chat, example.place
        before, responses = judged_texts(prompt, example.responses, chat, place)
        return Choice(encoding.without_start(before), responses, None, place)

    # -- training and prediction --------------------------------------------------------------------------------------

    def loss(self, logits: Tensor, *targets: Tensor) -> Tensor:
        """(B, 1) rewards; the example, rank and margin of each row, and its share in the weight of its example."""
        example, rank, margin, weight = targets
        same = example[:, None] == example  # (B, B)
        pairs = (same & (rank[:, None] < rank)).float()
        of_example = same.float() @ weight / (same.float() @ pairs.sum(1)).clamp(min=1)  # (B,) the weight of a pair
        losses = -F.logsigmoid(logits - logits.squeeze(1) - margin[:, None])
        return (losses * pairs * of_example[:, None]).sum()

    def decode(
        self, outputs: Sequence[np.ndarray], features: Features, examples: Sequence[Ranking]
    ) -> list[np.ndarray]:
        """(K,) the reward of each response of each example."""
        assert features.examples is not None
        return np.split(np.array(outputs, np.float64).reshape(-1) - self.best_reward, features.examples[1:-1])

    def combined(self, predictions: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        return mean(predictions)

    def measure(self, predictions: Sequence[np.ndarray], examples: Sequence[Ranking]) -> dict[str, float]:
        """Accuracy and loss over all pairs; the calibration of the probability that a response is better; the correlation of
        rewards with the number of characters; and how accurate it were to prefer the longer response.
        """
        lengths = [np.array([sum(len(turn.content) for turn in turns) for turns in e.responses]) for e in examples]
        gaps = np.concatenate(list(_gaps(predictions, examples)))
        longer = np.concatenate(list(_gaps(lengths, examples)))
        margins = np.concatenate([np.full(len(e.pairs), e.margin) for e in examples])
        rewards = np.concatenate(predictions)
        return {
            "answers": float(len(np.unique(rewards))),
            "loss": float(np.logaddexp(0, margins - gaps).mean()),
            "calibration": calibration_error(gaps),
            "length_correlation": _correlation(rewards, np.concatenate(lengths)),
            "accuracy_longer": float((np.sign(longer) / 2 + 0.5).mean()),
            "best_reward": float(
                np.mean([p[np.array(e.ranks) == min(e.ranks)].mean() for p, e in zip(predictions, examples)])
            ),
            "accuracy": float((np.sign(gaps) / 2 + 0.5).mean()),
        }

    def text_lines(
        self, predictions: Sequence[np.ndarray], examples: Sequence[Ranking], settings: Predict, first: bool
    ) -> list[str]:
        """The rewards of the responses of each example, between tabs."""
        return ["\t".join(f"{reward:.6g}" for reward in p) for p in predictions]

    def as_json(self, prediction: np.ndarray, example: Ranking, settings: Predict) -> dict[str, object]:
        return {"rewards": [round(float(reward), 6) for reward in prediction]}

    def label_settings(self) -> JsonObject:
        return {**id2label(["LABEL_0"]), "problem_type": "regression"}


def calibration_error(gaps: np.ndarray) -> float:
    """The expected calibration error of the probabilities sigmoid(|gap|) that the response with the higher reward is better,
    which it is where `gaps` is positive: the mean distance of probability and accuracy in ten bins, from 0 to 1/2 (Guo et
    al. 2017, arXiv:1706.04599).
    """
    probability = 1 / (1 + np.exp(-np.abs(gaps)))
    right = np.sign(gaps) / 2 + 0.5
    which = np.minimum((2 * _BINS * (probability - 0.5)).astype(int), _BINS - 1)
    distance = np.bincount(which, probability - right, _BINS)  # sums, so that bins count by their size
    return float(np.abs(distance).sum() / max(1, len(gaps)))


def _gaps(values: Sequence[np.ndarray], examples: Sequence[Ranking]) -> Iterator[np.ndarray]:
    """The difference of the values of the better and the worse response, for the pairs of each example."""
    for each, example in zip(values, examples, strict=True):
        better, worse = zip(*example.pairs)
        yield each[list(better)] - each[list(worse)]


def _correlation(x: np.ndarray, y: np.ndarray) -> float:
    """Pearson's correlation; 0 where one of both is constant."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
