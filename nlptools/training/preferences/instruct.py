"""The task instruct of `finetune`: a language model learns to answer prompts, from demonstrations.

Ouyang et al. 2022 (arXiv:2203.02155), step 1: cross-entropy of the answers only. Each answer ends with the end-of-text
token. The loss of a step is the mean over the tokens of the answers of its examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from torch import Tensor

from nlptools.batches.completions import ChatSegment, PackedBatch
from nlptools.batches.conversations import demonstration
from nlptools.batches.features import Features
from nlptools.formats.examples import Demonstration
from nlptools.inference.perplexity import perplexity
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.models.contract import LanguageModel
from nlptools.training.objective import Objective
from nlptools.training.preferences import completions
from nlptools.training.preferences.completions import CompletionTask
from nlptools.training.preferences.policy import arrays


class _Instruct(CompletionTask[Demonstration]):
    """Answers to prompts, as `training.engine.job.TrainingRun`."""

    unit = "tokens"
    criterion: Criterion = LOSS
    measures: tuple[str, ...] = ("loss", "perplexity")

    def texts(self, examples: Sequence[Demonstration]) -> list[list[ChatSegment]]:
        return [demonstration(example, self.policy.template) for example in examples]

    def model(self) -> LanguageModel:
        return self.policy.trained(self.options.encoder_dropout, self.seed)

    def objective(self, model: LanguageModel) -> Objective[LanguageModel]:
        return Answers(model)

    def values(self, model: LanguageModel, scored: np.ndarray, features: Features) -> dict[str, float]:
        """See `CompletionTask`."""
        total, count = scored.sum(0)
        loss = -total / max(1.0, count)
        return {"loss": loss, "perplexity": perplexity(loss)}


class Answers(Objective[LanguageModel]):
    """Cross-entropy of the tokens of answers, in nats."""

    def counts(self, batch: PackedBatch) -> dict[str, float]:
        """The number of targets."""
        return {"loss": float(batch.num_targets)}

    def arrays(self, batch: PackedBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward`, to be put on the device."""
        return arrays(batch)

    def forward(self, ids: Tensor, targets: Tensor, segments: Tensor) -> dict[str, Tensor]:
        """(R, T) each -> the sum of the losses."""
        hidden = self.model.packed(ids, segments)
        return {"loss": self.model.output.summed_loss(hidden.flatten(0, 1), targets.flatten())}


finetune = partial(completions.finetune, _Instruct)
