"""The best tags of a sentence that keep to their scheme.

Viterbi 1967 (doi:10.1109/TIT.1967.1054010) over the scores of each word's tags, with the scores of a CRF for neighbours
(Lafferty et al. 2001; Lample et al. 2016, N16-1030) or without. The rules by which entities are scored
(`nlptools.formats.tag_rules`) determine which tags may follow each other: every tag but O belongs to an entity.
If no tags at all keep to the scheme (one word, and neither O nor S among the tags), the result breaks it least often.
Shapes: N sentences, T longest of them, W words of all, C tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nlptools.errors import UsageError, display
from nlptools.formats.tag_rules import RULES, neighbours, tags_expected
from nlptools.formats.tag_schemes import find_scheme, is_span_tag, split

_BREACH = 1e6  # the cost of breaking the scheme, far above any score; 64 bits keep both
_BATCH = 1 << 14  # scores per step: few enough for the cache, and for sentences of similar length


class TagTransitions(NamedTuple):
    """Which of C tags may be where (bool), or scores of that as a CRF learns them (float)."""

    follows: np.ndarray  # (C, C), [before, now]
    begins: np.ndarray  # (C,), as the first of a sentence
    ends: np.ndarray  # (C,), as the last


def constraints(names: Sequence[str], scheme: str) -> TagTransitions:
    """The constraints of a scheme on tags of these names.

    Args:
        scheme: see `tag_schemes.find_scheme`; not `plain`, which allows everything.

    Raises:
        UsageError: no such scheme, or a name that is not of the scheme.
    """
    scheme = find_scheme(scheme)
    rules = neighbours(scheme)
    tags = [("O", "")]  # outside of the sentence
    for name in names:
        if not is_span_tag(name) or name[0] not in RULES[scheme].prefixes:
            raise UsageError(f"tag {display(name)!r} is not of the scheme {scheme}, expected {tags_expected(scheme)}")
        tags.append(split(name))
    may = np.zeros((len(tags), len(tags)), np.bool_)
    for b, before in enumerate(tags):
        for n, now in enumerate(tags):
            start, inside, end = ((before[0], now[0], before[1] == now[1]) in rule for rule in rules)
            may[b, n] = (now[0] == "O" or start or inside) and (before[0] == "O" or end or inside)
    return TagTransitions(may[1:, 1:], may[0, 1:], may[1:, 0])


def best_tags(
    scores: np.ndarray,
    sentences: np.ndarray,
    allowed: TagTransitions | None = None,
    transitions: TagTransitions | None = None,
) -> np.ndarray:
    """The best tag of each word of N sentences: (W,) int64. Of equally good ones the first in the list of tags.

    Args:
        scores: (W, C), of the tags of each word.
        sentences: (N + 1,), the first word of each sentence, and the end.

    Without constraints and transitions, the highest score of each word.
    """
    if allowed is None and transitions is None:
        highest: np.ndarray = scores.argmax(axis=1) if len(scores) else np.zeros(0, np.int64)
        return highest
    C = scores.shape[1]
    costs = TagTransitions(np.zeros((C, C)), np.zeros(C), np.zeros(C))  # 64 bits
    for cost, score in zip(costs, transitions or ()):
        cost += score
    for cost, may in zip(costs, allowed or ()):
        cost -= np.where(may, 0.0, _BREACH)
    lengths = np.diff(sentences)
    order = np.argsort(-lengths, kind="stable")
    out = np.zeros(len(scores), np.int64)
    size = max(1, _BATCH // C)
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        rows = rows[lengths[rows] > 0]
        if not len(rows):
            break
        columns = np.arange(lengths[rows[0]])
        real = columns < lengths[rows][:, None]
        padded = np.zeros((*real.shape, C))
        padded[real] = scores[(sentences[rows][:, None] + columns)[real]]
        tags = viterbi(padded, real, costs)
        out[(sentences[rows][:, None] + columns)[real]] = tags[real]
    return out


def viterbi(scores: np.ndarray, mask: np.ndarray, costs: TagTransitions) -> np.ndarray:
    """The best path through each row: tags (N, T) int64, 0 past the end.

    Args:
        scores: (N, T, C).
        mask: (N, T) bool, True = real; a row is real from its first place to its last, which is at least one.
        costs: the scores of neighbours, of the first and of the last tag.
    """
    N, T, C = scores.shape
    follows, begins, ends = costs
    lengths = mask.sum(axis=1)
    best = begins + scores[:, 0]  # (N, C), of the paths that end in each tag
    came = np.zeros((T, N, C), np.int64)
    for t in range(1, T):
        longer = best[:, :1] + follows[0]
        for before in range(1, C):  # faster than the maximum of (N, C, C) over a short axis
            other = best[:, before : before + 1] + follows[before]
            better = other > longer
            came[t][better] = before
            longer = np.maximum(longer, other)
        best = np.where(mask[:, t, None], longer + scores[:, t], best)
    best = best + ends
    tags = np.zeros((N, T), np.int64)
    now = best.argmax(axis=1)
    rows = np.arange(N)
    for t in range(T - 1, -1, -1):
        here = t < lengths
        tags[here, t] = now[here]
        now = np.where(here & (t > 0), came[t][rows, now], now)
    return tags
