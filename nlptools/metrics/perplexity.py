"""Perplexity per token from the log-probabilities of lines, as `nlptools score --per line` writes them.

Jelinek et al. 1977, "Perplexity - a measure of the difficulty of speech recognition tasks". Perplexity is the
exponential of the mean negative log-probability over all tokens, not a mean over lines. Perplexities of two models can
be compared only if both divide the text into the same tokens.
Shapes: N lines, B sums (resamples).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import MetricRequest
from nlptools.errors import DataError, UsageError, shown
from nlptools.metrics.metric import Evaluation, MetricData, SavedRows, Sums, Table, Values, ratio, select, titles
from nlptools.metrics.paired import numbers, refuse

NAMES = ("perplexity", "nats_per_token", "bits_per_token")

_LARGEST_EXPONENT = math.log(np.finfo(np.float64).max)
_LOWEST = -1e15  # log-probability: sums stay finite
_MOST_DIGITS = 15  # in a number of tokens: a float holds it exactly


def evaluate(lines: Sequence[str], *, base: float = math.e, path: str | None = None) -> Evaluation:
    """Perplexity, nats and bits per token of N lines `log-probability TAB tokens`; the unit is a line.

    Lines without tokens have log-probability 0 and change nothing. A perplexity too large for a float becomes the
    largest float, so that intervals remain numbers.

    Args:
        base: of the logarithms in the lines; `nlptools score` writes natural logarithms, KenLM and SRILM base 10.

    Raises:
        DataError: no lines or no tokens, or a line (named) that does not have two columns, whose log-probability is not
            finite or above 0, or whose number of tokens is not a whole number.
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
    return _evaluation(np.stack([nats, tokens], axis=1))


def _evaluation(table: Table) -> Evaluation:
    """The perplexity of N lines with these negative log-probabilities, in nats, and numbers of tokens: (N, 2)."""

    def scores(sums: Table) -> Values:
        per_token = ratio(sums[:, 0], sums[:, 1])
        perplexity = np.exp(np.minimum(per_token, _LARGEST_EXPONENT))
        return np.stack([perplexity, per_token, per_token / math.log(2)], axis=1)

    signature = (("per", "token"), ("tokens", str(int(table[:, 1].sum()))))
    return Evaluation(NAMES, Sums(table), scores, "lines", signature, columns=("nats", "tokens"))


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The perplexities that `nlptools evaluate` is asked for."""
    lines = [line if isinstance(line, str) else "\t".join(map(str, line)) for line in data.predictions]
    base = math.e if options.log_base is None else options.log_base
    return select(evaluate(lines, base=base, path=data.paths[1]), *titles(requests, NAMES))


def merged(requests: Sequence[MetricRequest], saved: SavedRows, options: Evaluate) -> Evaluation:
    """The perplexities of saved rows."""
    return select(_evaluation(saved.table), *titles(requests, NAMES))


def _read(lines: Sequence[str], path: str | None) -> tuple[Values, Values]:
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
