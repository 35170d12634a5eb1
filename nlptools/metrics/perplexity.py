"""Perplexity per token out of the log-probabilities of lines, as `nlptools score --per line` writes them.

Jelinek et al. 1977, "Perplexity - a measure of the difficulty of speech recognition tasks". Perplexity is the
exponential of the mean negative log-probability over all tokens, not a mean over lines. It compares models only where
they divide the text into the same tokens.
Shapes: B resamples, N lines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nlptools.errors import DataError, UsageError
from nlptools.metrics.examples import Floats, numbers, ratio, refuse, shown
from nlptools.metrics.measures import Measures
from nlptools.metrics.resampling import Values, Weights

NAMES = ("perplexity", "nats_per_token", "bits_per_token")

_LARGEST_EXPONENT = math.log(np.finfo(np.float64).max)
_LOWEST = -1e15  # of a log-probability: sums of such stay finite
_MOST_DIGITS = 15  # of a number of tokens: a float holds it exactly


def measures(lines: Sequence[str], *, base: float = math.e, path: str | None = None) -> Measures:
    """Perplexity, nats and bits per token of N lines `log-probability TAB tokens`; the unit is a line.

    Lines without tokens, for which the log-probability is 0, change nothing. A perplexity beyond what a float holds
    is the largest float, so that intervals remain numbers.

    Args:
        base: of the logarithms in the lines; `nlptools score` writes natural ones, KenLM and SRILM those to base 10.

    Raises:
        DataError: no lines or no tokens, or a line with other than two columns, a log-probability that is not finite
            or above 0, or a number of tokens that is not whole (names the line).
        UsageError: the base is not a finite number above 1.
    """
    if not (math.isfinite(base) and base > 1):
        raise UsageError(f"base of the logarithms: expected a number above 1, got {base}")
    if not lines:
        raise DataError("no lines: the input is empty", path=path)
    nats, tokens = _read(lines, path)
    if not tokens.any():
        raise DataError("no tokens: every line has 0", path=path)
    nats *= math.log(base)
    table = np.stack([nats, tokens], axis=1)  # (N, 2)

    def compute(weights: Weights) -> Values:
        drawn = weights @ table
        per_token = ratio(drawn[:, 0], drawn[:, 1])
        perplexity = np.exp(np.minimum(per_token, _LARGEST_EXPONENT))
        return np.stack([perplexity, per_token, per_token / math.log(2)], axis=1)

    signature = (("per", "token"), ("tokens", str(int(tokens.sum()))))
    return Measures(NAMES, len(lines), "lines", compute, signature)


def _read(lines: Sequence[str], path: str | None) -> tuple[Floats, Floats]:
    """Negative log-probabilities (N,), in the base of the file, and numbers of tokens (N,)."""
    left, right = [], []
    for index, line in enumerate(lines):
        columns = line.split("\t")
        if len(columns) != 2:
            raise refuse(f"expected log-probability, tab, number of tokens, got {shown(line)}", path, index)
        if not (columns[1].isascii() and columns[1].isdigit() and len(columns[1]) <= _MOST_DIGITS):
            raise refuse(f"expected a whole number of tokens, got {shown(columns[1])}", path, index)
        left.append(columns[0])
        right.append(int(columns[1]))
    logarithms, tokens = numbers(left, path), np.array(right, np.float64)
    for wrong, message in (
        (logarithms < _LOWEST, "expected the logarithm of a probability, got"),
        (logarithms > 0, "a log-probability cannot be above 0, got"),
        ((tokens == 0) & (logarithms != 0), "no tokens, but a log-probability other than 0:"),
    ):
        if wrong.any():
            index = int(np.argmax(wrong))
            raise refuse(f"{message} {shown(left[index])}", path, index)
    return -logarithms, tokens
