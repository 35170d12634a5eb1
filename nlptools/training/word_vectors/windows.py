"""Token ids cut into tiles: consecutive tokens and their contexts, the input of one batched matrix product.

A tile is `T` consecutive tokens, after subsampling, with the `w` tokens before and after them. The window of each token
(Mikolov et al. 2013, "Distributed representations of words and phrases and their compositionality", arXiv:1310.4546, and
their C code) is drawn anew every time, with a radius uniform in 1..w, and ends with the sentence.

Shapes: N tiles, T tokens of a tile, w largest radius, C = T + 2w tokens around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

_LARGEST = 1 << 22  # maximum size of the table of all possible windows


class Tiles(NamedTuple):
    """Tiles of one stretch of text, in random order."""

    tokens: Tensor  # (N, T) int64
    contexts: Tensor  # (N, C) int64: context c of token t is |t + w - c| tokens away
    left: Tensor  # (N, T) int64: number of tokens of the window to the left
    right: Tensor  # (N, T) int64: number of tokens of the window to the right
    counts: Tensor  # (N, T, 1) float32: number of tokens of the window
    some: Tensor  # (N, T, 1) float32: 1 if the window is not empty
    pattern: Tensor  # (N, T) int64: row of `_patterns` for the window

    def split(self, size: int) -> Iterator[Tiles]:
        """Consecutive parts of at most `size` tiles."""
        return map(Tiles._make, zip(*(torch.split(tensor, size) for tensor in self), strict=True))


class ContextWindows:
    """Cuts stretches of text into tiles.

    Args:
        radius: maximum distance between a token and its contexts.
        tile: tokens in a tile.
        keep: (V + 1,) probability that subsampling keeps a word; the last one, of the id that ends a sentence, must be 0.
        shrink: draw the radius of each window; otherwise all windows have the maximum radius.
    """

    def __init__(self, radius: int, tile: int, keep: Tensor, *, shrink: bool = True) -> None:
        self.radius, self.tile, self.keep, self.shrink = radius, tile, keep, shrink
        self._patterns = _patterns(radius, tile, keep.device)
        self._means: Tensor | None = None  # the patterns, each divided by its sum

    @property
    def pairs(self) -> float:
        """Mean number of words in the window of a token."""
        return self.radius + 1.0 if self.shrink else 2.0 * self.radius

    def tiles(self, ids: Tensor, generator: torch.Generator) -> Tiles:
        """The tiles of a stretch of text, int64 ids (n,), in which the id V ends a sentence."""
        device, w, T = ids.device, self.radius, self.tile
        sentences = (ids == len(self.keep) - 1).cumsum(0)
        kept = torch.rand(len(ids), generator=generator, device=device) < self.keep.index_select(0, ids)
        places = kept.nonzero()[:, 0]
        tokens, sentences = ids.index_select(0, places), sentences.index_select(0, places)
        count = len(tokens)
        N = -(-count // T)
        ends = (w, N * T - count + w)
        tokens = torch.nn.functional.pad(tokens, ends)
        sentences = torch.nn.functional.pad(sentences, ends, value=-1)
        radii = torch.full((count,), w, device=device)
        if self.shrink:
            radii = torch.randint(1, w + 1, (count,), generator=generator, device=device)
        radii = torch.nn.functional.pad(radii, (0, N * T - count))  # the padding of the last tile has no window
        left, right = torch.zeros_like(radii), torch.zeros_like(radii)
        middle = sentences[w : w + N * T]
        for distance in range(1, w + 1):  # tokens with the same sentence number are consecutive
            left += sentences[w - distance : w - distance + N * T] == middle
            right += sentences[w + distance : w + distance + N * T] == middle
        order = torch.randperm(N, generator=generator, device=device)  # tiles of one step are not neighbours
        left = torch.minimum(left, radii).view(N, T).index_select(0, order)
        right = torch.minimum(right, radii).view(N, T).index_select(0, order)
        counts = (left + right).float()[..., None]
        around = tokens.as_strided((N, T + 2 * w), (T, 1)) if N else tokens.new_empty(0, T + 2 * w)
        return Tiles(
            tokens[w : w + N * T].view(N, T).index_select(0, order),
            around.index_select(0, order),
            left,
            right,
            counts,
            counts.clamp(max=1),
            (left * (w + 1) + right) * T + torch.arange(T, device=device),
        )

    def shares(self, tiles: Tiles) -> Tensor:
        """(N, T, C) float32: the weight of each context in the mean of the window of a token."""
        if self._patterns is None:
            return self.inside(tiles) / tiles.counts.clamp(min=1)
        if self._means is None:
            self._means = self._patterns / self._patterns.sum(1, keepdim=True).clamp(min=1)
        rows = self._means.index_select(0, tiles.pattern.flatten())
        return rows.view(*tiles.pattern.shape, tiles.contexts.shape[1])

    def inside(self, tiles: Tiles) -> Tensor:
        """(N, T, C) float32: 1 where a context is in the window of a token, else 0."""
        if self._patterns is not None:
            rows = self._patterns.index_select(0, tiles.pattern.flatten())
            return rows.view(*tiles.pattern.shape, tiles.contexts.shape[1])
        offset = _offsets(self.radius, self.tile, self.keep.device)
        return (
            ((offset < 0) & (-offset <= tiles.left[..., None])) | ((offset > 0) & (offset <= tiles.right[..., None]))
        ).float()


def _offsets(w: int, T: int, device: torch.device) -> Tensor:
    """(T, C) the offset of each context from each token; positive to the right."""
    return torch.arange(T + 2 * w, device=device) - torch.arange(T, device=device)[:, None] - w


def _patterns(w: int, T: int, device: torch.device) -> Tensor | None:
    """((w + 1)^2 * T, C): row (left * (w + 1) + right) * T + t has ones at the contexts of token t; None if too large."""
    if (w + 1) ** 2 * T * (T + 2 * w) > _LARGEST:
        return None
    reach, offset = torch.arange(w + 1, device=device), _offsets(w, T, device)
    lefts = (offset < 0) & (offset >= -reach[:, None, None])  # w+1 T C
    rights = (offset > 0) & (offset <= reach[:, None, None])
    return (lefts[:, None] | rights).float().flatten(0, 2)
