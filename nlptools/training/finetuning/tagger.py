"""Training of taggers of words without a pretrained model: `finetune --task tag --scratch`.

Shapes: V words, E word vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import cast

import torch

from nlptools import messages
from nlptools.batches.features import Features
from nlptools.batches.source import BatchSource, Share
from nlptools.batches.spelled_words import MAX_LENGTH, WordBatches, WordEncoding
from nlptools.compute.backend import Backend
from nlptools.configs.tasks.words import Scratch
from nlptools.errors import DataError
from nlptools.files.json_fields import child, text, whole
from nlptools.formats.examples import TaggedSentence, TaskExample
from nlptools.json_types import JsonObject
from nlptools.models.tasks.word_input import WordInput
from nlptools.models.tasks.word_tagger import WordTagger, WordTaggerConfig
from nlptools.tasks import taggers
from nlptools.tasks.task import Task
from nlptools.tasks.without_pretraining import RowLogits
from nlptools.text import spelling
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.vocab import Vocab, usual_specials
from nlptools.training.finetuning.scratch import SPECIAL, UNK
from nlptools.training.finetuning.words import LEARNED, NetworkOptions, WordNetwork, counted, vocab_as_json, vocab_of
from nlptools.training.token_vectors import TokenVectors
from nlptools.vectors.table import Vectors


@dataclass(frozen=True)
class Learned:
    """The words of the training sentences and of the vector file.

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

    def as_json(self) -> JsonObject:
        """The argument of `of`."""
        return {**vars(self), "vocab": vocab_as_json(self.vocab)}

    @classmethod
    def of(cls, data: JsonObject) -> Learned:
        vocab, (trained, rare) = (
            child(data, "vocab", LEARNED),
            (whole(data, key, LEARNED) for key in ("trained", "rare")),
        )
        return cls(
            vocab_of(vocab), trained, rare, None if data["alphabet"] is None else text(data, "alphabet", LEARNED)
        )


class TagNetwork(WordNetwork[WordTagger]):
    """A tagger to train, as `words.WordNetwork`."""

    arch, inputs = "word-tagger", 4

    def __init__(self, options: NetworkOptions) -> None:
        assert options.finetune.scratch is not None
        self.options, self.scratch, self.kind = options, options.scratch, options.finetune.scratch
        self.characters = self.scratch.characters or "cnn"
        self._learned: Learned | None = None

    def encoding(self, task: Task, examples: Sequence[TaskExample], threads: int) -> WordEncoding:
        words = chain.from_iterable(example.words for example in cast("Sequence[TaggedSentence]", examples))
        written, counts = counted(words, self.scratch.lowercase)
        alphabet = None if self.characters == "none" else spelling.alphabet(written)
        self._learned = learned_words(counts, alphabet, self.scratch, self.options.vectors)
        return WordEncoding(self.tokenizer, alphabet, self.options.finetune.max_length or MAX_LENGTH, threads)

    def learned(self) -> JsonObject:
        assert self._learned is not None
        return self._learned.as_json()

    def restore(self, learned: JsonObject) -> None:
        self._learned = Learned.of(learned)

    @property
    def tokenizer(self) -> NamedTokenizer:
        assert self._learned is not None
        return NamedTokenizer("whitespace", self._learned.vocab, self.scratch.lowercase)

    def model(self, task: Task) -> WordTagger:
        learned, scratch = self._learned, self.scratch
        assert learned is not None
        config = WordTaggerConfig(
            arch=self.kind,
            vocab_size=len(learned.vocab),
            trained=learned.trained,
            rare=learned.rare,
            embedding_size=self.options.embedding_size,
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
        return WordTagger(config)

    def begin(self, model: WordTagger) -> None:
        assert self._learned is not None
        begin_words(model, self._learned.vocab, self.options)

    def source(self, features: Features, batch_size: int, seed: int, share: Share, backend: Backend) -> BatchSource:
        return WordBatches(features, batch_size, seed=seed, pad=0, share=share)

    def row_logits(self, model: WordTagger, features: Features, backend: Backend) -> RowLogits:
        return taggers.row_logits(model, features, backend)


def begin_words(model: WordInput, vocab: Vocab, options: NetworkOptions) -> None:
    """Place the vectors of words, and freeze them with --freeze all."""
    if options.vectors is not None:
        table = torch.zeros(len(vocab), options.embedding_size)
        TokenVectors(vocab, options.vectors, any_case=True).place(table)
        model.set_vectors(table)
    if options.finetune.freeze == "all":
        model.freeze_words()


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
    """The words that have a vector, or a lower-case form with one."""
    vectors.words.hold_index()
    forms = vectors.words.find({form for word in words for form in (word, word.lower())})
    return {word for word in words if word in forms or word.lower() in forms}
