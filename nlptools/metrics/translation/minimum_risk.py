"""Minimum Bayes risk decoding: of several candidates, the one most similar to all the others.

Kumar & Byrne 2004; with samples of a neural model Eikema & Aziz 2020 (arXiv:2005.10283). The utility of a candidate is its
mean score with each sample as the reference; a sample that occurs twice counts twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np

from nlptools.metrics.translation.corpus import metric_class
from nlptools.metrics.translation.metric import CorpusMetric


def choose(candidates: Sequence[str], metric: str) -> int:
    """The index of the candidate with the highest expected `metric` ("bleu" of single segments, or "chrf"), the first of
    equals. Raises ValueError if there are no candidates.
    """
    if not candidates:
        raise ValueError("no candidates to choose from")
    counts = Counter(candidates)  # in order of first occurrence
    texts, weights = list(counts), np.array(list(counts.values()), np.float64)
    n = len(texts)
    if n == 1:
        return 0
    scorer = _scorer(metric)
    hypotheses = [text for text in texts for _ in range(n)]
    scores = scorer.scores(scorer.statistics(hypotheses, [texts * n])).reshape(n, n)
    return candidates.index(texts[int((scores @ weights).argmax())])


@cache
def _scorer(metric: str) -> CorpusMetric:
    options = {"effective_order": True} if metric == "bleu" else {}
    return metric_class(metric)(**options)
