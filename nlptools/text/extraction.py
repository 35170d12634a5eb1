"""Extractive summarization: the first sentences of a text (lead), or its most central ones by TextRank (Mihalcea and
Tarau 2004, W04-3252).

TextRank is PageRank on a graph of sentences. The weight of an edge is the number of words that both sentences share, over
the sum of the logarithms of their lengths.
Departures: every token with a letter or digit counts as a word, lower-cased, without a filter by part of speech, so that
the method works for any language with spaces; the iteration converges to 1e-10 instead of 1e-4; between equal scores the
earlier sentence wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nlptools.errors import UsageError
from nlptools.text.sentences import split_sentences
from nlptools.text.words import split_words

_DAMPING, _TOLERANCE, _ROUNDS, _DIGITS = 0.85, 1e-10, 500, 6


def sentences_of(text: str) -> list[str]:
    """The sentences of `text`, none of them empty; a line end also ends a sentence (see `sentences.split_sentences`)."""
    return [sentence for line in text.split("\n") for sentence in split_sentences(line)]


def text_rank(sentences: Sequence[str]) -> np.ndarray:
    """The TextRank score of each sentence: (N,) float64. The minimum, 0.15, is the score of one without shared words.

    Time and memory grow with the square of the number of sentences.
    """
    words = [[w.lower() for w in split_words(s) if any(c.isalnum() for c in w)] for s in sentences]
    holders: dict[str, list[int]] = {}
    for i, row in enumerate(words):
        for word in set(row):
            holders.setdefault(word, []).append(i)
    shared = np.zeros((len(words), len(words)))
    for rows in holders.values():
        if len(rows) > 1:
            shared[np.ix_(rows, rows)] += 1
    np.fill_diagonal(shared, 0)
    logs = np.log([max(1, len(row)) for row in words])
    lengths = logs[:, None] + logs
    weights = np.divide(
        shared, lengths, out=np.zeros_like(shared), where=lengths > 0
    )  # two one-word sentences: weight 0
    out = weights.sum(1, keepdims=True)
    votes = np.divide(weights, out, out=np.zeros_like(weights), where=out > 0).T
    scores = np.ones(len(words))
    for _ in range(_ROUNDS):
        before, scores = scores, (1 - _DAMPING) + _DAMPING * (votes @ scores)
        if np.abs(scores - before).max(initial=0) < _TOLERANCE:
            break
    return scores


def _lead(sentences: Sequence[str]) -> np.ndarray:
    return -np.arange(len(sentences), dtype=np.float64)


METHODS: dict[str, Callable[[Sequence[str]], np.ndarray]] = {"lead": _lead, "textrank": text_rank}


def choose(sentences: Sequence[str], number: int = 1, method: str = "textrank") -> list[int]:
    """The indices of the `number` best sentences, in the order of the text. Raises UsageError for an unknown method."""
    if method not in METHODS:
        raise UsageError(f"unknown method {method!r}, expected one of: {', '.join(METHODS)}")
    if len(sentences) <= number:
        return list(range(len(sentences)))
    # rounded, since the last bits depend on the machine and must not break ties
    scores = np.round(METHODS[method](sentences), _DIGITS)
    return sorted(np.argsort(-scores, kind="stable")[:number].tolist())


def extract(text: str, number: int = 1, method: str = "textrank") -> str:
    """A summary of `text`: `number` of its sentences (all if it has fewer), joined by spaces; empty for an empty text.

    Args:
        method: "lead" (the first sentences) or "textrank".

    Raises:
        UsageError: the method is unknown.
    """
    sentences = sentences_of(text)
    return " ".join(" ".join(sentences[i].split()) for i in choose(sentences, number, method))
