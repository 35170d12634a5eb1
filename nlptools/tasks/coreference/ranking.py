"""Mention ranking: the loss of a document and its chains, from the scores of a `layers.chains.ChainHead`.

Lee et al. 2017 (D17-1018): the spans with the best mention scores are kept, 0.4 per word. Each of them refers to an earlier one
or to none; "none" has the score 0. The loss is the negative log-likelihood of all right antecedents of each span that is kept.
Departures: in training the gold mentions are kept in any case; a chain has no two mentions that cross.
Shapes: W words of a document, L longest span, M spans that are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nlptools.formats.examples import Chain, Span
from nlptools.layers.chains import LONGEST, ChainHead

PER_WORD = 0.4
_ROWS = 1024  # spans at a time when antecedents are scored in prediction


def number_of_spans(sentences: np.ndarray) -> int:
    """The spans of up to L words within sentences of these lengths."""
    short = np.minimum(sentences, LONGEST)
    return int((short * (sentences + 1) - short * (short + 1) // 2).sum())


def number_kept(words: int, spans: int, gold: int = 0) -> int:
    """M, for a document of so many words, possible spans and gold mentions among them."""
    return max(min(math.ceil(PER_WORD * words), spans), gold)


def document_loss(head: ChainHead, words: Tensor, sentences: Tensor, mentions: Tensor) -> Tensor:
    """The loss of a document, summed over the M spans that are kept.

    Args:
        words: (W, 4 F), of `ChainHead.forward`.
        sentences: (W,) the number of the sentence of each word.
        mentions: (gold, 3): first word, last word, and the number of the chain.
    """
    scores = head.mention_scores(words, sentences)
    chain = torch.full_like(scores, -1, dtype=torch.long)
    chain[mentions[:, 0], mentions[:, 1] - mentions[:, 0]] = mentions[:, 2]
    flat, chain = scores.flatten(), chain.flatten()
    possible = int((flat > -math.inf).sum())
    count = number_kept(len(words), possible, len(mentions))
    kept = flat.detach().masked_fill(chain >= 0, math.inf).topk(count).indices.sort().values
    spans, mention, chain = _spans(kept, scores.shape[1]), flat[kept], chain[kept]
    pairs = head.pair_scores(words, spans, slice(None)) + mention[:, None] + mention
    pairs = torch.cat([pairs.new_zeros(count, 1), pairs], 1)  # no antecedent first
    right = (chain[:, None] == chain) & (chain >= 0)
    right = right.tril(-1)
    right = torch.cat([~right.any(1, keepdim=True), right], 1)
    return (pairs.logsumexp(1) - pairs.masked_fill(~right, -math.inf).logsumexp(1)).sum()


@torch.inference_mode()
def document_chains(head: ChainHead, words: Tensor, sentences: Tensor) -> list[Chain]:
    """The chains of a document, each of two or more mentions. Arguments as for `document_loss`."""
    if not len(words):
        return []
    scores = head.mention_scores(words, sentences)
    flat = scores.flatten()
    count = number_kept(len(words), int((flat > -math.inf).sum()))
    kept = flat.topk(count).indices.sort().values
    spans, mention = _spans(kept, scores.shape[1]), flat[kept]
    antecedents = []
    for begin in range(0, count, _ROWS):
        rows = slice(begin, min(begin + _ROWS, count))
        pairs = head.pair_scores(words, spans, rows) + mention[rows, None] + mention
        best, where = pairs.max(1)
        antecedents += where.masked_fill(best <= 0, -1).tolist()
    return linked(list(map(tuple, spans.tolist())), mention.tolist(), antecedents)


def _spans(kept: Tensor, width: int) -> Tensor:
    """(M,) places in the flat scores -> (M, 2) first and last words."""
    first = kept // width
    return torch.stack([first, first + kept % width], 1)


def linked(spans: Sequence[Span], scores: Sequence[float], antecedents: Sequence[int]) -> list[Chain]:
    """The chains of spans with these antecedents, -1 for none. Of two mentions of a chain that cross, the one with the lower
    score is left out: the columns of CoNLL-2012 cannot tell them from nested ones.
    """
    chain_of = list(range(len(spans)))
    for number, antecedent in enumerate(antecedents):
        if antecedent >= 0:
            chain_of[number] = chain_of[antecedent]
    members: dict[int, list[int]] = {}
    for number, chain in enumerate(chain_of):
        members.setdefault(chain, []).append(number)
    chains = []
    for numbers in members.values():
        kept: list[int] = []
        for number in sorted(numbers, key=lambda number: -scores[number]):
            if not any(_cross(spans[number], spans[other]) for other in kept):
                kept.append(number)
        if len(kept) > 1:
            chains.append(tuple(spans[number] for number in sorted(kept)))
    return chains


def _cross(one: Span, other: Span) -> bool:
    (a, b), (c, d) = sorted((one, other))
    return a < c <= b < d
