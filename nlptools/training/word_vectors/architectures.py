"""Skip-gram and continuous bag of words, in tiles.

Mikolov et al. 2013, "Efficient estimation of word representations in vector space" (arXiv:1301.3781).
Both compute a hidden vector for each token of a tile and its target words; the output layer (`outputs`) returns the
gradient. All gradients are in closed form.

Shapes: N tiles, T tokens of a tile, w largest radius, C = T + 2w tokens around them, D dimensions, J target words of a tile
(C for skip-gram, T for CBOW).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from nlptools.training.word_vectors.damping import damping
from nlptools.training.word_vectors.inputs import SubwordInput, WordRows
from nlptools.training.word_vectors.windows import ContextWindows, Tiles

Inputs = WordRows | SubwordInput


class Prediction(NamedTuple):
    """The hidden vectors of tiles, and the weights of their targets."""

    hidden: Tensor  # (N, T, D)
    weights: Tensor | None  # (N, T, J): how often token t predicts target j; None: token t predicts target t or nothing
    totals: Tensor  # (N, T, 1): number of targets of each token
    kept: tuple[Tensor, ...] = ()  # tensors that `spread` needs

    def dense_weights(self) -> Tensor:
        """The weights (N, T, J) as a tensor, also if `weights` is None."""
        if self.weights is not None:
            return self.weights
        return torch.diag_embed(self.totals[..., 0])


class WordVectorArchitecture(Protocol):
    """Skip-gram or CBOW."""

    number: float  # mean number of targets of a token
    inputs: Inputs

    def damp(self, tokens: Tensor, scores: float, lr: float) -> None:
        """Set the damping for steps that contain each word `tokens` (V,) times and score each target `scores` times."""

    def targets(self, tiles: Tiles) -> Tensor:
        """(N, J) int64 words to predict."""

    def predict(self, tiles: Tiles) -> Prediction:
        """The hidden vectors and the weights of their targets."""

    def spread(self, tiles: Tiles, prediction: Prediction, gradient: Tensor, lr: float) -> None:
        """Add the gradient of the hidden vectors (N, T, D) to the rows that they were computed from."""


class SkipGram:
    """Each token predicts the words of its window."""

    def __init__(self, windows: ContextWindows, inputs: Inputs) -> None:
        self.windows, self.inputs = windows, inputs
        self.number = windows.pairs

    def damp(self, tokens: Tensor, scores: float, lr: float) -> None:
        self.inputs.damp(tokens * self.number * scores, lr)

    def targets(self, tiles: Tiles) -> Tensor:
        return tiles.contexts

    def predict(self, tiles: Tiles) -> Prediction:
        return Prediction(self.inputs.look_up(tiles.tokens), self.windows.inside(tiles), tiles.counts)

    def spread(self, tiles: Tiles, prediction: Prediction, gradient: Tensor, lr: float) -> None:
        self.inputs.add(tiles.tokens, gradient, lr)


class Cbow:
    """The mean of the words of a window predicts the token in the middle.

    Args:
        corrected: give each word of the window its share of the gradient, as the derivative of the mean does; otherwise
            the whole gradient, as word2vec does (see Irsoy et al. 2021, arXiv:2012.15332).
    """

    def __init__(self, windows: ContextWindows, inputs: Inputs, *, corrected: bool = True) -> None:
        self.windows, self.inputs, self.corrected = windows, inputs, corrected
        self.number = 1.0

    def damp(self, tokens: Tensor, scores: float, lr: float) -> None:
        self.inputs.damp(tokens * (scores if self.corrected else scores * self.windows.pairs), lr)

    def targets(self, tiles: Tiles) -> Tensor:
        return tiles.tokens

    def predict(self, tiles: Tiles) -> Prediction:
        shares = self.windows.shares(tiles)  # N T C
        hidden = torch.bmm(shares, self.inputs.look_up(tiles.contexts))
        return Prediction(hidden, None, tiles.some, (shares,))

    def spread(self, tiles: Tiles, prediction: Prediction, gradient: Tensor, lr: float) -> None:
        shares = prediction.kept[0] if self.corrected else self.windows.inside(tiles)
        self.inputs.add(tiles.contexts, torch.bmm(shares.transpose(1, 2), gradient), lr)


class PositionWeightedCbow(Cbow):
    """CBOW that multiplies each context word, per dimension, by a learned weight of its position in the window.

    Mikolov et al. 2018, "Advances in pre-training distributed word representations" (arXiv:1712.09405), section 2.2.

    Args:
        positions: (2w, D) float32, the weights of the positions from -w to w without 0; changed in place.
    """

    def __init__(self, windows: ContextWindows, inputs: Inputs, positions: Tensor, *, corrected: bool = True) -> None:
        super().__init__(windows, inputs, corrected=corrected)
        self.positions = positions
        self._damping = 1.0

    def damp(self, tokens: Tensor, scores: float, lr: float) -> None:
        super().damp(tokens, scores, lr)
        factor = damping((tokens.sum() * scores)[None], lr)  # every token uses every position
        self._damping = 1.0 if factor is None else float(factor)

    def predict(self, tiles: Tiles) -> Prediction:
        rows = self.inputs.look_up(tiles.contexts)  # N C D
        hidden = rows.new_zeros(*tiles.tokens.shape, rows.shape[-1])
        for place, at, inside in self._places(tiles):
            hidden += inside * rows[:, at] * self.positions[place]
        hidden /= tiles.counts.clamp(min=1)
        return Prediction(hidden, None, tiles.some, (rows,))

    def spread(self, tiles: Tiles, prediction: Prediction, gradient: Tensor, lr: float) -> None:
        rows = prediction.kept[0]
        mean = gradient / tiles.counts.clamp(min=1)  # N T D
        out = torch.zeros_like(rows)
        for place, at, inside in self._places(tiles):
            out[:, at] += inside * (mean if self.corrected else gradient) * self.positions[place]
            self.positions[place] += (inside * mean * rows[:, at]).sum((0, 1)) * (self._damping * lr)
        self.inputs.add(tiles.contexts, out, lr)

    def _places(self, tiles: Tiles) -> Iterator[tuple[int, slice, Tensor]]:
        """(row of `positions`, its slice of the contexts, whether they are in the window (N, T, 1)) for each position."""
        w, T = self.windows.radius, tiles.tokens.shape[1]
        for offset in (*range(-w, 0), *range(1, w + 1)):
            inside = tiles.left >= -offset if offset < 0 else tiles.right >= offset
            yield offset + w - (offset > 0), slice(offset + w, offset + w + T), inside[..., None]
