"""Training of text classifiers without a pretrained model: `finetune --scratch`.

Shapes: B batch, T length, K labels, V words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nlptools import bundle, messages
from nlptools.batches.bags import BagBatch, BagBatches
from nlptools.batches.features import FeatureBatch, FeatureBatches, Features
from nlptools.batches.source import BatchSource
from nlptools.batches.text_rows import Cut, TextEncoding, TextNGrams
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.configs.finetuning import Finetune
from nlptools.configs.tasks.words import Scratch
from nlptools.configs.word_vectors import lengths
from nlptools.errors import DataError, UsageError
from nlptools.models.tasks.text_classifiers import TextClassifier, TextClassifierConfig
from nlptools.tasks import classifiers
from nlptools.tasks.task import Task
from nlptools.text import builtin
from nlptools.text import tokenizer as tokenizers
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab
from nlptools.training.engine.optimizers import Optimizer
from nlptools.training.engine.row_adagrad import RowAdaGrad
from nlptools.training.engine.weights import Weights
from nlptools.training.objective import Objective
from nlptools.training.token_vectors import TokenVectors
from nlptools.vectors.files import formats

SPECIAL = ("<pad>", "<unk>")
UNK = 1
BUCKETS = 2_000_000  # as in fastText
_SIZES = ("hidden_size", "dropout", "word_ngrams", "char_ngrams")  # of `Scratch` and `TextClassifierConfig` alike


class FromScratch:
    """A text classifier to train; see `pretrained.Pretrained`. `encoding` sets its vocabulary and n-grams."""

    several_processes: ClassVar[bool] = False

    def __init__(self, settings: Finetune, scratch: Scratch, errors: str = "strict") -> None:
        """Raises UsageError for settings that do not go together, BundleError for invalid vectors or an invalid tokenizer."""
        assert settings.scratch is not None
        self.options, self.scratch, self.arch = settings, scratch, settings.scratch
        self.given = tokenizers.load(scratch.tokenizer, None, scratch.lowercase)
        self.vectors = None if scratch.vectors is None else formats.load(scratch.vectors, errors=errors)
        self._encoding: TextEncoding | None = None
        self._texts = 1

    def settings(self) -> dict[str, Any]:
        """See `pretrained.Pretrained`."""
        return asdict(self.scratch)

    def encoding(self, examples: Sequence[Any], threads: int) -> TextEncoding:
        """How texts become rows, with the vocabulary and n-grams of the training examples."""
        texts = [example.texts for example in examples]
        self._texts = len(texts[0])
        tokenizer, cut = self.given, None
        if tokenizer.vocab is None:
            lines = [text for example in texts for text in example]
            cut = Cut(lines, tokenizer.tokens_lines(lines, threads))  # once: this takes longer than an epoch of a bag
            tokenizer = self._learned(cut.words)
        assert tokenizer.vocab is not None
        unk = len(tokenizer.vocab) if tokenizer.vocab.unk is None else tokenizer.vocab.unk
        encoding = TextEncoding(tokenizer, unk, self.options.max_length, None, threads, cut)
        if self.arch == "bag":
            scratch = self.scratch
            characters = None if scratch.char_ngrams is None else lengths(scratch.char_ngrams)
            first = len(tokenizer.vocab) + 1
            ngrams = TextNGrams(scratch.word_ngrams, characters, BUCKETS, first, np.empty(0, np.int64))
            encoding = replace(encoding, ngrams=ngrams)
            encoding = replace(encoding, ngrams=replace(ngrams, known=encoding.buckets(texts)))
        self._encoding = replace(encoding, cut=None)
        return encoding

    def _learned(self, texts: Sequence[Sequence[str]]) -> Tokenizer:
        """The tokenizer with the words of the training texts, most frequent first, then the words of the vectors."""
        counts = Counter(chain.from_iterable(texts))
        for special in SPECIAL:
            counts.pop(special, None)
        kept = sorted((w for w, n in counts.items() if n >= self.scratch.min_count), key=lambda w: (-counts[w], w))
        if not kept:
            raise DataError(
                f"no word of the training texts occurs {self.scratch.min_count} times", hint="lower --min-count"
            )
        words = dict.fromkeys((*SPECIAL, *kept))
        if self.vectors is not None:
            more = self.vectors.words.list()
            usable = [w for w in more if w == w.lower()] if self.scratch.lowercase else more
            words.update(dict.fromkeys(usable))
            unusable = len(more) - len(usable)
            skipped = f"; {unusable:,} of its words have capitals and are skipped (--no-lowercase)" if unusable else ""
            known = sum(map(set(usable).__contains__, kept))
            messages.note(f"vectors: {known:,} of {len(kept):,} words of the training texts have one{skipped}")
        vocab = Vocab(words, [counts.get(w, 0) for w in words], {"pad": classifiers.PAD, "unk": UNK})
        return builtin.NamedTokenizer(self.given.kind, vocab, self.scratch.lowercase)

    def model(self, task: Task, seed: int) -> TextClassifier:
        """See `pretrained.Pretrained`."""
        encoding, scratch = self._encoding, self.scratch
        assert encoding is not None and encoding.tokenizer.vocab is not None
        config = TextClassifierConfig(
            arch=self.arch,
            vocab_size=len(encoding.tokenizer.vocab) + 1,
            embedding_size=scratch.dim if self.vectors is None else self.vectors.dimensions,
            num_labels=task.num_labels,
            texts=self._texts,
            num_hidden_layers=scratch.depth,
            buckets=BUCKETS,
            num_ngrams=0 if encoding.ngrams is None else len(encoding.ngrams.known),
            unk=encoding.unk,
            **{name: getattr(scratch, name) for name in _SIZES},
        )
        model = TextClassifier(config)
        torch.manual_seed(seed)
        model.initialize()
        if encoding.ngrams is not None:
            model.buckets.copy_(torch.from_numpy(encoding.ngrams.known))
        if self.vectors is not None:
            TokenVectors(encoding.tokenizer.vocab, self.vectors).place(model.token_embedding.weight)
        if self.options.freeze == "all":
            model.freeze_words()
        task.begin(model)
        return model

    def objective(self, model: TextClassifier, task: Task) -> ClassifierLoss:
        """See `pretrained.Pretrained`."""
        return ClassifierLoss(model, task)

    def source(self, features: Features, batch_size: int, seed: int, backend: Backend) -> BatchSource:
        """See `pretrained.Pretrained`."""
        if self.arch == "bag":
            return BagBatches(features, batch_size, texts=self._texts, seed=seed)
        return FeatureBatches(features, batch_size, seed=seed, pad=classifiers.PAD)

    def save(
        self, directory: Path, model: Any, weights: Mapping[str, Any], training: Mapping[str, Any], more: dict[str, Any]
    ) -> None:
        """See `pretrained.Pretrained`."""
        assert self._encoding is not None
        tokenizer = self._encoding.tokenizer
        bundle.save_encoder(directory, model, weights, tokenizer, arch="text-classifier", training=training, more=more)


class ClassifierLoss(Objective):
    """The loss of a text classifier, as a weighted sum."""

    trains_in_16_bits = False

    def __init__(self, model: TextClassifier, task: Task) -> None:
        super().__init__(model)
        self.task = task

    def optimizer(self, run: Training, weights: Weights) -> Optimizer:
        """`run.optimizer`, or for a bag AdaGrad on the rows of each batch."""
        model = self.model
        if model.rows is not None:
            if run.optimizer != "adamw":
                raise UsageError(f"--optimizer {run.optimizer} does not go with a bag of words, which AdaGrad trains")
            return RowAdaGrad(weights.parameters, model.token_embedding.weight, model.rows)
        return super().optimizer(run, weights)

    def counts(self, batch: FeatureBatch | BagBatch) -> dict[str, float]:
        """The divisor of the loss: the sum of the weights."""
        return {"loss": batch.weight}

    def arrays(self, batch: FeatureBatch | BagBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward`, to be put on the device."""
        if isinstance(batch, BagBatch):
            return batch.ids, batch.lengths, *batch.targets
        return batch.ids, batch.mask, batch.types, *batch.targets

    def forward(self, *arrays: Tensor) -> dict[str, Tensor]:
        """The arrays of `arrays` -> the sum of the losses."""
        inputs = 2 if self.model.is_bag else 3
        return {"loss": self.task.loss(self.model(*arrays[:inputs]), *arrays[inputs:])}
