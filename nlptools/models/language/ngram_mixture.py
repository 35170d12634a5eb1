"""Several n-gram models as one, by linear interpolation, without PyTorch.

Shapes: T tokens, V words of the main model, K parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nlptools.arrays import Floats, Longs
from nlptools.models.language.alignment import TokenAlignment
from nlptools.models.language.ngram import Matches, NGramConfig, NGrams

_LN10 = math.log(10)


class AlignedNGrams:
    """An n-gram model over the words of another one."""

    def __init__(self, model: NGrams, alignment: TokenAlignment, bos: int) -> None:
        """
        Args:
            bos: <s> of the main model.
        """
        self.model, self.alignment, self.bos = model, alignment, bos
        self._shares = (alignment.log_shares() / _LN10).astype(np.float32)

    def ids(self, words: NDArray[np.int64]) -> Longs:
        """The model's own ids of the main model's."""
        return np.where(words == self.bos, self.model.config.bos, self.alignment.ids[words])

    def score(self, words: NDArray[np.int64]) -> Matches:
        """Look up a text (T,), see `NGrams.score`."""
        matches = self.model.score(self.ids(words))
        out = matches.log_probs + self._shares[words]
        if len(self.alignment.others):
            reach = self.model.order - 1
            place: int
            for place in np.flatnonzero(words == self.alignment.unknown).tolist():
                starts = np.flatnonzero(words[max(0, place - reach) : place] == self.bos)
                begin = max(0, place - reach) + (int(starts[-1]) if len(starts) else 0)
                out[place] = self.next_words(words[begin:place].tolist())[words[place]]
        out[words == self.bos] = 0
        return Matches(out, matches.lengths)

    def next_words(self, words: Sequence[int]) -> Floats:
        """(V,) log10 of the word after `words`, see `NGrams.next_words`."""
        own = self.model.next_words(self.ids(np.array(words, np.int64)).tolist())
        out: Floats = own[self.alignment.ids] + self._shares
        if self.alignment.unknown is not None and len(self.alignment.others):
            mass = 10.0 ** float(out[self.alignment.unknown])
            mass += float((10.0 ** own[self.alignment.others].astype(np.float64)).sum())
            out[self.alignment.unknown] = math.log10(mass) if mass > 0 else -math.inf
        return out


class NGramMixture:
    """Offers what `inference.ngram_scorer` and `ngram_decoder` ask of `ngram.NGrams`.

    Args:
        parts: the first one is the main model, see `alignment`.
        weights: one for each part; their sum is 1.
    """

    def __init__(self, parts: Sequence[NGrams], alignments: Sequence[TokenAlignment], weights: Sequence[float]) -> None:
        bos = parts[0].config.bos
        self.parts = [AlignedNGrams(part, alignment, bos) for part, alignment in zip(parts, alignments, strict=True)]
        self.order = max(part.order for part in parts)
        self.config = NGramConfig(parts[0].vocab_size, self.order, bos)
        self.set_weights(weights)

    def set_weights(self, weights: Sequence[float]) -> None:
        """Replace the weights."""
        self.weights = np.array(weights, np.float64)

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.config.vocab_size

    def part_scores(self, words: NDArray[np.int64]) -> NDArray[np.float64]:
        """(T, K) log10 of each word by each part; 0 for <s>."""
        return np.stack([part.score(words).log_probs for part in self.parts], 1).astype(np.float64)

    def score(self, words: NDArray[np.int64]) -> Matches:
        """See `NGrams.score`; the lengths come from the part that matches most words."""
        matches = [part.score(words) for part in self.parts]
        log_probs = np.stack([each.log_probs for each in matches], 1).astype(np.float64)
        mixed = interpolated(log_probs * _LN10, self.weights) / _LN10
        mixed[words == self.config.bos] = 0
        return Matches(mixed.astype(np.float32), np.max([each.lengths for each in matches], 0))

    def next_words(self, words: Sequence[int]) -> Floats:
        """See `NGrams.next_words`."""
        parts = np.stack([part.next_words(words).astype(np.float64) for part in self.parts], 1)
        return (interpolated(parts * _LN10, self.weights) / _LN10).astype(np.float32)


def interpolated(log_probs: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, K) log-probabilities and (K,) weights -> (T,) the logarithm of the weighted sum, in nats."""
    with np.errstate(divide="ignore"):
        terms = log_probs + np.log(weights)
        most = terms.max(1, keepdims=True)
        finite = np.where(np.isfinite(most), most, 0.0)
        out: NDArray[np.float64] = np.log(np.exp(terms - finite).sum(1)) + finite[:, 0]
    return out
