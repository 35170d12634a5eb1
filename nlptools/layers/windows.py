"""Attention within windows of patches, shifted in every second block.

Liu et al. 2021, "Swin Transformer" (arXiv:2103.14030), section 3.2: each patch attends to the patches of its window, with a
learned number for each head and offset of two patches. Shifted windows connect neighboring windows. At the borders, the cyclic
shift brings distant patches into one window; they do not see each other.
Shapes: B batch, P patches of a picture, N windows of a picture, T patches of a window, D hidden, H heads.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from nlptools.layers.transformer import Block

_NEVER = (
    -1e4
)  # added to the scores of patches that do not see each other; its exponential is zero, and 16 bits can hold it


class Windows(nn.Module):
    """Divides a picture into windows for a block, and adds learned numbers to its attention scores."""

    def __init__(self, sides: tuple[int, int], window: int, num_heads: int, shifted: bool) -> None:
        """Args:
        sides: rows and columns of patches, multiples of `window`.
        shifted: by half a window, unless the picture is no larger than a window.
        """
        super().__init__()
        self.sides, self.window = sides, window
        self.shift = window // 2 if shifted and min(sides) > window else 0
        self.offset_scores = nn.Embedding((2 * window - 1) ** 2, num_heads)

    def forward(self, block: Block, x: Tensor) -> Tensor:
        """(B, P, D) -> (B, P, D): the result of a block, `layers.transformer.Block`, in which patches see their window."""
        B = len(x)
        scores = self.offset_scores(_offsets(self.window).to(x.device)).permute(2, 0, 1)  # (H, T, T)
        scores = scores + _unseen(self.sides, self.window, self.shift).to(scores)  # (N, H, T, T)
        return self.joined(block(self.divided(x), mask=scores.repeat(B, 1, 1, 1)), B)

    def divided(self, x: Tensor) -> Tensor:
        """(B, P, D) -> (B * N, T, D)."""
        (rows, columns), W = self.sides, self.window
        x = x.view(len(x), rows, columns, -1)
        if self.shift:
            x = x.roll((-self.shift, -self.shift), (1, 2))
        cut = x.view(len(x), rows // W, W, columns // W, W, x.shape[-1]).transpose(2, 3)
        return cut.reshape(-1, W * W, x.shape[-1])

    def joined(self, x: Tensor, batch: int) -> Tensor:
        """(B * N, T, D) -> (B, P, D)."""
        (rows, columns), W = self.sides, self.window
        x = x.view(batch, rows // W, columns // W, W, W, x.shape[-1]).transpose(2, 3)
        x = x.reshape(batch, rows, columns, x.shape[-1])
        if self.shift:
            x = x.roll((self.shift, self.shift), (1, 2))
        return x.flatten(1, 2)


@lru_cache(maxsize=16)
def _offsets(window: int) -> Tensor:
    """(T, T): the number of the offset from each patch of a window to each."""
    places = torch.cartesian_prod(torch.arange(window), torch.arange(window))  # (T, 2)
    down, right = (places[:, None] - places + window - 1).unbind(-1)
    return down * (2 * window - 1) + right


@lru_cache(maxsize=16)
def _unseen(sides: tuple[int, int], window: int, shift: int) -> Tensor:
    """(N, 1, T, T): `_NEVER` for two patches of a window that the shift has brought together, else 0."""
    (rows, columns), W = sides, window
    # the last patches of a row or column, as many as the shift, come from the other side of the picture
    down, right = ((torch.arange(side) >= side - shift).long() for side in sides)
    region = (down[:, None] * 2 + right).view(rows // W, W, columns // W, W).transpose(1, 2).reshape(-1, W * W)
    apart = region[:, None] != region[:, :, None]
    return torch.zeros(apart.shape).masked_fill(apart, _NEVER)[:, None]
