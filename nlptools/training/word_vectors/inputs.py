"""Input vectors of words: one row of a table, or the mean of the rows of a word and its n-grams.

Gradients are applied immediately: plain SGD without momentum. A row that occurs several times gets the sum of its gradients.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nlptools.training.word_vectors.damping import damping
from nlptools.vectors.subwords import ngram_rows


class WordRows:
    """One row per word.

    Args:
        table: (V, D) float32, changed in place.
    """

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self._damping: Tensor | None = None

    def damp(self, uses: Tensor, lr: float) -> None:
        """Set the damping for steps in which words are used `uses` (V,) times."""
        self._damping = damping(uses, lr)

    def look_up(self, words: Tensor) -> Tensor:
        """(..., D) the vectors of int64 words."""
        return self.table.index_select(0, words.flatten()).view(*words.shape, -1)

    def add(self, words: Tensor, gradient: Tensor, lr: float) -> None:
        """Add the gradient (..., D) times the learning rate to the rows of words. Changes `gradient`."""
        flat = words.flatten()
        gradient.mul_(lr if self._damping is None else (self._damping.index_select(0, flat) * lr).view(*words.shape, 1))
        self.table.index_add_(0, flat, gradient.flatten(0, -2))


class SubwordInput:
    """The mean of a word's row and the rows of its n-grams (Bojanowski et al. 2017, arXiv:1607.04606).

    As in fastText, each of the rows gets the whole gradient of the mean.

    Args:
        table: (V + B, D) float32: rows of words, then the rows that n-grams are hashed onto; changed in place.
        words: the vocabulary.
        shortest, longest: lengths of n-grams in characters.
    """

    def __init__(self, table: Tensor, words: list[str], shortest: int, longest: int) -> None:
        self.table = table
        V, device = len(words), table.device
        places, rows = ngram_rows(words, shortest, longest, len(table) - V)
        places, rows = np.concatenate([np.arange(V), places]), np.concatenate([np.arange(V), rows + V])
        order = np.argsort(places, kind="stable")  # each word's own row comes before the rows of its n-grams
        self._rows = torch.from_numpy(rows[order]).to(device)
        self._counts = torch.from_numpy(np.bincount(places, minlength=V)).to(device)
        self._starts = self._counts.cumsum(0) - self._counts
        self._damping: Tensor | None = None
        self._cached: tuple[Tensor, Tensor, Tensor, Tensor] | None = None

    def damp(self, uses: Tensor, lr: float) -> None:
        """Set the damping for steps in which words are used `uses` (V,) times."""
        rows = uses.new_zeros(len(self.table)).index_add_(0, self._rows, uses.repeat_interleave(self._counts))
        self._damping = damping(rows, lr)

    def look_up(self, words: Tensor) -> Tensor:
        """(..., D) the vectors of int64 words."""
        _, inverse, rows, counts = self._rows_of(words)
        offsets = counts.cumsum(0) - counts
        means = torch.nn.functional.embedding_bag(rows, self.table, offsets, mode="mean")
        return means.index_select(0, inverse.flatten()).view(*words.shape, -1)

    def add(self, words: Tensor, gradient: Tensor, lr: float) -> None:
        """Add the gradient (..., D) times the learning rate to all rows of words."""
        _, inverse, rows, counts = self._rows_of(words)
        sums = gradient.new_zeros(len(counts), gradient.shape[-1])
        sums.index_add_(0, inverse.flatten(), gradient.flatten(0, -2))
        spread = sums.repeat_interleave(counts, 0)
        spread.mul_(lr if self._damping is None else (self._damping[rows] * lr)[:, None])
        self.table.index_add_(0, rows, spread)

    def _rows_of(self, words: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(words, index of each among the distinct words, concatenated rows of these, number of rows of each).

        The result for the last `words` is cached: a step looks up and updates the same words.
        """
        if self._cached is None or self._cached[0] is not words:
            unique, inverse = torch.unique(words, return_inverse=True)
            counts = self._counts[unique]
            shifts = (self._starts[unique] - counts.cumsum(0) + counts).repeat_interleave(counts)
            rows = self._rows[torch.arange(len(shifts), device=words.device) + shifts]
            self._cached = (words, inverse, rows, counts)
        return self._cached
