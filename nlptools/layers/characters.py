"""The spelling of a word as a vector.

`CharacterConvolution`: windows of three characters and the maximum over them (Ma & Hovy 2016, P16-1101, after dos Santos &
Zadrozny 2014). `CharacterLSTM`: the last states of an LSTM in each direction (Lample et al. 2016, N16-1030).
Shapes: U words, L longest of them in characters, C size of the vector of a character, F size of that of a word.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.compute.kernels.windows import windows
from nlptools.layers.linear import Linear
from nlptools.layers.pooling import pool
from nlptools.layers.sentence import Bidirectional

_WIDTH = 3  # characters in a window


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


SPELLINGS: dict[str, Any] = {"cnn": CharacterConvolution, "lstm": CharacterLSTM}
