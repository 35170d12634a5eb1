"""Summaries made of sentences of the text: its first ones (lead), or those most like all the others, by TextRank
(Mihalcea and Tarau 2004, W04-3252).

TextRank is PageRank on a graph of sentences. The weight between two is the number of words that both have, over the sum
of the logarithms of their lengths.
Departures: words are all that hold a letter or digit, lower-cased: no filter by part of speech, so that any language with
spaces goes; the iteration goes on until nothing changes, not to 1e-4; of equals the earlier one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nlptools.errors import UsageError
from nlptools.text.sentences import split_sentences
from nlptools.text.words import split_words

_DAMPING, _TOLERANCE, _ROUNDS, _DIGITS = 0.85, 1e-10, 500, 6


def sentences_of(text: str) -> list[str]:
    """The sentences of `text`, see `sentences.split_sentences`; each line ends one, too. None is empty."""
    return [sentence for line in text.split("\n") for sentence in split_sentences(line)]


def text_rank(sentences: Sequence[str]) -> np.ndarray:
    """The TextRank score of each sentence: (N,) float64. A sentence that shares no word with another has 0.15, the least.

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
    weights = np.divide(shared, lengths, out=np.zeros_like(shared), where=lengths > 0)  # two of one word: no weight
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
    """The places of the `number` best sentences, in the order of the text. Raises UsageError for an unknown method."""
    if method not in METHODS:
        raise UsageError(f"unknown method {method!r}, expected one of: {', '.join(METHODS)}")
    # rounded: the last bits depend on the machine, and must not decide between equals
    scores = np.round(METHODS[method](sentences), _DIGITS)
    return sorted(np.argsort(-scores, kind="stable")[:number].tolist())


def extract(text: str, number: int = 1, method: str = "textrank") -> str:
    """A summary of `text`: `number` of its sentences (all when it has fewer), joined by spaces; none of empty text.

    Args:
        method: "lead" (the first sentences) or "textrank".

    Raises:
        UsageError: the method is unknown.
    """
    sentences = sentences_of(text)
    return " ".join(" ".join(sentences[i].split()) for i in choose(sentences, number, method))
