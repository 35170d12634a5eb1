"""Tasks of `finetune` that read prompts and responses: their data in files, and what else they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar, cast

import numpy as np
from torch import Tensor

from nlptools import messages
from nlptools.batches.completions import NEXT, ChatSegment, PackedBatches
from nlptools.batches.features import Features
from nlptools.batches.source import Share
from nlptools.batches.windows import NO_TARGET
from nlptools.compute.backend import Backend
from nlptools.configs import Compute, Training
from nlptools.configs.finetuning import Finetune, FinetuneTraining
from nlptools.configs.tasks.files import Files
from nlptools.corpora.counts import Counts
from nlptools.errors import DataError
from nlptools.files import streams
from nlptools.formats.readers import read
from nlptools.json_types import JsonObject
from nlptools.metrics.criterion import Criterion
from nlptools.models.contract import LanguageModel
from nlptools.tasks.task import reading_options
from nlptools.training.engine.job import Trained, run_job
from nlptools.training.engine.loop import Evaluate
from nlptools.training.engine.spooled import Spooled, SpooledTask
from nlptools.training.objective import Objective
from nlptools.training.preferences.policy import Policy, log_probabilities

E = TypeVar("E")  # examples of a task
REFERENCE = (
    "reference"  # the target with the log-probability of a sequence under the reference, computed from the others
)


@dataclass(frozen=True)
class CompletionCounts(Counts):
    """Counts of examples, of the tokens of all sequences, and of those that are targets."""

    examples: int = 0
    tokens: int = 0
    targets: int = 0
    cut: int = 0  # examples that lost tokens


@dataclass(frozen=True, eq=False)
class Completions:
    """Sequences in files of `Features.save`."""

    path: Path
    features: Features

    @property
    def counts(self) -> CompletionCounts:
        features = self.features
        targets = int((features.targets[NEXT] != NO_TARGET).sum())
        return CompletionCounts(features.num_examples, len(features.rows.ids), targets, features.cut)

    @property
    def digest(self) -> str:
        """SHA-256 of what was read; what was computed from it may differ in the last bits between machines."""
        read = {name: array for name, array in self.features.targets.items() if name != REFERENCE}
        return replace(self.features, targets=read).digest


@dataclass(frozen=True)
class CompletionTask(SpooledTask[Completions], Generic[E]):
    """A task of `finetune` on prompts and responses. Implements `training.engine.job.TrainingRun`."""

    options: Finetune
    run: Training
    inputs: Sequence[str]
    seed: int
    policy: Policy
    files: Files
    encoding_errors: str

    unit = "examples"

    @property
    @abstractmethod
    def criterion(self) -> Criterion:
        """See `TrainingRun`."""

    @property
    @abstractmethod
    def measures(self) -> tuple[str, ...]:
        """See `TrainingRun`."""

    @abstractmethod
    def model(self) -> LanguageModel:
        """See `TrainingRun`."""

    @abstractmethod
    def objective(self, model: LanguageModel) -> Objective[LanguageModel]:
        """See `TrainingRun`."""

    @abstractmethod
    def texts(self, examples: Sequence[E]) -> list[list[ChatSegment]]:
        """The texts of the sequences of some examples."""

    @abstractmethod
    def values(self, model: LanguageModel, scored: np.ndarray, features: Features) -> dict[str, float]:
        """The measures of a validation from the log-probability of each sequence and its number of targets, (S, 2)."""

    def settings(self) -> JsonObject:
        return {**super().settings(), **self.policy.settings()}

    def source(self, data: Spooled[Completions], model: LanguageModel, backend: Backend) -> PackedBatches:
        """Batches of sequences that are packed into rows."""
        size, share = Share.of(self.run.batch_size, self.run.global_batch, backend.rank, backend.world_size)
        return PackedBatches(data.train.features, size, seed=self.seed, share=share)

    def evaluate(self, data: Spooled[Completions], backend: Backend) -> Evaluate[LanguageModel] | None:
        """The validation of a model; None without held-out examples."""
        if data.valid is None:
            return None
        features = data.valid.features

        def evaluate(model: LanguageModel, stop: Callable[[], bool]) -> dict[str, float] | None:
            scored = log_probabilities(model, features, backend, stop if backend.world_size == 1 else None)
            return None if scored is None else self.values(model, scored, features)

        return evaluate

    def features(self, examples: Sequence[E], backend: Backend) -> Features:
        """The sequences of examples; by default one for each."""
        encoding = self.policy.encoding(self.options.max_length, backend.threads)
        return encoding.sequences(self.texts(examples))

    def encode(self, path: Path, backend: Backend, held_out: bool) -> Completions:
        """Raises DataError without examples."""
        names = self.run.held_out if held_out else self.inputs
        options = reading_options(self.files)
        examples = cast("list[E]", list(read(self.options.task, names, options, self.encoding_errors)))
        if not examples:
            raise DataError(f"no examples to {'evaluate' if held_out else 'train'} on", path=names[0])
        self.features(examples, backend).save(path)
        return self.reopen(path)

    def reopen(self, path: Path) -> Completions:
        return Completions(path, Features.open(path))

    def describe(self, counts: CompletionCounts) -> str:
        cut = f", {counts.cut:,} cut" if counts.cut else ""
        return (
            f"{messages.counted(counts.examples, 'example')} of {messages.counted(counts.tokens, 'token')},"
            f" {counts.targets:,} of them in responses{cut}"
        )

    def save(
        self, directory: Path, model: LanguageModel, weights: Mapping[str, Tensor], record: Mapping[str, object]
    ) -> None:
        self.policy.save(directory, model, weights, record)

    def advice(self, name: str) -> str:
        return f"echo 'A prompt' | nlptools generate {name}"


def finetune(
    kind: type[CompletionTask[E]],
    inputs: Sequence[str],
    settings: Finetune,
    run: FinetuneTraining,
    compute: Compute,
    files: Files,
    *,
    encoding_errors: str = "strict",
    invocation: Mapping[str, object] | None = None,
) -> Trained:
    """Train the language model in `settings.model` on a task of this kind.

    Raises:
        UsageError: an option of another task, or --chat for a model with another chat template.
        BundleError: not a language model, or one of n-grams or ELMo. And the errors of `run_job`.
    """
    inputs = streams.check_inputs(inputs, run.held_out)
    policy = Policy.open(str(settings.model), settings, settings.chat)
    task = kind(settings, run, inputs, compute.seed, policy, files, encoding_errors)
    return run_job(task, run, compute, invocation)
