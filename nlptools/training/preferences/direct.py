"""The task preference of `finetune`: a language model learns from preferences, without a reward model; see `losses`.

The reference is the initial model; its log-probabilities are computed once, before training. Each example has two sequences:
the better and the worse response of a pair; or the response of a judgement (kto) and the response of the next example, which
estimates the divergence of the model from the reference. Dropout is off.
Shapes: N examples of a batch, S = 2 N sequences, R rows, T length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from nlptools import messages
from nlptools.batches.completions import ChatSegment, PackedBatch
from nlptools.batches.conversations import response
from nlptools.batches.features import Features
from nlptools.compute.backend import Backend
from nlptools.formats.examples import Judgement, Ranking
from nlptools.metrics.criterion import Criterion
from nlptools.models.contract import LanguageModel
from nlptools.training.objective import Objective
from nlptools.training.preferences import completions, losses
from nlptools.training.preferences.completions import REFERENCE, CompletionTask
from nlptools.training.preferences.policy import arrays, log_probabilities, packed_hidden

GOOD = "good"  # target: whether a sequence is the response of a good example


class _Preference(CompletionTask[Ranking | Judgement]):
    """Preferences, as `training.engine.job.TrainingRun`."""

    @cached_property
    def criterion(self) -> Criterion:
        """The loss unless another measure is asked for: accuracy is soon 1 on small data."""
        return Criterion("loss" if self.options.best == "auto" else self.options.best, self.options.best == "accuracy")

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures of a validation, the criterion last."""
        return ("margin", *(name for name in ("loss", "accuracy") if name != self.criterion.name), self.criterion.name)

    def texts(self, examples: Sequence[Ranking | Judgement]) -> list[list[ChatSegment]]:
        """The two sequences of each example, see the module."""
        if self.options.loss == "kto":
            judged = cast(Sequence[Judgement], examples)
            following = zip(judged, [*judged[1:], judged[0]], strict=True)
            texts = [(e.prompt, turns, e.place) for e, other in following for turns in (e.response, other.response)]
        else:
            ranked = cast(Sequence[Ranking], examples)
            texts = [(e.prompt, turns, e.place) for e in ranked for turns in e.responses]
        chat = self.policy.template
        return [response(prompt, turns, chat, place) for prompt, turns, place in texts]

    def features(self, examples: Sequence[Ranking | Judgement], backend: Backend) -> Features:
        """The sequences of `texts`, with their log-probabilities under the reference. Raises DataError."""
        kto = self.options.loss == "kto"
        split: Callable[[Ranking | Judgement], Sequence[Ranking | Judgement]] = _judgements if kto else _pairs
        examples = [part for example in examples for part in split(example)]
        if kto and len(examples) < 2:
            raise examples[0].place.error("a single response, expected at least two for --loss kto")
        rows = super().features(examples, backend)
        good = np.repeat([e.good if isinstance(e, Judgement) else True for e in examples], 2).astype(np.uint8)
        bounds = np.arange(0, len(rows) + 1, 2)
        reference = np.zeros(len(rows), np.float32)
        if self.options.loss != "orpo":
            messages.note(
                f"computing the log-probabilities of {messages.counted(len(rows), 'response')} by the reference"
            )
            model = backend.for_model(self.policy.base.model).for_inference(self.policy.model(dropout=0.0))
            computed = log_probabilities(model, rows, backend)
            assert computed is not None
            reference = computed[:, 0].astype(np.float32)
        return replace(rows, targets={**rows.targets, GOOD: good, REFERENCE: reference}, examples=bounds)

    def model(self) -> LanguageModel:
        return self.policy.trained(0.0, self.seed)

    def objective(self, model: LanguageModel) -> PreferenceLoss:
        return PreferenceLoss(model, self.options.loss, self.options.beta)

    def values(self, model: LanguageModel, scored: np.ndarray, features: Features) -> dict[str, float]:
        """See `CompletionTask`."""
        objective = self.objective(model)
        total, length = (torch.from_numpy(scored[:, i]).float() for i in range(2))
        good, reference = (torch.from_numpy(np.array(features.targets[name])) for name in (GOOD, REFERENCE))
        each = objective.losses(total, length, reference, good.bool())
        return {"loss": float(each.mean()), **objective.measures(scored, features)}


