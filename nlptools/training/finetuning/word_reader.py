"""Fine-tuning with the features of an ELMo: `finetune -m ELMO --features`.

The ELMo is frozen unless --train-all: then its features of the training examples are computed once, before training, if
they fit in memory, and those of the validation examples before they are measured for the first time.
Shapes: B batch, T length, L layers of the ELMo, P its projection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from nlptools import bundle, messages
from nlptools.batches.features import Encoding, FeatureBatch, FeatureBatches, Features
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Finetune
from nlptools.configs.layers import layers, read_mix
from nlptools.configs.tasks.words import Scratch
from nlptools.errors import BundleError, UsageError, display
from nlptools.inference.opening import open_model
from nlptools.layers.heads import LayerMix
from nlptools.models import registry
from nlptools.models.language.elmo import ElmoConfig
from nlptools.models.tasks.word_reader import MARKS, PAD, UNK, WordReader, WordReaderConfig
from nlptools.tasks import outputs, readers
from nlptools.tasks.task import Task
from nlptools.text import spelling
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.byte_spelling import COLUMNS, count_cut
from nlptools.text.lexicon import Lexicon
from nlptools.training.finetuning.tagger import Learned, learned_words
from nlptools.training.objective import Objective
from nlptools.training.token_vectors import TokenVectors
from nlptools.vectors.files import formats

# The mixes learn at this part of the rate. At all of it, gamma falls as the network learns the training words by heart:
# from 1.06 after one epoch of CoNLL-2003 to 0.36 after 15
_MIX_RATE = 0.1


class ReaderTraining:
    """A network to train; see `pretrained.Pretrained`. `encoding` sets its vocabulary, its alphabet and its lexicon."""

    several_processes: ClassVar[bool] = False

    def __init__(self, settings: Finetune, scratch: Scratch, errors: str = "strict") -> None:
        """Raises UsageError for settings that do not go together, InputError, BundleError for an invalid ELMo or vectors."""
        assert settings.model is not None
        self.options, self.scratch = settings, scratch
        base = open_model(settings.model).bundle
        if base.family != registry.BIDIRECTIONAL:
            raise BundleError(
                f"{display(settings.model)}: not an ELMo", hint="--features goes with train-lm --arch elmo"
            )
        self.base = base
        which, count = layers(settings.layers), base.model.config.num_hidden_layers + 1
        if which.kind == "concat" or not which.count(count):
            raise UsageError(f"--layers {settings.layers}: expected one vector of layers 0 to {count - 1}")
        self.mix = None if which.file is None else read_mix(which.file, count)
        self.characters = scratch.characters or "cnn"
        self.vectors = None if scratch.vectors is None else formats.load(scratch.vectors, errors=errors)
        self._learned: Learned | None = None
        self._lexicon: Lexicon | None = None
        self._model: WordReader | None = None

    def settings(self) -> dict[str, Any]:
        """See `pretrained.Pretrained`."""
        return asdict(self.scratch)

    def encoding(self, examples: Sequence[Any], threads: int) -> Encoding:
        """How texts become rows, with the vocabulary and the alphabet of the training texts."""
        kind = "whitespace" if self.options.task in ("tag", "roles") else self.scratch.tokenizer
        if kind in ("char", "bytes"):
            raise UsageError(f"--tokenizer {kind} does not split texts into words")
        rows = NamedTokenizer(kind).tokens_lines(_texts(examples), threads)
        counts = Counter(chain.from_iterable(rows))
        alphabet = None if self.characters == "none" else spelling.alphabet(counts)
        if self.scratch.lowercase:
            lowered: Counter[str] = Counter()
            for word, count in counts.items():
                lowered[word.lower()] += count
            counts = lowered
        self._learned = learned_words(counts, alphabet, self.scratch, self.vectors, MARKS)
        self._tokenizer = NamedTokenizer(kind, self._learned.vocab, self.scratch.lowercase)
        encoding, self._lexicon = readers.new_encoding(self._tokenizer, self.options.max_length, threads)
        return encoding

    def model(self, task: Task, seed: int) -> WordReader:
        """See `pretrained.Pretrained`."""
        learned, scratch, options = self._learned, self.scratch, self.options
        assert learned is not None and self._lexicon is not None and options.features is not None
        used, held = options.features != "none", cast(ElmoConfig, self.base.model.config)
        config = WordReaderConfig(
            vocab_size=len(learned.vocab),
            trained=learned.trained,
            rare=learned.rare,
            embedding_size=scratch.dim if self.vectors is None else self.vectors.dimensions,
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
        )
        model = WordReader(config)
        torch.manual_seed(seed)
        model.initialize()
        if self.vectors is not None:
            table = torch.zeros(config.vocab_size, config.embedding_size)
            TokenVectors(learned.vocab, self.vectors, any_case=True).place(table)
            model.input.set_vectors(table)
        if options.freeze == "all":
            model.input.freeze_words()
        if model.elmo is not None:
            weights = self.base.weights()
            model.elmo.load_state_dict({name: weights[name] for name in model.elmo.state_dict()})
            model.elmo.requires_grad_(options.train_all)
            for mix in (model.layer_mix, model.output_mix):
                if mix is not None and self.mix is not None:
                    mix.set(self.mix)
        task.begin(model)
        model.lexicon, self._model = self._lexicon, model
        return model

    def objective(self, model: WordReader, task: Task) -> ReaderLoss:
        """See `pretrained.Pretrained`."""
        return ReaderLoss(model, task)

    def source(self, features: Features, batch_size: int, seed: int, backend: Backend) -> ReaderBatches:
        """See `pretrained.Pretrained`."""
        model, known = self._model, None
        assert model is not None
        cut = 0 if model.elmo is None else count_cut(model.lexicon.words)
        if cut:
            words = messages.counted(cut, "word is", "different words are")
            messages.warn(
                f"{words} longer than {COLUMNS - 2} bytes, the ELMo does not see their ends", kind="long words"
            )
        if model.elmo is not None and not self.options.train_all:
            model.keeps_features = True
            known = readers.kept_features(model, features, backend)
            if known is None:
                messages.note(
                    "ELMo: the features of the training examples are larger than 1 GiB, computed in each epoch"
                )
        return ReaderBatches(features, batch_size, seed=seed, pad=PAD, known=known)

    def save(
        self, directory: Path, model: Any, weights: Mapping[str, Any], training: Mapping[str, Any], more: dict[str, Any]
    ) -> None:
        """See `pretrained.Pretrained`."""
        options: dict[str, Any] = {"arch": "word-reader", "training": training, "more": more}
        bundle.save_encoder(directory, model, weights, self._tokenizer, **options)


def _texts(examples: Sequence[Any]) -> list[str]:
    """The different texts of examples of any task; the words of a sentence have spaces between them."""
    texts: list[str] = []
    for example in examples:
        for name in ("words", "texts", "text", "question", "context", "endings"):
            value = getattr(example, name, ())
            if name == "words":
                value = " ".join(value)
            texts += [value] if isinstance(value, str) else value
    return list(dict.fromkeys(texts))


@dataclass(frozen=True)
class ReaderBatch(FeatureBatch):
    """A batch with the features (B, T, (L + 1) 2 P) of its words, or (0,) where the model is to compute them."""

    known: np.ndarray


class ReaderBatches(FeatureBatches):
    """See `FeatureBatches`; the batches are `ReaderBatch`es."""

    def __init__(self, features: Features, batch_size: int, *, seed: int, pad: int, known: np.ndarray | None) -> None:
        super().__init__(features, batch_size, seed=seed, pad=pad)
        self.known = known

    def _batch(self, plan: list[np.ndarray], position: int) -> ReaderBatch:
        batch = super()._batch(plan, position)
        known = np.zeros(0, np.float32)
        if self.known is not None:
            known = readers.padded_features(self.known, self.features, batch.rows, batch.mask)
        return ReaderBatch(batch.rows, batch.ids, batch.mask, batch.types, batch.targets, batch.weight, known)


class ReaderLoss(Objective):
    """The loss of a network's head, as a weighted sum."""

    trains_in_16_bits = False

    def __init__(self, model: WordReader, task: Task) -> None:
        super().__init__(model)
        self.task = task
        self.mix_rates = {
            f"{mix}.{name}": _MIX_RATE
            for mix, module in self.named_modules()
            if isinstance(module, LayerMix)
            for name, _ in module.named_parameters()
        }

    def rates(self, epoch: float) -> Mapping[str, float]:
        """A smaller rate for the mixes of layers: their few numbers get a gradient from every word."""
        return self.mix_rates

    def counts(self, batch: ReaderBatch) -> dict[str, float]:
        """The divisor of the loss: the sum of the weights."""
        return {"loss": batch.weight}

    def arrays(self, batch: ReaderBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward`, to be put on the device."""
        return batch.ids, batch.mask, batch.types, batch.known, *batch.targets

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor, known: Tensor, *targets: Tensor) -> dict[str, Tensor]:
        """The arrays of `arrays` -> the sum of the losses."""
        states = readers.by_layer(known, self.model) if known.dim() == 3 else None
        spans = None
        if self.task.head in outputs.OF_SPANS:
            spans, targets = targets[0].view(len(ids), -1, 2), targets[1:]
        logits = self.model.logits(ids, mask, types, spans, states)
        return {"loss": self.task.loss(logits.float(), *targets, **self.task.layers_of(self.model))}
