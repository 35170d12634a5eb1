"""The task instruct of `finetune`: a language model learns to answer prompts, from demonstrations.

Ouyang et al. 2022 (arXiv:2203.02155), step 1: cross-entropy of the answers alone, each of which ends with the end-of-text
token. A step is the mean over the tokens of the answers of its examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from nlptools.batches.completions import PackedBatch, PackedBatches, Segment
from nlptools.batches.conversations import demonstration
from nlptools.compute.backend import Backend
from nlptools.formats.examples import Demonstration
from nlptools.inference.perplexity import perplexity
from nlptools.metrics.criterion import LOSS, Criterion
from nlptools.training.engine.loop import Evaluate
from nlptools.training.engine.spooled import Spooled
from nlptools.training.objective import Objective
from nlptools.training.preferences import completions
from nlptools.training.preferences.completions import Completions, CompletionTask
from nlptools.training.preferences.policy import arrays, log_probabilities


class _Instruct(CompletionTask):
    """Answers to prompts, as `training.engine.job.Task`."""

    own_options = ("task", "model", "best", "max_length", "encoder_dropout")
    bests = ("auto", "loss")

    unit = "tokens"
    criterion: Criterion = LOSS
    measures: tuple[str, ...] = ("loss", "perplexity")

    def texts(self, examples: Sequence[Demonstration]) -> list[list[Segment]]:
        return [demonstration(example) for example in examples]

    def model(self) -> Any:
        return self.policy.model(self.options.encoder_dropout)

    def objective(self, model: Any) -> Objective:
        return Answers(model)

    def source(self, data: Spooled[Completions], model: Any, backend: Backend) -> PackedBatches:
        where = {"seed": self.seed, "rank": backend.rank, "world_size": backend.world_size}
        return PackedBatches(data.train.features, self.run.batch_size, **where)

    def evaluate(self, data: Spooled[Completions], backend: Backend) -> Evaluate | None:
        if data.valid is None:
            return None
        features = data.valid.features

        def evaluate(model: Any, stop: Callable[[], bool]) -> dict[str, float] | None:
            scored = log_probabilities(model, features, backend, stop if backend.world_size == 1 else None)
            if scored is None:
                return None
            total, count = scored.sum(0)
            return {"loss": -total / max(1.0, count), "perplexity": perplexity(-total / max(1.0, count))}

        return evaluate


class Answers(Objective):
    """Cross-entropy of the tokens of answers, in nats."""

    def counts(self, batch: PackedBatch) -> dict[str, float]:
        """The number of targets."""
        return {"loss": float(batch.num_targets)}

    def arrays(self, batch: PackedBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward`, to be put on the device."""
        return arrays(batch)

    def forward(self, ids: Tensor, targets: Tensor, segments: Tensor) -> dict[str, Tensor]:
        """(R, T) each -> the sum of the losses."""
        hidden, _ = self.model(ids, segments=segments)
        return {"loss": self.model.output.summed_loss(hidden.flatten(0, 1), targets.flatten())}


finetune = partial(completions.finetune, _Instruct)
