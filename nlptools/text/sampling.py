"""Random segmentations: subword regularization (Kudo 2018, arXiv:1804.10959) and BPE dropout (Provilkov et al.
2020, arXiv:1910.13267).

Departure: implemented here although the sentencepiece package has both, because its generator mixes the state of the
process into the seed, so that the same seed gives different segmentations in the next run.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping
from random import Random

_UNKNOWN_PENALTY = 10.0  # below the lowest score of any piece, as in the package


def draw_unigram(text: str, scores: Mapping[str, float], longest: int, alpha: float, random: Random) -> list[str]:
    """Draw a segmentation of the normalized `text`, with probability proportional to P(segmentation) ** alpha.

    Forward-filtering, backward-sampling: exact, in time linear in the length of the text. A character without a piece
    is a segment by itself.

    Args:
        scores: log-probability of each piece.
        longest: characters of the longest piece.
    """
    unknown = min(scores.values(), default=0.0) - _UNKNOWN_PENALTY
    total = [0.0] + [-math.inf] * len(text)  # log of the summed weights of all segmentations up to here
    ending: list[list[tuple[int, float]]] = [[]]  # for each position, start and log weight of the pieces that end there
    for end in range(1, len(text) + 1):
        candidates = []
        for start in range(max(0, end - longest), end):
            score = scores.get(text[start:end], unknown if start == end - 1 else None)
            if score is not None:
                candidates.append((start, total[start] + alpha * score))
        top = max(weight for _, weight in candidates)
        total[end] = top + math.log(sum(math.exp(weight - top) for _, weight in candidates))
        ending.append(candidates)
    pieces = []
    end = len(text)
    while end:
        starts, weights = zip(*ending[end])
        (start,) = random.choices(starts, [math.exp(weight - total[end]) for weight in weights])
        pieces.append(text[start:end])
        end = start
    return pieces[::-1]


def draw_bpe(symbols: list[str], scores: Mapping[str, float], dropout: float, random: Random) -> list[str]:
    """Merge `symbols` by BPE, best score first and ties from the left; each merge is dropped with probability `dropout`.

    Args:
        scores: score of each piece; two neighbors can merge if their concatenation is a piece.
    """
    following = [*range(1, len(symbols)), -1]
    preceding = [-1, *range(len(symbols) - 1)]
    pieces = list(symbols)
    agenda: list[tuple[float, int, int, str]] = []

    def propose(left: int, right: int) -> None:
        if left >= 0 and right >= 0 and (merged := pieces[left] + pieces[right]) in scores:
            heapq.heappush(agenda, (-scores[merged], left, right, merged))

    for left in range(len(symbols) - 1):
        propose(left, left + 1)
    while agenda:
        _, left, right, merged = heapq.heappop(agenda)
        stale = not pieces[left] or not pieces[right] or following[left] != right
        if stale or pieces[left] + pieces[right] != merged or random.random() < dropout:
            continue
        pieces[left], pieces[right] = merged, ""
        following[left] = following[right]
        if following[right] >= 0:
            preceding[following[right]] = left
        propose(preceding[left], left)
        propose(left, following[left])
    return [piece for piece in pieces if piece]
