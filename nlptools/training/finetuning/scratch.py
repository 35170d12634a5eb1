"""Training of text classifiers without a pretrained model: `finetune --scratch`.

Shapes: B batch, T length, K labels, V words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import torch

from nlptools import messages
from nlptools.batches.bags import BagBatches
from nlptools.batches.features import FeatureBatches, Features
from nlptools.batches.source import BatchSource, Share
from nlptools.batches.text_rows import Cut, TextEncoding, TextNGrams
from nlptools.compute.backend import Backend
from nlptools.configs import Training
from nlptools.configs.word_vectors import lengths
from nlptools.errors import DataError, UsageError
from nlptools.files.json_fields import child, whole, wholes
from nlptools.formats.examples import TaskExample
from nlptools.json_types import JsonObject
from nlptools.models.tasks.text_classifiers import TextClassifier, TextClassifierConfig
from nlptools.tasks import classifiers
from nlptools.tasks.task import Task
from nlptools.tasks.without_pretraining import RowLogits
from nlptools.text import builtin
from nlptools.text import tokenizer as tokenizers
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.vocab import Vocab
from nlptools.training.engine.optimizers import Optimizer
from nlptools.training.engine.row_adagrad import RowAdaGrad
from nlptools.training.engine.weights import Weights
from nlptools.training.finetuning.words import LEARNED, NetworkOptions, WordNetwork, vocab_as_json, vocab_of
from nlptools.training.token_vectors import TokenVectors

SPECIAL = ("<pad>", "<unk>")
UNK = 1
BUCKETS = 2_000_000  # as in fastText


class TextNetwork(WordNetwork[TextClassifier]):
    """A text classifier to train, as `words.WordNetwork`."""

    arch = "text-classifier"

    def __init__(self, options: NetworkOptions) -> None:
        """Raises BundleError for an invalid tokenizer."""
        assert options.finetune.scratch is not None
        self.options, self.scratch, self.kind = options, options.scratch, options.finetune.scratch
        self.given = tokenizers.load(self.scratch.tokenizer, None, self.scratch.lowercase)
        self.inputs = 2 if self.kind == "bag" else 3
        self._encoding: TextEncoding | None = None
        self._texts = 1

    @property
    def tokenizer(self) -> Tokenizer:
        assert self._encoding is not None
        return self._encoding.tokenizer

    def encoding(self, task: Task, examples: Sequence[TaskExample], threads: int) -> TextEncoding:
        """How texts become rows, with the vocabulary and n-grams of the training examples."""
        texts = [example.texts for example in examples]
        self._texts = len(texts[0])
        tokenizer, cut = self.given, None
        if tokenizer.vocab is None:
            lines = [text for example in texts for text in example]
            cut = Cut(lines, tokenizer.tokens_lines(lines, threads))  # once: this takes longer than an epoch of a bag
            tokenizer = self._learned(cut.words)
        encoding = replace(self._new_encoding(tokenizer, threads, None), cut=cut)
        if self.kind == "bag":
            encoding = replace(self._new_encoding(tokenizer, threads, np.empty(0, np.int64)), cut=cut)
            assert encoding.ngrams is not None
            encoding = replace(encoding, ngrams=replace(encoding.ngrams, known=encoding.buckets(texts)))
        self._encoding = replace(encoding, cut=None)
        return encoding

    def learned(self) -> JsonObject:
        encoding = self._encoding
        assert encoding is not None and encoding.tokenizer.vocab is not None
        known = None if encoding.ngrams is None else encoding.ngrams.known.tolist()
        vocab = vocab_as_json(encoding.tokenizer.vocab) if self.given.vocab is None else None
        return {"vocab": vocab, "ngrams": known, "texts": self._texts}

    def restore(self, learned: JsonObject) -> None:
        self._encoding = self.restored(learned)

    def restored(self, learned: JsonObject) -> TextEncoding:
        """The encoding that another process has learned."""
        tokenizer, self._texts = self.given, whole(learned, "texts", LEARNED)
        if vocab := child(learned, "vocab", LEARNED):
            tokenizer = builtin.NamedTokenizer(self.given.kind, vocab_of(vocab), self.scratch.lowercase)
        known = None
        if learned["ngrams"] is not None:
            known = np.array(wholes(learned, "ngrams", LEARNED), np.int64)
        return self._new_encoding(tokenizer, 1, known)

    def _new_encoding(self, tokenizer: Tokenizer, threads: int, known: np.ndarray | None) -> TextEncoding:
        """How texts become rows, with the n-grams `known` for a bag."""
        assert tokenizer.vocab is not None
        size, scratch = len(tokenizer.vocab), self.scratch
        unk = size if tokenizer.vocab.unk is None else tokenizer.vocab.unk
        ngrams = None
        if known is not None:
            characters = None if scratch.char_ngrams is None else lengths(scratch.char_ngrams)
            ngrams = TextNGrams(scratch.word_ngrams, characters, BUCKETS, size + 1, known)
        return TextEncoding(tokenizer, unk, self.options.finetune.max_length, ngrams, threads)

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
        if self.options.vectors is not None:
            more = self.options.vectors.words.list()
            usable = [w for w in more if w == w.lower()] if self.scratch.lowercase else more
            words.update(dict.fromkeys(usable))
            unusable = len(more) - len(usable)
            skipped = f"; {unusable:,} of its words have capitals and are skipped (--no-lowercase)" if unusable else ""
            known = sum(map(set(usable).__contains__, kept))
            messages.note(f"vectors: {known:,} of {len(kept):,} words of the training texts have one{skipped}")
        vocab = Vocab(words, [counts.get(w, 0) for w in words], {"pad": classifiers.PAD, "unk": UNK})
        return builtin.NamedTokenizer(self.given.kind, vocab, self.scratch.lowercase)

    def model(self, task: Task) -> TextClassifier:
        encoding, scratch = self._encoding, self.scratch
        assert encoding is not None and encoding.tokenizer.vocab is not None
        config = TextClassifierConfig(
            arch=self.kind,
            vocab_size=len(encoding.tokenizer.vocab) + 1,
            embedding_size=self.options.embedding_size,
            num_labels=task.num_labels,
            texts=self._texts,
            num_hidden_layers=max(1, scratch.depth),
            hidden_layer=scratch.depth > 0,
            buckets=BUCKETS,
            num_ngrams=0 if encoding.ngrams is None else len(encoding.ngrams.known),
            unk=encoding.unk,
            hidden_size=scratch.hidden_size,
            dropout=scratch.dropout,
            word_ngrams=scratch.word_ngrams,
            char_ngrams=scratch.char_ngrams,
            pooling=scratch.pooling,
        )
        return TextClassifier(config)

    def begin(self, model: TextClassifier) -> None:
        encoding, vectors = self._encoding, self.options.vectors
        assert encoding is not None and encoding.tokenizer.vocab is not None
        if encoding.ngrams is not None:
            model.buckets.copy_(torch.from_numpy(encoding.ngrams.known))
        if vectors is not None:
            TokenVectors(encoding.tokenizer.vocab, vectors).place(model.token_embedding.weight)
        if self.options.finetune.freeze == "all":
            model.freeze_words()

    def optimizer(self, model: TextClassifier, weights: Weights[object], run: Training) -> Optimizer:
        """`run.optimizer`, or for a bag AdaGrad on the rows of each batch."""
        if model.rows is None:
            return super().optimizer(model, weights, run)
        if run.optimizer != "adamw":
            raise UsageError(f"--optimizer {run.optimizer} cannot train a bag of words, which AdaGrad trains")
        weights.refuse_divided("bags of words")
        return RowAdaGrad(weights.parameters, model.token_embedding.weight, model.rows, weights.backend)

    def source(self, features: Features, batch_size: int, seed: int, share: Share, backend: Backend) -> BatchSource:
        if self.kind == "bag":
            return BagBatches(features, batch_size, texts=self._texts, seed=seed, share=share)
        return FeatureBatches(features, batch_size, seed=seed, pad=classifiers.PAD, share=share)

    def row_logits(self, model: TextClassifier, features: Features, backend: Backend) -> RowLogits:
        return classifiers.row_logits(model, features, backend)
