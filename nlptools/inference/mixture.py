"""Mixtures of n-gram models at work, and the weights of any mixture. No PyTorch here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.configs.scoring import Score
from nlptools.corpora import token_file
from nlptools.errors import DataError, UsageError, display, shown
from nlptools.files.json_fields import child
from nlptools.files.streams import LineBlock
from nlptools.inference.line_score import refuse_streams
from nlptools.inference.mixture_parts import Mixed, Parts, ngrams_of, parts_of
from nlptools.inference.ngram_scorer import NGramScorer, sentences
from nlptools.inference.opening import Asked, Opened
from nlptools.inference.perplexity import perplexity
from nlptools.json_types import JsonObject
from nlptools.models.language.alignment import TokenAlignment
from nlptools.models.language.ngram import NGrams
from nlptools.models.language.ngram_mixture import NGramMixture, interpolated
from nlptools.text.builtin import NamedTokenizer
from nlptools.text.flat_ids import flat_ids
from nlptools.text.tokenizer import Tokenizer
from nlptools.text.unknown import UnknownTokens

_NATS = math.log(10)  # of a log10


class SameTokens(UnknownTokens):
    """Counts the unknown tokens of a text, and checks that the tokenizers of all parts cut it into the same tokens."""

    def __init__(self, parts: Parts) -> None:
        first = parts.bundles[0].tokenizer
        super().__init__(first, "the text")
        self._names = parts.names
        others = zip(parts.names[1:], parts.bundles[1:], parts.alignments[1:], strict=True)
        self._others = [(name, b.tokenizer, a) for name, b, a in others if not _alike(first, b.tokenizer)]

    def count(self, lines: Sequence[str], ids: np.ndarray | Sequence[Sequence[int]]) -> int:
        """As in `UnknownTokens`. Raises UsageError for a text with different tokens."""
        flat = ids if isinstance(ids, np.ndarray) else flat_ids(ids)[0]
        for name, tokenizer, alignment in self._others:
            if alignment.differs(flat, flat_ids(tokenizer.encode_lines(lines))[0]):
                self._refuse(lines, name, tokenizer, alignment)
        return super().count(lines, flat)

    def _refuse(self, lines: Sequence[str], name: str, tokenizer: Tokenizer, alignment: TokenAlignment) -> None:
        for line in lines:
            main, other = (np.array(each.encode(line), np.int64) for each in (self.tokenizer, tokenizer))
            if alignment.differs(main, other):
                break
        tokens = [shown(" ".join(each.tokens(line))) for each in (self.tokenizer, tokenizer)]
        raise UsageError(
            f"{self._names[0]} reads the tokens {tokens[0]} and {name} reads {tokens[1]}: models of the same tokens can be"
            " mixed"
        )


def _alike(one: Tokenizer, other: Tokenizer) -> bool:
    """Whether two tokenizers surely cut all texts into the same tokens."""
    if isinstance(one, NamedTokenizer) and isinstance(other, NamedTokenizer):
        return (one.kind, one.lowercase) == (other.kind, other.lowercase)
    return False


class NGramMixtureScorer(NGramScorer):
    """A mixture of n-gram models."""

    def __init__(self, parts: Parts) -> None:
        bundles = [each for each in map(ngrams_of, parts.bundles) if each is not None]
        self.mixture = NGramMixture([each.model for each in bundles], parts.alignments, parts.weights)
        super().__init__(bundles[0], cast(NGrams, self.mixture))  # offers what it asks of `NGrams`
        self.parts, self.unknown = parts, SameTokens(parts)

    @classmethod
    def opened(cls, asked: Asked[Score], *models: Opened[NGrams]) -> NGramMixtureScorer:
        """See `uses`. Raises UsageError for options that see the text as one stream."""
        parts = parts_of([each.bundle for each in models], asked.weights)
        refuse_streams("a mixture of n-gram models", asked.settings)
        return cls(parts)

    @property
    def mixed(self) -> Mixed:
        """See `uses.Scores`."""
        return self

    @property
    def weights(self) -> list[float]:
        """Of the models."""
        return [float(weight) for weight in self.mixture.weights]

    def set_weights(self, weights: Sequence[float]) -> None:
        """Replace the weights."""
        self.mixture.set_weights(weights)

    def part_scores(self, blocks: Iterable[LineBlock], settings: Score) -> NDArray[np.float64]:
        """(T, K) the log-probability of each token of a text by each model, in nats."""
        document, eos = settings.document or self.bundle.document, self.bundle.eos
        encoded = token_file.encode(blocks, self.unknown, eos, document, 1)
        flat = np.concatenate([np.zeros(0, np.int64), *(ids for ids, _ in encoded)])
        words = sentences(flat, eos, self.mixture.config.bos, self.vocab.unk)
        scores: NDArray[np.float64] = self.mixture.part_scores(words)[words != self.mixture.config.bos] * _NATS
        return scores

    def perplexity(self, blocks: Iterable[LineBlock], settings: Score | None = None) -> JsonObject:
        """See `NGramScorer.perplexity`."""
        result = super().perplexity(blocks, settings)
        result["protocol"] = {**child(result, "protocol", "the result"), **self.parts.describe(self.weights)}
        return result


# -- weights --------------------------------------------------------------------------------------------------------


def best_weights(log_probs: NDArray[np.float64], most: int = 1000) -> NDArray[np.float64]:
    """The weights (K,) of the mixture that gives a text the highest probability, by expectation maximization.

    The log-likelihood has one maximum only (Jelinek & Mercer 1980). It stops when no weight changes by 1e-6.

    Args:
        log_probs: (T, K) in nats.
        most: steps.
    """
    K = log_probs.shape[1]
    highest = log_probs.max(1, keepdims=True)
    probs = np.exp(log_probs - np.where(np.isfinite(highest), highest, 0.0))
    probs = probs[probs.sum(1) > 0]
    weights = np.full(K, 1 / K)
    for _ in range(most if len(probs) else 0):
        shares = probs * weights
        new: NDArray[np.float64] = (shares / shares.sum(1, keepdims=True)).mean(0)
        change, weights = float(np.abs(new - weights).max()), new
        if change < 1e-6:
            break
    total: NDArray[np.float64] = weights / weights.sum()
    return total


def tune_weights(mixed: Mixed, blocks: Iterable[LineBlock], settings: Score, name: str) -> None:
    """Set the best weights for a held-out text, and report them and the perplexities. Raises DataError for an empty text."""
    scores = mixed.part_scores(blocks, settings)
    if not len(scores):
        raise DataError("no text for --tune", path=name)
    weights = best_weights(scores)
    mixed.set_weights(weights.tolist())
    alone = [perplexity(-float(column.mean())) for column in scores.T]
    together = perplexity(-float(interpolated(scores, weights).mean()))
    for model, weight, value in zip(mixed.parts.names, weights, alone, strict=True):
        messages.note(f"{model}: weight {weight:.4f}, perplexity {value:,.3f} on {display(name)}")
    messages.note(f"mixture: perplexity {together:,.3f} on {display(name)}")
