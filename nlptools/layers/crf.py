"""A linear-chain conditional random field: the tags of a sentence depend on their neighbours.

Lafferty et al. 2001; on top of an encoder as in Lample et al. 2016 (N16-1030). The score of a path is the sum of its
tags' scores, of a transition weight for each pair of neighbours, and of a weight for the first and for the last tag. The
likelihood is the softmax over the scores of all paths, by the forward algorithm.
Departures: paths that the tag scheme forbids have no probability in training either, instead of in decoding only. The
computation is in 32 bits or more, because sums over a long sentence exceed 16.
Dimensions: T words, C tags.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_FORBIDDEN = -1e4  # weight of what the scheme forbids; its exponential is 0
_PARTS = ("follows", "begins", "ends")


class Crf(nn.Module):
    """Transition weights.

    Attributes:
        follows: (C, C), [previous tag, tag].
        begins, ends: (C,), of the first and of the last tag.
        allowed_follows, allowed_begins, allowed_ends: bool, of the same shapes, True = the scheme allows it; None: all.
    """

    allowed_follows: Tensor | None
    allowed_begins: Tensor | None
    allowed_ends: Tensor | None

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self.follows = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.begins = nn.Parameter(torch.zeros(num_tags))
        self.ends = nn.Parameter(torch.zeros(num_tags))
        # not saved: they follow from the names of the tags
        for name in _PARTS:
            self.register_buffer(f"allowed_{name}", None, persistent=False)

    def restrict(self, follows: Tensor, begins: Tensor, ends: Tensor) -> None:
        """Allow only these transitions, first and last tags, (C, C), (C,) and (C,) bool
        (`nlptools.tasks.tag.decoding.constraints`). Raises ValueError for other shapes.
        """
        for name, allowed in zip(_PARTS, (follows, begins, ends)):
            weight = getattr(self, name)
            if allowed.shape != weight.shape:
                raise ValueError(f"{name} is {tuple(allowed.shape)}, expected {tuple(weight.shape)}")
            setattr(self, f"allowed_{name}", allowed.to(weight.device, torch.bool).clone())

    def log_likelihood(
        self, scores: Tensor, tags: Tensor, mask: Tensor, edges: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """log p(tags | scores) of each row: (B,), at most 0 where the tags are allowed.

        Args:
            scores: (B, T, C).
            tags: (B, T) int64; any value in padding.
            mask: (B, T) bool, True = real; rows are padded on the right and have at least one word.
            edges: (B,) bool each: whether the row begins, and whether it ends, a sentence. Elsewhere the weights of first
                and last tags are left out. None: each row is a sentence.
        """
        scores = _wide(scores)
        follows, begins, ends = self._weights(scores)
        if edges is not None:
            begins, ends = (edge[:, None] * weights for edge, weights in zip(edges, (begins, ends)))
        begins, ends = begins.expand_as(scores[:, 0]), ends.expand_as(scores[:, 0])
        return _path(scores, tags, mask, follows, begins, ends) - _all_paths(scores, mask, follows, begins, ends)

    @torch.no_grad()
    def decode(self, scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best path of each row, by the Viterbi algorithm: tags (B, T) int64, 0 in padding, and score (B,)."""
        scores = _wide(scores)
        follows, begins, ends = self._weights(scores)
        T = scores.shape[1]
        best = begins + scores[:, 0]  # (B, C), of the paths that end in each tag
        backpointers = []
        for t in range(1, T):
            longer, previous = (best[:, :, None] + follows).max(dim=1)
            best = torch.where(mask[:, t, None], longer + scores[:, t], best)
            backpointers.append(previous)
        score, tag = (best + ends).max(dim=1)
        tags = torch.zeros(mask.shape, dtype=torch.int64, device=scores.device)
        for t in range(T - 1, -1, -1):
            tags[:, t] = torch.where(mask[:, t], tag, tags[:, t])
            if t:
                previous = backpointers[t - 1].gather(1, tag[:, None]).squeeze(1)
                tag = torch.where(mask[:, t], previous, tag)
        return tags, score

    def _weights(self, scores: Tensor) -> list[Tensor]:
        """Weights of transitions, first and last tags, in the type of the scores; very low where forbidden."""
        weights = []
        for name in _PARTS:
            weight, allowed = getattr(self, name).to(scores.dtype), getattr(self, f"allowed_{name}")
            weights.append(weight if allowed is None else weight.masked_fill(~allowed, _FORBIDDEN))
        return weights


def _wide(scores: Tensor) -> Tensor:
    """The scores in at least 32 bits."""
    return scores if scores.dtype == torch.float64 else scores.float()


def _path(scores: Tensor, tags: Tensor, mask: Tensor, follows: Tensor, begins: Tensor, ends: Tensor) -> Tensor:
    """The score of the path `tags` in each row: (B,). `begins` and `ends`: (B, C)."""
    tags = tags.masked_fill(~mask, 0)
    own = scores.gather(2, tags[:, :, None]).squeeze(2) * mask
    between = follows[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]
    last = tags.gather(1, mask.sum(dim=1, keepdim=True) - 1)
    edges = begins.gather(1, tags[:, :1]) + ends.gather(1, last)
    return edges.squeeze(1) + own.sum(dim=1) + between.sum(dim=1)


def _all_paths(scores: Tensor, mask: Tensor, follows: Tensor, begins: Tensor, ends: Tensor) -> Tensor:
    """log of the sum of exp(score) over all paths of each row: (B,)."""
    total = begins + scores[:, 0]  # (B, C), over the paths that end in each tag
    for t in range(1, scores.shape[1]):
        longer = torch.logsumexp(total[:, :, None] + follows, dim=1) + scores[:, t]
        total = torch.where(mask[:, t, None], longer, total)
    return torch.logsumexp(total + ends, dim=1)
