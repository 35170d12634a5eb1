"""Training of logistic regressions: `finetune --scratch logistic`.

Shapes: N examples, F numbers of each.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nlptools.batches.features import Features
from nlptools.batches.source import BatchSource, Share
from nlptools.batches.text_rows import TextEncoding
from nlptools.batches.weighted_tokens import NumberEncoding, WeightedBatches
from nlptools.compute.backend import Backend
from nlptools.errors import InvalidText, UsageError
from nlptools.files.json_fields import numbers
from nlptools.formats.examples import TaskExample
from nlptools.json_types import JsonObject
from nlptools.models.tasks.logistic import Logistic, LogisticConfig
from nlptools.tasks import linear
from nlptools.tasks.task import Task
from nlptools.tasks.without_pretraining import RowLogits
from nlptools.text import builtin
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab
from nlptools.training.finetuning.scratch import TextNetwork
from nlptools.training.finetuning.words import LEARNED, NetworkOptions, WordNetwork


class LogisticNetwork(WordNetwork[Logistic]):
    """A logistic regression to train, as `words.WordNetwork`."""

    arch = "logistic"
    inputs = 2

    def __init__(self, options: NetworkOptions) -> None:
        """Raises UsageError for word vectors, BundleError for an invalid tokenizer."""
        if options.vectors is not None:
            raise UsageError("--vectors cannot be combined with --scratch logistic, which has no word vectors")
        self.options, self.texts = options, TextNetwork(options)
        self._encoding: TextEncoding | NumberEncoding | None = None
        self._mean = self._scale = torch.empty(
            0
        )  # (F,) mean and standard deviation of the numbers of the training data

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._encoding is not None
        return self._encoding.tokenizer

    def encoding(self, task: Task, examples: Sequence[TaskExample], threads: int) -> TextEncoding | NumberEncoding:
        """How texts become rows: with the vocabulary of the training examples, or as many numbers as the first one has."""
        texts = [example.texts for example in examples]
        if len(texts[0]) > 1:
            raise UsageError("--scratch logistic reads one text, not two")
        if self.options.scratch.values == "counts":
            self._encoding = self.texts.encoding(task, examples, threads)
            return self._encoding
        count = len(texts[0][0].split())
        if not count:
            raise examples[0].place.error("expected numbers, found an empty text")
        self._encoding = _of_numbers(count)
        try:
            values = torch.from_numpy(self._encoding.values(texts))
        except InvalidText as error:
            raise examples[error.row].place.error(str(error), error.hint) from None
        self._scale, self._mean = torch.std_mean(values.double(), 0, correction=0)
        return self._encoding

    def learned(self) -> JsonObject:
        if self.options.scratch.values == "counts":
            return self.texts.learned()
        return {"mean": [*self._mean.tolist()], "scale": [*self._scale.tolist()]}

    def restore(self, learned: JsonObject) -> None:
        if self.options.scratch.values == "counts":
            self._encoding = self.texts.restored(learned)
            return
        self._mean, self._scale = (
            torch.tensor(numbers(learned, key, LEARNED), dtype=torch.float64) for key in ("mean", "scale")
        )
        self._encoding = _of_numbers(len(self._mean))

    def model(self, task: Task) -> Logistic:
        encoding, values = self._encoding, self.options.scratch.values
        assert encoding is not None and encoding.tokenizer.vocab is not None
        size, unk = len(encoding.tokenizer.vocab), 0
        if isinstance(encoding, TextEncoding):
            size, unk = size + 1, encoding.unk
        return Logistic(LogisticConfig(size, task.num_labels, values, unk))

    def begin(self, model: Logistic) -> None:
        if model.config.has_numbers:
            model.standardize(self._mean, self._scale)

    def source(self, features: Features, batch_size: int, seed: int, share: Share, backend: Backend) -> BatchSource:
        return WeightedBatches(features, batch_size, seed=seed, pad=0, share=share)

    def row_logits(self, model: Logistic, features: Features, backend: Backend) -> RowLogits:
        return linear.row_logits(model, features, backend)


def _of_numbers(count: int) -> NumberEncoding:
    """How texts of so many numbers become rows."""
    names = Vocab([str(number) for number in range(1, count + 1)], [0] * count, {})
    return NumberEncoding(builtin.NamedTokenizer("words", names), count)
