"""Words as vectors: the vector of each word in a table, and a vector of its spelling.

Of the words that occur once in training, only those without a pretrained vector are sometimes read as unknown: an unknown
word never has one. Words of a vector file that training lacks keep their vectors.
Shapes: U different words of a batch, L longest of them in characters, E word vector, V words.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from nlptools.layers.characters import SPELLINGS, CharacterConvolution, CharacterLSTM
from nlptools.text.spelling import FIRST, PAD

_CHARACTER_SIZE = 30  # Ma & Hovy 2016
RARE_DROPOUT = 0.5  # share of the rare words of training that are read as unknown (Lample et al. 2016)


class WordSizes(Protocol):
    """The sizes of the input, see `word_tagger.WordTaggerConfig`."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def trained(self) -> int: ...
    @property
    def rare(self) -> int: ...
    @property
    def unk(self) -> int: ...
    @property
    def embedding_size(self) -> int: ...
    @property
    def characters(self) -> str: ...
    @property
    def character_hidden(self) -> int: ...
    @property
    def alphabet(self) -> str: ...


class WordInput(nn.Module):
    """See the module's docstring.

    Attributes:
        words: vectors of the words of training.
        more_words: fixed vectors of other words, or None.
        letters, spelling: vectors of characters, and of the spelling of a word; or None.
        input_size: of the two vectors together.
    """

    def __init__(self, config: WordSizes) -> None:
        super().__init__()
        self.trained, self.rare, self.unk = config.trained, config.rare, config.unk
        E, more = config.embedding_size, config.vocab_size - config.trained
        self.words = nn.Embedding(config.trained, E)
        self.more_words = nn.Embedding(more, E).requires_grad_(False) if more else None
        self.letters: nn.Embedding | None = None
        self.spelling: CharacterConvolution | CharacterLSTM | None = None
        if config.characters in SPELLINGS:
            self.letters = nn.Embedding(FIRST + len(config.alphabet), _CHARACTER_SIZE)
            self.spelling = SPELLINGS[config.characters](_CHARACTER_SIZE, config.character_hidden)
            E += config.character_hidden
        self.input_size = E

    @torch.no_grad()
    def initialize_words(self) -> None:
        """Draw the vectors uniform with variance 1 / size (Ma & Hovy 2016)."""
        for table in (self.words, self.more_words, self.letters):
            if table is not None:
                bound = (3 / table.embedding_dim) ** 0.5
                table.weight.uniform_(-bound, bound)

    @torch.no_grad()
    def table(self) -> Tensor:
        """A copy of the vectors of all words, (V, E)."""
        return torch.cat([part.weight for part in (self.words, self.more_words) if part is not None])

    @torch.no_grad()
    def set_vectors(self, table: Tensor) -> None:
        """Take the vectors of all words from `table` (V, E)."""
        self.words.weight.copy_(table[: self.trained])
        if self.more_words is not None:
            self.more_words.weight.copy_(table[self.trained :])

    def freeze_words(self) -> None:
        """Let nothing change the vectors of words."""
        self.words.weight.requires_grad_(False)

    def spelled_vectors(self, words: Tensor, letters: Tensor) -> Tensor:
        """(U,) numbers of words, and (U, L) their characters, padded on the right -> (U, input_size)."""
        x = self.vectors(words)
        if self.spelling is None or self.letters is None:
            return x
        return torch.cat([x, self.spelling(self.letters(letters), letters != PAD)], 1)

    def vectors(self, words: Tensor) -> Tensor:
        """(U,) numbers of words -> (U, E), in training with rare words as unknown ones from time to time."""
        trained = self.trained
        if self.training and self.rare < trained:
            drop = (torch.rand(words.shape, device=words.device) < RARE_DROPOUT) & (words >= self.rare)
            words = words.masked_fill(drop & (words < trained), self.unk)
        if self.more_words is None:
            out: Tensor = self.words(words)
            return out
        others = self.more_words((words - trained).clamp(min=0))
        return torch.where((words < trained)[:, None], self.words(words.clamp(max=trained - 1)), others)
