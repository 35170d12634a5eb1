"""Fine-tuning with the features of an ELMo: `finetune -m ELMO --features`.

The ELMo is frozen unless --train-all. The features of a frozen ELMo are computed once, if they fit in memory: for the training
examples before training, for the validation examples before the first validation.
Shapes: B batch, T length, L layers of the ELMo, P its projection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import cast

import numpy as np
from torch import Tensor

from nlptools import messages
from nlptools.batches.features import Encoding, FeatureBatch, FeatureBatches, Features
from nlptools.batches.source import Share
from nlptools.compute.backend import Backend
from nlptools.configs.layers import layers, read_mix
from nlptools.errors import BundleError, UsageError, display
from nlptools.files.json_fields import text, texts
from nlptools.formats.examples import TaskExample
from nlptools.inference.opening import open_model
from nlptools.json_types import JsonObject
from nlptools.models.language.elmo import Elmo, ElmoConfig
from nlptools.models.tasks.word_reader import MARKS, PAD, UNK, WordReader, WordReaderConfig
from nlptools.tasks import readers
from nlptools.tasks.task import Task
from nlptools.tasks.without_pretraining import RowLogits
from nlptools.text import spelling
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.byte_spelling import COLUMNS, count_cut
from nlptools.text.lexicon import Lexicon
from nlptools.training.finetuning.tagger import Learned, begin_words, learned_words
from nlptools.training.finetuning.words import LEARNED, NetworkOptions, WordNetwork, counted

# The mixes learn at this part of the rate. At all of it, gamma falls as the network learns the training words by heart:
# from 1.06 after one epoch of CoNLL-2003 to 0.36 after 15
_MIX_RATE = 0.1


class FeatureNetwork(WordNetwork[WordReader]):
    """Bidirectional LSTMs with the features of an ELMo, as `words.WordNetwork`."""

    arch, inputs = "word-reader", 4

    def __init__(self, options: NetworkOptions) -> None:
        """Raises UsageError for layers that the ELMo lacks, InputError, BundleError for an invalid ELMo."""
        settings = options.finetune
        assert settings.model is not None
        self.options, self.scratch = options, options.scratch
        base = open_model(settings.model).bundle
        model: object = base.model
        if not isinstance(model, Elmo):
            raise BundleError(
                f"{display(settings.model)}: not an ELMo", hint="--features needs a model of train-lm --arch elmo"
            )
        self.base = base
        which, count = layers(settings.layers), base.model.config.num_hidden_layers + 1
        if which.kind == "concat" or not which.count(count):
            raise UsageError(f"--layers {settings.layers}: expected one vector of layers 0 to {count - 1}")
        self.mix = None if which.file is None else read_mix(which.file, count)
        self.characters = self.scratch.characters or "cnn"
        self._learned: Learned | None = None
        self._lexicon: Lexicon | None = None
        self._model: WordReader | None = None

    def encoding(self, task: Task, examples: Sequence[TaskExample], threads: int) -> Encoding:
        """Raises UsageError for a tokenizer that does not split texts into words."""
        kind = "whitespace" if task.reads_words else self.scratch.tokenizer
        if kind in ("char", "bytes"):
            raise UsageError(f"--tokenizer {kind} does not split texts into words")
        texts = list(dict.fromkeys(chain.from_iterable(example.texts for example in examples)))
        rows = NamedTokenizer(kind).tokens_lines(texts, threads)
        written, counts = counted(chain.from_iterable(rows), self.scratch.lowercase)
        alphabet = None if self.characters == "none" else spelling.alphabet(written)
        self._learned = learned_words(counts, alphabet, self.scratch, self.options.vectors, MARKS)
        return self._new_encoding(kind, threads)

    def _new_encoding(self, kind: str, threads: int) -> Encoding:
        """How texts that a tokenizer of this kind splits become rows."""
        assert self._learned is not None
        self._tokenizer = NamedTokenizer(kind, self._learned.vocab, self.scratch.lowercase)
        max_length = self.options.finetune.max_length
        encoding, self._lexicon = readers.new_encoding(self._tokenizer, max_length, threads)
        return encoding

    def learned(self) -> JsonObject:
        assert self._learned is not None and self._lexicon is not None
        return {**self._learned.as_json(), "kind": self._tokenizer.kind, "words": [*self._lexicon.words]}

    def restore(self, learned: JsonObject) -> None:
        self._learned = Learned.of(learned)
        self._new_encoding(text(learned, "kind", LEARNED), 1)
        assert self._lexicon is not None
        self._lexicon.words = texts(learned, "words", LEARNED)

    @property
    def tokenizer(self) -> NamedTokenizer:
        return self._tokenizer

    def model(self, task: Task) -> WordReader:
        learned, scratch, options = self._learned, self.scratch, self.options.finetune
        assert learned is not None and options.features is not None
        used, held = options.features != "none", cast(ElmoConfig, self.base.model.config)
        config = WordReaderConfig(
            vocab_size=len(learned.vocab),
            trained=learned.trained,
            rare=learned.rare,
            embedding_size=self.options.embedding_size,
            num_labels=task.num_labels,
            heads=(task.head, *task.extra_heads),
            state_size=scratch.hidden_size,
            depth=scratch.depth,
            dropout=scratch.dropout,
            characters=self.characters,
            character_hidden=scratch.char_dim,
            alphabet=learned.alphabet or "",
            unk=UNK,
            features=options.features,
            layers="mix" if layers(options.layers).kind == "mix" else options.layers,
            elmo=replace(held, softmax=False) if used else None,
            elmo_lowercase=self.base.tokenizer.lowercase,
            num_relations=task.num_relations,
        )
        return WordReader(config)

    def begin(self, model: WordReader) -> None:
        assert self._learned is not None and self._lexicon is not None
        begin_words(model.input, self._learned.vocab, self.options)
        if model.elmo is not None:
            weights = self.base.weights()
            model.elmo.load_state_dict({name: weights[name] for name in model.elmo.state_dict()})
            model.elmo.requires_grad_(self.options.finetune.train_all)
            for mix in (model.layer_mix, model.output_mix):
                if mix is not None and self.mix is not None:
                    mix.set(self.mix)
        model.lexicon, self._model = self._lexicon, model

    def logits(self, model: WordReader, inputs: tuple[Tensor, ...], spans: Tensor | None) -> Tensor:
        ids, mask, types, known = inputs
        states = readers.by_layer(known, model) if known.dim() == 3 else None
        return model.logits(ids, mask, types, spans, states)

    def rates(self, model: WordReader) -> Mapping[str, float]:
        """A smaller rate for the mixes of layers: their few numbers get a gradient from every word."""
        mixes = {"layer_mix": model.layer_mix, "output_mix": model.output_mix}
        return {
            f"{name}.{weight}": _MIX_RATE
            for name, mix in mixes.items()
            if mix is not None
            for weight, _ in mix.named_parameters()
        }

    def row_logits(self, model: WordReader, features: Features, backend: Backend) -> RowLogits:
        return readers.row_logits(model, features, backend)

    def source(self, features: Features, batch_size: int, seed: int, share: Share, backend: Backend) -> ReaderBatches:
        model, known = self._model, None
        assert model is not None
        cut = 0 if model.elmo is None else count_cut(model.lexicon.words)
        if cut:
            words = messages.counted(cut, "word is", "different words are")
            messages.warn(
                f"{words} longer than {COLUMNS - 2} bytes, the ELMo does not see their ends", kind="long words"
            )
        if model.elmo is not None and not self.options.finetune.train_all:
            model.keeps_features = True
            known = readers.kept_features(model, features, backend)
            if known is None:
                messages.note(
                    "ELMo: the features of the training examples are larger than 1 GiB, computed in each epoch"
                )
        return ReaderBatches(features, batch_size, seed=seed, pad=PAD, share=share, known=known)


@dataclass(frozen=True)
class ReaderBatch(FeatureBatch):
    """A batch with the features (B, T, (L + 1) 2 P) of its words, or (0,) where the model is to compute them."""

    known: np.ndarray

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The arguments of a `WordReader`: ids, mask, types and the features."""
        return self.ids, self.mask, self.types, self.known


class ReaderBatches(FeatureBatches):
    """See `FeatureBatches`; the batches are `ReaderBatch`es."""

    def __init__(
        self, features: Features, batch_size: int, *, seed: int, pad: int, share: Share, known: np.ndarray | None
    ) -> None:
        super().__init__(features, batch_size, seed=seed, pad=pad, share=share)
        self.known = known

    def _batch(self, plan: list[np.ndarray], position: int, mine: slice) -> ReaderBatch:
        batch = super()._batch(plan, position, mine)
        known = np.zeros(0, np.float32)
        if self.known is not None:
            known = readers.padded_features(self.known, self.features, batch.rows, batch.mask)
        return ReaderBatch(batch.rows, batch.ids, batch.mask, batch.types, batch.targets, batch.weight, known)
