"""Networks over words: without pretraining (`finetune --scratch`), or with the features of an ELMo (`--features`).

What differs between them is a `WordNetwork`: of bags and sentences, of tags, or with an ELMo.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor

from nlptools import bundle
from nlptools.batches.features import Features
from nlptools.batches.row_encodings import RowEncoding
from nlptools.batches.source import BatchSource, Share
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.configs.finetuning import Finetune
from nlptools.configs.tasks.table import check_options, task_entry
from nlptools.configs.tasks.words import Scratch
from nlptools.files.json_fields import child, texts, whole, wholes
from nlptools.formats.examples import TaskExample
from nlptools.json_types import JsonObject
from nlptools.models.tasks.task_model import TaskModel
from nlptools.tasks import outputs
from nlptools.tasks.task import Task
from nlptools.tasks.without_pretraining import RowLogits
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab
from nlptools.training.engine import optimizers
from nlptools.training.engine.optimizers import Optimizer
from nlptools.training.engine.weights import Weights
from nlptools.training.finetuning.reader import TaskLoss
from nlptools.vectors.files import formats
from nlptools.vectors.table import Vectors

# networks of a --scratch that the other architectures of the task do not share
_OTHERS = {
    "logistic": "nlptools.training.finetuning.logistic:LogisticNetwork",
    "vit": "nlptools.training.finetuning.vision:ImageNetwork",
}

M = TypeVar("M", bound=TaskModel)
LEARNED = "the main process"  # the source of what other processes restore, for messages


@dataclass(frozen=True)
class NetworkOptions:
    """The options of a network. `vectors`: of words, to start from."""

    finetune: Finetune
    scratch: Scratch
    vectors: Vectors | None

    @property
    def embedding_size(self) -> int:
        """The size of the vectors of words."""
        return self.scratch.dim if self.vectors is None else self.vectors.dimensions


class WordNetwork(ABC, Generic[M]):
    """A kind of network over words. `encoding` learns the vocabulary, which the other methods need.

    Attributes:
        arch: the architecture in config.json.
        inputs: how many inputs a batch has.
    """

    arch: str
    inputs: int

    @abstractmethod
    def encoding(self, task: Task, examples: Sequence[TaskExample], threads: int) -> RowEncoding:
        """How texts become rows, with the vocabulary of the training examples."""

    @abstractmethod
    def learned(self) -> JsonObject:
        """What `encoding` has learned, for `restore`."""

    @abstractmethod
    def restore(self, learned: JsonObject) -> None:
        """Take over what `encoding` has learned in another process."""

    @property
    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """The tokenizer with this vocabulary."""

    @abstractmethod
    def model(self, task: Task) -> M:
        """The model, before `initialize`."""

    @abstractmethod
    def begin(self, model: M) -> None:
        """Change the drawn weights where there are better ones to start from, and freeze those that do not learn."""

    def logits(self, model: M, inputs: tuple[Tensor, ...], spans: Tensor | None) -> Tensor:
        """See `TaskLogits`."""
        logits: Tensor = model(*inputs)
        return logits

    def rates(self, model: M) -> Mapping[str, float]:
        """Factors of the learning rate, by the names of parameters in the model; 1 for other ones."""
        return {}

    def optimizer(self, model: M, weights: Weights[object], run: Training) -> Optimizer:
        """The optimizer of the weights. Raises UsageError for one that cannot train them."""
        return optimizers.of_options(weights, run)

    @abstractmethod
    def source(self, features: Features, batch_size: int, seed: int, share: Share, backend: Backend) -> BatchSource:
        """The training batches."""

    @abstractmethod
    def row_logits(self, model: M, features: Features, backend: Backend) -> RowLogits:
        """See `tasks.outputs`."""


@dataclass(frozen=True)
class Words:
    """A network over words, as `reader.Reader`."""

    network: WordNetwork[TaskModel]
    scratch: Scratch

    learns_vocabulary: ClassVar[bool] = True

    def settings(self) -> JsonObject:
        return asdict(self.scratch)

    def encoding(self, task: Task, examples: Sequence[TaskExample], threads: int) -> RowEncoding:
        return self.network.encoding(task, examples, threads)

    def learned(self) -> JsonObject:
        return self.network.learned()

    def restore(self, learned: JsonObject) -> None:
        self.network.restore(learned)

    def model(self, task: Task, seed: int) -> TaskModel:
        model: TaskModel = self.network.model(task)
        torch.manual_seed(seed)
        model.initialize()
        self.network.begin(model)
        task.begin(model)
        return model

    def objective(self, model: TaskModel, task: Task) -> TaskLoss[TaskModel]:
        network, rates = self.network, {f"model.{name}": x for name, x in self.network.rates(model).items()}
        return TaskLoss(
            model,
            task,
            network.logits,
            network.inputs,
            rates=lambda epoch: rates,
            optimizer=lambda weights, run: network.optimizer(model, weights, run),
            in_16_bits=False,
        )

    def source(self, features: Features, batch_size: int, seed: int, share: Share, backend: Backend) -> BatchSource:
        return self.network.source(features, batch_size, seed, share, backend)

    def logits(
        self, model: TaskModel, task: Task, features: Features, backend: Backend, stop: Callable[[], bool] | None
    ) -> list[np.ndarray] | None:
        return outputs.in_batches(self.network.row_logits(model, features, backend), features, stop=stop)

    def save(
        self,
        directory: Path,
        model: TaskModel,
        weights: Mapping[str, Tensor],
        training: Mapping[str, object],
        more: Mapping[str, object],
    ) -> None:
        arch, tokenizer = self.network.arch, self.network.tokenizer
        bundle.save_encoder(directory, model, weights, tokenizer, arch=arch, training=training, more=more)


def opened(settings: Finetune, scratch: Scratch, errors: str) -> Words:
    """The network that --scratch or --features asks for.

    Raises:
        UsageError: options that cannot be combined.
        InputError, BundleError: invalid vectors, an invalid tokenizer, or an invalid ELMo.
    """
    place = "nlptools.training.finetuning.word_reader:FeatureNetwork"
    if settings.scratch is not None:
        place = task_entry(settings.task).scratch
        check_options(settings.task, scratch)
        place = _OTHERS.get(settings.scratch, place)
    scratch.check(settings.scratch or "lstm")
    vectors = None if scratch.vectors is None else formats.load(scratch.vectors, errors=errors)
    network: Callable[[NetworkOptions], WordNetwork[TaskModel]] = pkgutil.resolve_name(place)
    return Words(network(NetworkOptions(settings, scratch, vectors)), scratch)


def vocab_as_json(vocab: Vocab) -> JsonObject:
    """A vocabulary for `vocab_of`."""
    return {"tokens": [*vocab.tokens], "counts": [*vocab.counts], "special": {**vocab.roles}}


def vocab_of(data: JsonObject) -> Vocab:
    """The vocabulary of `vocab_as_json`."""
    special = child(data, "special", LEARNED)
    roles = {role: whole(special, role, LEARNED) for role in special}
    return Vocab(texts(data, "tokens", LEARNED), wholes(data, "counts", LEARNED), roles)


def counted(words: Iterable[str], lowercase: bool) -> tuple[Counter[str], Counter[str]]:
    """How often each word occurs, and each word in the form that is looked up: lower-cased with `lowercase`."""
    counts = Counter(words)
    if not lowercase:
        return counts, counts
    lowered: Counter[str] = Counter()
    for word, count in counts.items():
        lowered[word.lower()] += count
    return counts, lowered
