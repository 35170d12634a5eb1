"""A metric for groups of examples by the length of their sources, as Bahdanau et al. 2015 (arXiv:1409.0473) draw BLEU.

The statistics of a group are the sum of its rows, so the value of a group is the one that its lines alone would have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from nlptools.metrics.metric import Evaluation, Subset


def by_length(evaluation: Evaluation, lengths: Sequence[int], limits: Sequence[int]) -> Iterator[Evaluation]:
    """The evaluation of each group that has examples, from short to long, and the one of all.

    Args:
        lengths: (N,) of the source of each example.
        limits: the greatest length of each group, ascending; all greater ones form the last group.
    """
    items = (*evaluation.items, ("length", "source words"))
    group = np.searchsorted(limits, lengths)
    for number, name in enumerate(names(limits)):
        places = np.flatnonzero(group == number)
        if len(places):
            yield replace(evaluation, rows=Subset(evaluation.rows, places), items=items, details={}, group=name)
    yield replace(evaluation, group="all")


def names(limits: Sequence[int]) -> list[str]:
    """The groups, such as 0-10, 11-20, 21-."""
    return [f"{low}-{high}" for low, high in zip((0, *(limit + 1 for limit in limits)), (*limits, ""), strict=True)]
