"""Adaptive softmax: an output head with a cost that hardly grows with the vocabulary."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from nlptools.layers.cross_entropy import log_probabilities, summed_cross_entropy
from nlptools.layers.output import OutputHeadDefaults

_DIVISOR = 4  # each cluster is this many times narrower than the one before
_CHUNK_ELEMENTS = 1 << 24  # log-probabilities of all tokens that are held at a time


class AdaptiveSoftmax(OutputHeadDefaults, nn.Module):
    """A softmax over the frequent tokens and one class for each cluster of rarer ones. Each cluster has another softmax.

    Grave et al. 2017, "Efficient softmax approximation for GPUs" (arXiv:1609.04309). Fulfils `output.OutputHead`. Tokens are
    expected in the order of their frequency. Parameters have the names and shapes of PyTorch's
    `nn.AdaptiveLogSoftmaxWithLoss` with `div_value=4, head_bias=True`; here, losses never hold all logits at once.
    """

    def __init__(self, hidden_size: int, vocab_size: int, cutoffs: tuple[int, ...]) -> None:
        """
        Args:
            cutoffs: the first token of each cluster, ascending, from 1 to V - 1.
        """
        super().__init__()
        self.vocab_size = vocab_size
        self.bounds = list(pairwise((*cutoffs, vocab_size)))  # first token of each cluster, and the one after its last
        self.head = nn.Linear(hidden_size, cutoffs[0] + len(cutoffs))
        self.tail = nn.ModuleList()
        for i, (first, end) in enumerate(self.bounds):
            width = max(1, hidden_size // _DIVISOR ** (i + 1))
            maps = nn.Linear(hidden_size, width, bias=False), nn.Linear(width, end - first, bias=False)
            self.tail.append(nn.Sequential(*maps))

    def logits(self, hidden: Tensor) -> Tensor:
        """See `output.OutputHead`; they are log-probabilities."""
        head = self.head(hidden).float().log_softmax(-1)
        first = self.bounds[0][0]
        parts = [head[..., :first]]
        for i, cluster in enumerate(self.tail):
            parts.append(cluster(hidden).float().log_softmax(-1) + head[..., first + i, None])
        return torch.cat(parts, -1).to(hidden.dtype)

    def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `output.OutputHead`."""
        classes = self._classes(targets_N)
        out = log_probabilities(hidden_ND, self.head.weight, classes, self.head.out_features, self.head.bias)
        for (first, _), rows, (down, up) in self._members(targets_N):
            out[rows] += log_probabilities(down(hidden_ND[rows]), up.weight, targets_N[rows] - first, up.out_features)
        return out

    def summed_loss(self, hidden_ND: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """See `output.OutputHead`. With `smoothing`, the probabilities of all tokens are computed, chunk by chunk."""
        kept = targets_N >= 0
        if not bool(kept.all()):
            hidden_ND, targets_N = hidden_ND[kept], targets_N[kept]
        size, bias = self.head.out_features, self.head.bias
        loss = summed_cross_entropy(hidden_ND, self.head.weight, self._classes(targets_N), size, bias_V=bias)
        for (first, _), rows, (down, up) in self._members(targets_N):
            loss = loss + summed_cross_entropy(
                down(hidden_ND[rows]), up.weight, targets_N[rows] - first, up.out_features
            )
        if not smoothing:
            return loss
        loss = (1 - smoothing) * loss
        for hidden in torch.split(hidden_ND, max(1, _CHUNK_ELEMENTS // self.vocab_size)):
            loss = loss - smoothing * self.logits(hidden).float().mean(1).sum()
        return loss

    def _classes(self, targets_N: Tensor) -> Tensor:
        """The class of each token in the head: itself, or its cluster."""
        first = self.bounds[0][0]
        starts = torch.tensor([start for start, _ in self.bounds], device=targets_N.device)
        cluster = torch.bucketize(targets_N, starts, right=True) - 1
        return torch.where(cluster < 0, targets_N, first + cluster)

    def _members(self, targets_N: Tensor) -> list[tuple[tuple[int, int], Tensor, tuple[nn.Linear, nn.Linear]]]:
        """For each cluster: its bounds, the rows with its tokens, its two maps."""
        out = []
        for (first, end), maps in zip(self.bounds, self.tail, strict=True):
            rows = ((targets_N >= first) & (targets_N < end)).nonzero().squeeze(1)
            out.append(((first, end), rows, (maps[0], maps[1])))  # type: ignore[index]
        return out
