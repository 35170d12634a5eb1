"""The spelling of a word as a vector.

`CharacterConvolution`: windows of three characters and the maximum over them (Ma & Hovy 2016, P16-1101, after dos Santos &
Zadrozny 2014). `CharacterLSTM`: the last states of an LSTM in each direction (Lample et al. 2016, N16-1030).
`CharacterFilters`: filters of many widths and highway layers (Kim et al. 2016, arXiv:1508.06615; Jozefowicz et al. 2016,
arXiv:1602.02410), as in ELMo.
Shapes: U words, L longest of them in characters, C size of the vector of a character, F size of the vector of a word.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.layers.convolution import windows
from nlptools.layers.linear import ACTIVATIONS, Linear
from nlptools.layers.pooling import pool
from nlptools.layers.sentence import Bidirectional

_WIDTH = 3  # characters in a window
_AT_ONCE = 128  # words of similar length that are computed together


class CharacterConvolution(nn.Module):
    """F filters over windows of three characters, and the maximum of each filter over the word."""

    def __init__(self, character_size: int, size: int) -> None:
        super().__init__()
        self.filters = Linear(_WIDTH * character_size, size)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(U, L, C), and (U, L) True = real -> (U, F)."""
        side = _WIDTH // 2
        scores = self.filters(windows(F.pad(x * mask[..., None], (0, 0, side, side)), _WIDTH))
        return pool(scores, mask, ("max",))


class CharacterLSTM(nn.Module):
    """The last states of an LSTM in each direction; F is even."""

    def __init__(self, character_size: int, size: int) -> None:
        super().__init__()
        self.each = size // 2
        self.layers = Bidirectional("lstm", character_size, self.each, 1, nn.Identity())

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(U, L, C), and (U, L) True = real -> (U, F)."""
        states = self.layers.states(x, mask)
        last = states[torch.arange(len(x), device=x.device), mask.sum(1) - 1]
        return torch.cat([last[:, : self.each], states[:, 0, self.each :]], 1)


class CharacterFilters(nn.Module):
    """Filters over windows of several widths, the maximum of each over the word, highway layers, and a projection."""

    def __init__(
        self,
        characters: int,
        character_size: int,
        filters: Sequence[tuple[int, int]],
        highways: int,
        size: int,
        *,
        fill: int,
        activation: str = "relu",
    ) -> None:
        """
        Args:
            characters: how many there are.
            filters: the width of windows, and the number of filters of that width.
            highways: number of highway layers (Srivastava et al. 2015, arXiv:1505.00387).
            size: F.
            fill: the character after the end of each word. Windows of it count.
            activation: of the maxima, a name in `layers.linear.ACTIVATIONS`, or tanh.
        """
        super().__init__()
        self.fill, self.activation = fill, activation
        self.widths = [width for width, _ in filters]
        self.embedding = nn.Embedding(characters, character_size)
        self.filters = nn.ModuleList(Linear(width * character_size, number) for width, number in filters)
        held = sum(number for _, number in filters)
        self.highways = nn.ModuleList(Linear(held, 2 * held) for _ in range(highways))
        self.projection = Linear(held, size)

    @torch.no_grad()
    def initialize(self) -> None:
        """Initial weights of bilm-tf. Highway layers begin near the identity."""
        self.embedding.weight.uniform_(-1.0, 1.0)
        for layer in self.modules():
            if isinstance(layer, Linear):
                layer.weight.normal_(std=layer.in_features**-0.5)
                layer.bias.zero_()
                if layer in self.filters:
                    layer.weight.uniform_(-0.05, 0.05)
                elif layer is not self.projection:
                    layer.bias[layer.in_features :] = -2.0

    def forward(self, spellings: Tensor) -> Tensor:
        """(U, L) characters, filled up after the words -> (U, F). The work depends on the lengths of the words."""
        lengths = (spellings != self.fill).sum(1)
        order = lengths.argsort(stable=True)
        columns = (lengths + max(self.widths)).clamp(max=spellings.shape[1])  # so that windows of `fill` alone are seen
        parts = [self._maxima(spellings[rows, : int(columns[rows[-1]])]) for rows in torch.split(order, _AT_ONCE)]
        x = torch.cat(parts)
        for highway in self.highways:
            change, gate = highway(x).chunk(2, 1)
            x = torch.lerp(x, change.relu(), gate.sigmoid())
        return self.projection(x)[order.argsort()]

    def _maxima(self, spellings: Tensor) -> Tensor:
        """(U, L) -> (U, number of filters)."""
        x = self.embedding(spellings)
        maxima = [each(windows(x, width)).amax(1) for each, width in zip(self.filters, self.widths, strict=True)]
        return (torch.tanh if self.activation == "tanh" else ACTIVATIONS[self.activation])(torch.cat(maxima, 1))


SPELLINGS: dict[str, type[CharacterConvolution] | type[CharacterLSTM]] = {
    "cnn": CharacterConvolution,
    "lstm": CharacterLSTM,
}
