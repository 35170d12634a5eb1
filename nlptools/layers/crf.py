"""A linear-chain conditional random field: tags of a sentence that know their neighbours.

Lafferty et al. 2001; on top of an encoder as in Lample et al. 2016 (N16-1030). The score of a path is the sum of its
tags' scores, of a weight for each pair of neighbours, and of one for the first and for the last tag; the likelihood is
that score's share among all paths, by the forward algorithm.
Departures: tags that a scheme forbids have no share, in training as in decoding, rather than in decoding only; always
in 32 bits or more, for sums over a long sentence outgrow 16.
Shapes: B batch, T words, C tags.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_BREACH = 1e4  # what breaking the scheme costs: exp of minus this is 0
_PARTS = ("follows", "begins", "ends")


class Crf(nn.Module):
    """The weights of neighbours.

    Attributes:
        follows: (C, C), [before, now]; `begins`, `ends`: (C,), of the first and of the last tag.
        allowed_follows, allowed_begins, allowed_ends: what there may be, of the same shapes, bool; None: anything.
    """

    allowed_follows: Tensor | None
    allowed_begins: Tensor | None
    allowed_ends: Tensor | None

    def __init__(
        self,
        num_tags: int,
        follows: Tensor | None = None,
        begins: Tensor | None = None,
        ends: Tensor | None = None,
    ) -> None:
        """Args:
        follows, begins, ends: (C, C), (C,) and (C,) bool, which neighbours, first and last tags there may be
            (`nlptools.tasks.tag.decoding.constraints`); None: any.
        """
        super().__init__()
        self.follows = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.begins = nn.Parameter(torch.zeros(num_tags))
        self.ends = nn.Parameter(torch.zeros(num_tags))
        # not in the weights: it is known from the names of the tags
        for name, given in zip(_PARTS, (follows, begins, ends)):
            self.register_buffer(f"allowed_{name}", None, persistent=False)
            self._allow(name, given)

    def restrict(self, follows: Tensor, begins: Tensor, ends: Tensor) -> None:
        """Let there be only these neighbours, first and last tags: (C, C), (C,) and (C,) bool."""
        for name, given in zip(_PARTS, (follows, begins, ends)):
            self._allow(name, given)

    def _allow(self, name: str, given: Tensor | None) -> None:
        weight = getattr(self, name)
        if given is not None and given.shape != weight.shape:
            raise ValueError(f"{name} is {tuple(given.shape)}, expected {tuple(weight.shape)}")
        setattr(self, f"allowed_{name}", None if given is None else given.to(weight.device, torch.bool).clone())

    def log_likelihood(
        self, scores: Tensor, tags: Tensor, mask: Tensor, edges: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """log p(tags | scores) of each row: (B,), at most 0 where the tags are allowed.

        Args:
            scores: (B, T, C).
            tags: (B, T) int64; what stands in padding does not matter.
            mask: (B, T) bool, True = real; real is each row's first word and what follows it without a gap.
            edges: whether each row begins and whether it ends a sentence, (B,) bool both; where it does not, the weights
                of first and last tags are left out. None: it does.
        """
        scores = _wide(scores)
        follows, begins, ends = self._weights(scores)
        if edges is not None:
            begins, ends = (edge[:, None] * weights for edge, weights in zip(edges, (begins, ends)))
        begins, ends = begins.expand_as(scores[:, 0]), ends.expand_as(scores[:, 0])
        return _path(scores, tags, mask, follows, begins, ends) - _all_paths(scores, mask, follows, begins, ends)

    @torch.no_grad()
    def decode(self, scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best tags of each row (B, T) int64, 0 in padding, and the score of that path (B,)."""
        scores = _wide(scores)
        follows, begins, ends = self._weights(scores)
        T = scores.shape[1]
        best = begins + scores[:, 0]  # (B, C), of the paths that end in each tag
        came = []
        for t in range(1, T):
            longer, before = (best[:, :, None] + follows).max(dim=1)
            best = torch.where(mask[:, t, None], longer + scores[:, t], best)
            came.append(before)
        value, now = (best + ends).max(dim=1)
        tags = torch.zeros(mask.shape, dtype=torch.int64, device=scores.device)
        for t in range(T - 1, -1, -1):
            tags[:, t] = torch.where(mask[:, t], now, tags[:, t])
            if t:
                before = came[t - 1].gather(1, now[:, None]).squeeze(1)
                now = torch.where(mask[:, t], before, now)
        return tags, value

    def _weights(self, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weights of neighbours, first and last tags, what is forbidden far below the rest, in the type of the scores."""
        pairs = (
            (self.follows, self.allowed_follows),
            (self.begins, self.allowed_begins),
            (self.ends, self.allowed_ends),
        )
        follows, begins, ends = (_kept_to(weight.to(scores.dtype), may) for weight, may in pairs)
        return follows, begins, ends


def _kept_to(weight: Tensor, may: Tensor | None) -> Tensor:
    """The weights, far below the rest where they may not be used."""
    return weight if may is None else weight.masked_fill(~may, -_BREACH)


def _wide(scores: Tensor) -> Tensor:
    """The scores in 32 bits at least."""
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
