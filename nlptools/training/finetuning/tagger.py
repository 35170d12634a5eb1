"""Training of taggers of words without a pretrained model: `finetune --task tag --scratch`.

Shapes: V words, E word vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nlptools import bundle, messages
from nlptools.batches.features import Features
from nlptools.batches.source import BatchSource
from nlptools.batches.spelled_words import MAX_LENGTH, WordBatch, WordBatches, WordEncoding
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Finetune
from nlptools.configs.tasks.words import Scratch
from nlptools.errors import DataError
from nlptools.models.tasks.word_tagger import WordTagger, WordTaggerConfig
from nlptools.tasks.task import Task
from nlptools.text import spelling
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab, usual_specials
from nlptools.training.finetuning.scratch import SPECIAL, UNK
from nlptools.training.objective import Objective
from nlptools.training.token_vectors import TokenVectors
from nlptools.vectors.files import formats
from nlptools.vectors.table import Vectors


@dataclass(frozen=True)
class Learned:
    """What the training sentences teach before training.

    Attributes:
        vocab: the marks, the words of training, then more words of the vector file.
        trained: the number of words up to the last of training.
        rare: the first word of training that occurs once and has no vector.
        alphabet: the known characters; None: words are not spelled.
    """

    vocab: Vocab
    trained: int
    rare: int
    alphabet: str | None


class TaggerFromScratch:
    """A tagger to train; see `pretrained.Pretrained`. `encoding` sets its vocabulary and its alphabet."""

    several_processes: ClassVar[bool] = False

    def __init__(self, settings: Finetune, scratch: Scratch, errors: str = "strict") -> None:
        """Raises UsageError for settings that do not go together, InputError, BundleError for invalid vectors."""
        assert settings.scratch is not None
        self.options, self.scratch, self.arch = settings, scratch, settings.scratch
        self.characters = scratch.characters or "cnn"
        self.vectors = None if scratch.vectors is None else formats.load(scratch.vectors, errors=errors)
        self._learned: Learned | None = None

    def settings(self) -> dict[str, Any]:
        """See `pretrained.Pretrained`."""
        return asdict(self.scratch)

    def encoding(self, examples: Sequence[Any], threads: int) -> WordEncoding:
        """How sentences become rows, with the vocabulary and the alphabet of the training sentences."""
        counts = Counter(chain.from_iterable(example.words for example in examples))
        alphabet = None if self.characters == "none" else spelling.alphabet(counts)
        if self.scratch.lowercase:
            lowered: Counter[str] = Counter()
            for word, count in counts.items():
                lowered[word.lower()] += count
            counts = lowered
        self._learned = learned_words(counts, alphabet, self.scratch, self.vectors)
        return WordEncoding(self._tokenizer(), alphabet, self.options.max_length or MAX_LENGTH, threads)

    def _tokenizer(self) -> NamedTokenizer:
        assert self._learned is not None
        return NamedTokenizer("whitespace", self._learned.vocab, self.scratch.lowercase)

    def model(self, task: Task, seed: int) -> WordTagger:
        """See `pretrained.Pretrained`."""
        learned, scratch = self._learned, self.scratch
        assert learned is not None
        config = WordTaggerConfig(
            arch=self.arch,
            vocab_size=len(learned.vocab),
            trained=learned.trained,
            rare=learned.rare,
            embedding_size=scratch.dim if self.vectors is None else self.vectors.dimensions,
            num_labels=task.num_labels,
            hidden_size=scratch.hidden_size,
            num_hidden_layers=scratch.depth,
            dropout=scratch.dropout,
            characters=self.characters,
            character_hidden=scratch.char_dim,
            alphabet=learned.alphabet or "",
            crf="crf" in task.extra_heads,
            unk=UNK,
        )
        model = WordTagger(config)
        torch.manual_seed(seed)
        model.initialize()
        if self.vectors is not None:
            table = torch.zeros(config.vocab_size, config.embedding_size)
            TokenVectors(learned.vocab, self.vectors, any_case=True).place(table)
            model.set_vectors(table)
        if self.options.freeze == "all":
            model.freeze_words()
        task.begin(model)
        return model

    def objective(self, model: WordTagger, task: Task) -> TaggerLoss:
        """See `pretrained.Pretrained`."""
        return TaggerLoss(model, task)

    def source(self, features: Features, batch_size: int, seed: int, backend: Backend) -> BatchSource:
        """See `pretrained.Pretrained`."""
        return WordBatches(features, batch_size, seed=seed, pad=0)

    def save(
        self, directory: Path, model: Any, weights: Mapping[str, Any], training: Mapping[str, Any], more: dict[str, Any]
    ) -> None:
        """See `pretrained.Pretrained`."""
        tokenizer = self._tokenizer()
        bundle.save_encoder(directory, model, weights, tokenizer, arch="word-tagger", training=training, more=more)


def learned_words(
    counts: Counter[str],
    alphabet: str | None,
    scratch: Scratch,
    vectors: Vectors | None,
    special: Sequence[str] = SPECIAL,
) -> Learned:
    """The words of the training sentences, which occur as often as `counts` says, and of the vector file.

    `special`: the special tokens, the first of the vocabulary. Raises DataError where no word is left.
    """
    for token in special:
        counts.pop(token, None)
    kept = [word for word, count in counts.items() if count >= scratch.min_count]
    if not kept:
        raise DataError(f"no word of the training texts occurs {scratch.min_count} times", hint="lower --min-count")
    known: set[str] = set()
    more: list[str] = []
    if vectors is not None:
        known = words_with_vectors(kept, vectors)
        more, unusable = _more_words(vectors, scratch)
        skipped = f"; {messages.counted(unusable, 'word')} with capitals skipped (--no-lowercase)" if unusable else ""
        messages.note(f"vectors: {len(known):,} of {len(kept):,} words of the training texts have one{skipped}")
    rare = {word for word in kept if counts[word] == 1 and word not in known}
    kept.sort(key=lambda word: (word in rare, -counts[word], word))
    words = list(dict.fromkeys((*special, *kept, *more)))
    trained = len(special) + len(kept)
    vocab = Vocab(
        words,
        [counts.get(word, 0) for word in words],
        usual_specials({token: number for number, token in enumerate(special)}),
    )
    return Learned(vocab, trained, trained - len(rare), alphabet)


def _more_words(vectors: Vectors, scratch: Scratch) -> tuple[list[str], int]:
    """The first words of the vector file, and how many of them are left out, because lower-cased words are looked up."""
    words = vectors.words.list()[: scratch.max_vectors or len(vectors)]
    usable = [word for word in words if word == word.lower()] if scratch.lowercase else words
    return usable, len(words) - len(usable)


def words_with_vectors(words: Sequence[str], vectors: Vectors) -> set[str]:
    """The words that have a vector, their own or that of the lower-case word."""
    vectors.words.hold_index()
    forms = vectors.words.find({form for word in words for form in (word, word.lower())})
    return {word for word in words if word in forms or word.lower() in forms}


class TaggerLoss(Objective):
    """The loss of a tagger, as a weighted sum over words."""

    trains_in_16_bits = False

    def __init__(self, model: WordTagger, task: Task) -> None:
        super().__init__(model)
        self.task = task

    def counts(self, batch: WordBatch) -> dict[str, float]:
        """The divisor of the loss: the sum of the weights."""
        return {"loss": batch.weight}

    def arrays(self, batch: WordBatch) -> tuple[np.ndarray, ...]:
        """The arguments of `forward`, to be put on the device."""
        return batch.words, batch.letters, batch.ids, batch.mask, *batch.targets

    def forward(
        self, words: Tensor, letters: Tensor, places: Tensor, mask: Tensor, *targets: Tensor
    ) -> dict[str, Tensor]:
        """The arrays of `arrays` -> the sum of the losses."""
        logits = self.model(words, letters, places, mask)
        return {"loss": self.task.loss(logits, *targets, **self.task.layers_of(self.model))}