class PreferenceLoss(Objective[LanguageModel]):
    """The mean loss of examples with two sequences each."""

    def __init__(self, model: LanguageModel, loss: str, beta: float) -> None:
        super().__init__(model)
        self.loss, self.beta = loss, beta

    def counts(self, batch: PackedBatch) -> dict[str, float]:
        """The number of examples; 0 without targets."""
        return {"loss": len(batch.sequences) / 2 if batch.num_targets else 0.0}

    def arrays(self, batch: PackedBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward`, to be put on the device."""
        return (*arrays(batch), batch.of_sequences[REFERENCE], batch.of_sequences[GOOD].astype(np.bool_))

    def forward(
        self, ids: Tensor, targets: Tensor, segments: Tensor, reference: Tensor, good: Tensor
    ) -> dict[str, Tensor]:
        """(R, T) ids, targets and segments; (S,) log-probabilities by the reference, and which sequences are of good
        examples -> the sum of the losses.
        """
        hidden, chosen, owner = packed_hidden(self.model, ids, targets, segments)
        if not len(chosen):
            return {"loss": hidden.sum()}
        values, _ = self.model.output.chosen_log_probabilities(hidden, chosen)
        total = reference.new_zeros(len(reference)).index_add(0, owner, values)
        length = torch.zeros_like(reference).index_add(0, owner, torch.ones_like(values))
        return {"loss": self.losses(total, length, reference, good).sum()}

    def losses(self, total_S: Tensor, length_S: Tensor, reference_S: Tensor, good_S: Tensor) -> Tensor:
        """(N,) from log-probabilities and lengths of sequences; see `forward`."""
        ratio_S = total_S - reference_S
        if self.loss == "kto":
            divergence = ratio_S[1::2].mean().clamp(min=0).detach()
            return losses.kto(ratio_S[::2], good_S[::2], divergence, self.beta)
        if self.loss == "dpo":
            return losses.dpo(ratio_S[::2], ratio_S[1::2], self.beta)
        if self.loss == "ipo":
            ratio_S = ratio_S / length_S
            return losses.ipo(ratio_S[::2], ratio_S[1::2], self.beta)
        mean_S = total_S / length_S
        return losses.orpo(mean_S[::2], mean_S[1::2], self.beta)

    def measures(self, scored: np.ndarray, features: Features) -> dict[str, float]:
        """How often and by how much the better response has the higher reward beta (log p - log p of the reference); of
        judgements, a good response one above 0. Without a reference, the mean log-probability of a token counts.
        """
        total, length = scored.T
        reward = total / length if self.loss == "orpo" else self.beta * (total - features.targets[REFERENCE])
        gap = reward[::2] - reward[1::2]
        if self.loss == "kto":
            gap = np.where(features.targets[GOOD][::2] > 0, reward[::2], -reward[::2])
        return {"accuracy": float((gap > 0).mean()), "margin": float(gap.mean())}


def _pairs(example: Ranking | Judgement) -> list[Ranking]:
    """The pairs of a ranking, the better response first. Raises DataError."""
    if isinstance(example, Judgement):
        raise example.place.error("a single response with a 'label', expected 'chosen' and 'rejected'", "--loss kto")
    return [replace(example, responses=(example.responses[i], example.responses[j])) for i, j in example.pairs]


def _judgements(example: Ranking | Judgement) -> list[Judgement]:
    """The judgement, or the judgements of a ranking: its best responses are good, the others bad."""
    if isinstance(example, Judgement):
        return [example]
    best = min(example.ranks)
    return [
        Judgement(example.prompt, turns, rank == best, example.place)
        for turns, rank in zip(example.responses, example.ranks, strict=True)
    ]


finetune = partial(completions.finetune, _Preference)
