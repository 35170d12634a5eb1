"""Facts about next-token distributions of neural models.

Shapes: N positions, D hidden, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nlptools.compute.kernels.cross_entropy import log_sum_exp, row_sums
from nlptools.inference.words import BOUNDARY, COLUMNS, ENTROPY, IMPOSSIBLE, LOG_PROBABILITY, RANK, Wanted
from nlptools.layers.output import OutputHead

_CHUNK = 1 << 22  # logits that are computed at a time
_LEAST = torch.finfo(torch.float32).min  # not infinite: the difference of two infinite numbers is none


class TokenDetails:
    """What `words.Wanted` asks for, on one device."""

    def __init__(self, wanted: Wanted, device: torch.device) -> None:
        self.wanted = wanted
        self.begins = None if wanted.begins is None else torch.from_numpy(wanted.begins).to(device)

    def __call__(self, head: OutputHead, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """The columns of `words.Details` (N, 4), float32, of target tokens and the distributions they are drawn from."""
        out = torch.zeros(len(hidden_ND), COLUMNS, device=hidden_ND.device)
        if not self.wanted.whole:
            out[:, LOG_PROBABILITY] = head.log_probabilities(hidden_ND, targets_N)
            return out
        size = max(1, _CHUNK // head.vocab_size)
        for start in range(0, len(hidden_ND), size):
            rows = slice(start, start + size)
            self._fill(out[rows], head.logits(hidden_ND[rows]).float(), targets_N[rows, None])
        return out

    def _fill(self, out: Tensor, logits_NV: Tensor, targets_N1: Tensor) -> None:
        chosen = logits_NV.gather(1, targets_N1)
        total = log_sum_exp(logits_NV)
        out[:, LOG_PROBABILITY] = (chosen - total)[:, 0]
        if self.wanted.rank:
            out[:, RANK] = 1.0 + (logits_NV > chosen).sum(1)
        if self.wanted.entropy:
            out[:, ENTROPY] = row_sums(torch.special.entr((logits_NV - total).exp()))[:, 0]
        if self.begins is not None:
            ends = log_sum_exp(logits_NV.masked_fill(~self.begins, _LEAST)) - total
            out[:, BOUNDARY] = ends[:, 0].clamp(min=IMPOSSIBLE)
