"""Taggers of words that are trained from nothing, or from word vectors.

The input of each word is its vector and a vector of its spelling (`layers.characters`), concatenated. Layers read
the sentence in both directions (`layers.sentence`); a linear map to the labels follows, and optionally a conditional random
field. With an LSTM these are the models of Lample et al. 2016 (N16-1030) and Ma & Hovy 2016 (P16-1101).
The vectors of a word and of its spelling are computed once for each different word of a batch, and then put into its places.
Departures: dropout drops the same elements for all words of a sentence, as in Reimers & Gurevych 2017 (D17-1035); see also
`tasks.word_input`.
Shapes: B batch, T length, U different words of a batch, L longest of them in characters, E word vector, K labels, V words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nlptools.configs.checks import check_sizes
from nlptools.configs.text_classifiers import HEADS
from nlptools.configs.word_taggers import ARCHITECTURES, CHARACTERS
from nlptools.errors import BundleError
from nlptools.layers.convolution import GatedConvolution
from nlptools.layers.crf import Crf
from nlptools.layers.dropout import Dropout, LockedDropout
from nlptools.layers.initial import draw_as_pytorch
from nlptools.layers.linear import Linear
from nlptools.layers.sentence import Bidirectional, Convolutions, SentenceAttention
from nlptools.models import registry
from nlptools.models.tasks.word_input import WordInput
from nlptools.text.spelling import MOST_CHARACTERS


@dataclass(frozen=True)
class WordTaggerConfig:
    """Sizes of a tagger of words. Dropout applies in training only.

    Attributes:
        vocab_size: words with a vector; the first `trained` have occurred in training.
        rare: the first of those trained words that occurred once and had no pretrained vector.
        unk: the word that stands for unknown ones.
        characters: how a word is spelled, one of `CHARACTERS`.
        character_hidden: size of the vector of a spelling.
        alphabet: the known characters.
        crf: with a conditional random field.
    """

    arch: str
    vocab_size: int
    trained: int
    rare: int
    embedding_size: int
    num_labels: int
    hidden_size: int = 200
    num_hidden_layers: int = 1
    num_attention_heads: int = HEADS
    dropout: float = 0.5
    characters: str = "cnn"
    character_hidden: int = 30
    alphabet: str = ""
    crf: bool = False
    unk: int = 1

    def __post_init__(self) -> None:
        for name, known in (("arch", ARCHITECTURES), ("characters", CHARACTERS)):
            if vars(self)[name] not in known:
                raise BundleError(f"{name} is {vars(self)[name]!r:.80}, expected one of {', '.join(known)}")
        more = {"trained": 1 << 26, "character_hidden": 1 << 12}
        check_sizes(self, vocab_size=1 << 26, num_labels=1 << 20, num_hidden_layers=64, **more)
        for name, most in (("trained", self.vocab_size), ("rare", self.trained), ("unk", self.trained - 1)):
            value = vars(self)[name]
            if type(value) is not int or not 0 <= value <= most:
                raise BundleError(f"{name} is {value!r:.80}, expected a whole number from 0 to {most}")
        if type(self.crf) is not bool:
            raise BundleError(f"crf is {self.crf!r:.80}, expected true or false")
        if type(self.alphabet) is not str or len(set(self.alphabet)) != len(self.alphabet):
            raise BundleError("alphabet: expected a text of different characters")
        if len(self.alphabet) > MOST_CHARACTERS:
            raise BundleError(f"alphabet: {len(self.alphabet):,} characters, expected at most {MOST_CHARACTERS:,}")
        if self.characters == "lstm" and self.character_hidden % 2:
            raise BundleError(f"character_hidden is {self.character_hidden}, expected an even number")
        if self.arch == "transformer" and self.hidden_size % (2 * self.num_attention_heads):
            raise BundleError(f"hidden size {self.hidden_size} is not a multiple of {2 * self.num_attention_heads}")

    @property
    def spelled_with(self) -> str | None:
        """The alphabet; None where words are not spelled."""
        return None if self.characters == "none" else self.alphabet

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        return self.vocab_size * self.embedding_size


class WordTagger(WordInput):
    """See the module's docstring.

    Attributes:
        crf: or None.
    """

    runs_in_16_bits = False
    family = registry.WORD_TAGGER

    def __init__(self, config: WordTaggerConfig) -> None:
        super().__init__(config)
        self.config = config
        self.num_labels = config.num_labels
        self.heads = ("tokens", "crf") if config.crf else ("tokens",)
        sizes = self.input_size, config.hidden_size, config.num_hidden_layers
        self.body = _BODIES.get(config.arch, _recurrent)(config, sizes)
        self.dropout = LockedDropout(config.dropout, steps=1)
        self.tokens = Linear(self.body.size, config.num_labels)
        self.crf = Crf(config.num_labels) if config.crf else None

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw the weights: vectors uniform with variance 1 / size (Ma & Hovy 2016), layers as PyTorch and their papers do."""
        draw_as_pytorch(self)
        for module in self.body.modules():
            if isinstance(module, (Bidirectional, GatedConvolution)):
                module.initialize()
        self.initialize_words()
        self.tokens.bias.zero_()

    def forward(self, words: Tensor, letters: Tensor, places: Tensor, mask: Tensor) -> Tensor:
        """The different words of a batch, and their places -> the scores of the labels of each place: (B, T, K).

        Args:
            words: (U,) their numbers.
            letters: (U, L) their characters, padded on the right; without characters any (U, L).
            places: (B, T), the number of each among the U words, any in padding.
            mask: (B, T) True = real, padded on the right.
        """
        states = self.body.states(self.spelled_vectors(words, letters)[places], mask)
        return self.tokens(self.dropout(states))


def _convolutions(config: WordTaggerConfig, sizes: tuple[int, int, int]) -> Convolutions:
    return Convolutions(*sizes, Dropout(config.dropout))


def _attention(config: WordTaggerConfig, sizes: tuple[int, int, int]) -> SentenceAttention:
    return SentenceAttention(*sizes, config.num_attention_heads, config.dropout)


def _recurrent(config: WordTaggerConfig, sizes: tuple[int, int, int]) -> Bidirectional:
    return Bidirectional(config.arch, *sizes, LockedDropout(config.dropout, steps=1))


_BODIES: dict[str, Callable[[WordTaggerConfig, tuple[int, int, int]], Convolutions | SentenceAttention]] = {
    "cnn": _convolutions,
    "transformer": _attention,
}
