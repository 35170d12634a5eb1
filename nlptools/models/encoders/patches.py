"""An encoder of pictures: the blocks of a text encoder over patches.

Dosovitskiy et al. 2021, "An image is worth 16x16 words" (arXiv:2010.11929): patches are tokens, embedded by a linear map, with
learned positions and pre-norm blocks. With windows, attention as in Liu et al. 2021 (see `layers.windows`): offsets within
windows stand for positions. Departure from the latter: patches are not merged, all blocks see patches of one size.
Shapes: B batch, P patches, F numbers of a patch, D hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nlptools.files.images import PatchGrid
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import Linear
from nlptools.layers.module_lists import Modules
from nlptools.layers.transformer import Block
from nlptools.layers.windows import Windows


@dataclass(frozen=True)
class PatchSizes:
    """Sizes of an encoder of patches.

    Attributes:
        window: the side of windows, in patches; 0: all patches see each other.
    """

    grid: PatchGrid
    hidden_size: int
    layers: int
    heads: int
    intermediate_size: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    window: int = 0


class PatchEncoder(nn.Module):
    """See the module's docstring."""

    def __init__(self, sizes: PatchSizes, class_token: bool) -> None:
        """`class_token`: whether a learned token comes before the patches; not with windows."""
        super().__init__()
        D, grid = sizes.hidden_size, sizes.grid
        self.patches = Linear(grid.numbers, D)
        self.class_token = nn.Parameter(torch.zeros(D)) if class_token else None
        self.positions = None if sizes.window else nn.Embedding(grid.count + class_token, D)
        self.blocks = Modules(_block(sizes) for _ in range(sizes.layers))
        self.windows = Modules(
            Windows(grid.sides, sizes.window, sizes.heads, shifted=bool(layer % 2))
            for layer in range(sizes.layers if sizes.window else 0)
        )
        self.norm = nn.LayerNorm(D)
        self.dropout = Dropout(sizes.dropout)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, P, F) -> (B, P, D), or (B, 1 + P, D) with the token before the patches."""
        x = self.patches(pixels)
        if self.class_token is not None:
            x = torch.cat([self.class_token.expand(len(x), 1, -1), x], 1)
        if self.positions is not None:
            x = x + self.positions.weight
        x = self.dropout(x)
        for layer, block in enumerate(self.blocks):
            x = self.windows[layer](block, x) if len(self.windows) else block(x)
        states: Tensor = self.norm(x)
        return states


def _block(sizes: PatchSizes) -> Block:
    return Block(
        sizes.hidden_size,
        sizes.heads,
        sizes.intermediate_size,
        activation="gelu",
        dropout=sizes.dropout,
        attention_dropout=sizes.attention_dropout,
        activation_dropout=sizes.activation_dropout,
        causal=False,
    )
