"""Linear interpolation of language models of any kind: at each position, the weighted mean of their distributions.

Jelinek & Mercer 1980. The parts may have different vocabularies, see `alignment`; the mixture has the vocabulary of the first.
Shapes: B batch, T length, D hidden, N positions, V vocabulary, K parts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nlptools.layers.module_lists import Modules
from nlptools.layers.output import Measure, OutputHead, OutputHeadDefaults
from nlptools.models.contract import CarriedState, LanguageModel, LanguageModelDefaults
from nlptools.models.language.alignment import TokenAlignment

LARGEST = 1 << 24  # words of an n-gram model: ids have to be exact in float32
_ROWS = 64  # whole distributions that are computed at a time


class AlignedHead(OutputHeadDefaults, nn.Module):
    """The head of a part, over the tokens of the main model."""

    ids: Tensor  # (V,)
    sharing: Tensor  # (V,)
    others: Tensor  # (X,)

    def __init__(self, head: OutputHead, alignment: TokenAlignment) -> None:
        super().__init__()
        self.head, self.unknown = [head], alignment.unknown  # in a list: the head's modules belong to the model
        self.vocab_size = len(alignment.ids)
        # whole numbers, which keep their type in 16 bits
        self.register_buffer("ids", torch.from_numpy(alignment.ids), persistent=False)
        self.register_buffer("sharing", torch.from_numpy(alignment.sharing), persistent=False)
        self.register_buffer("others", torch.from_numpy(alignment.others), persistent=False)
        self.plain = alignment.same and bool((alignment.ids == np.arange(self.vocab_size)).all())

    def logits(self, hidden: Tensor) -> Tensor:
        """See `OutputHead`; log-probabilities, float32."""
        own = self.head[0].logits(hidden).float().log_softmax(-1)
        if self.plain:
            return own
        out = own[..., self.ids] - self._shares(self.sharing)
        if self.unknown is not None and len(self.others):
            out[..., self.unknown] = torch.logaddexp(out[..., self.unknown], own[..., self.others].logsumexp(-1))
        return out

    def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `OutputHead`."""
        out = self.head[0].log_probabilities(hidden_ND, self.ids[targets_N])
        if self.plain:
            return out
        out = out - self._shares(self.sharing[targets_N])
        if self.unknown is not None and len(self.others):
            places = (targets_N == self.unknown).nonzero().squeeze(1)
            for rows in torch.split(places, _ROWS):
                own = self.head[0].logits(hidden_ND[rows]).float().log_softmax(-1)
                out = out.index_put((rows,), torch.logaddexp(out[rows], own[:, self.others].logsumexp(-1)))
        return out

    @staticmethod
    def _shares(counts: Tensor) -> Tensor:
        """What to subtract for so many tokens that share a probability; infinite for 0, which have none."""
        return torch.where(counts > 0, counts.clamp(min=1).float().log(), torch.inf)


class MixtureHead(OutputHeadDefaults, nn.Module):
    """The weighted mean of distributions. A hidden state is the concatenation of the hidden states of all parts, float32."""

    def __init__(
        self, heads: Sequence[AlignedHead], widths: Sequence[int], dtype: Sequence[torch.dtype | None]
    ) -> None:
        super().__init__()
        self.heads = Modules(heads)
        self.widths, self.dtypes = list(widths), list(dtype)
        self.vocab_size = heads[0].vocab_size
        self.weights = [1 / len(heads)] * len(heads)

    def split(self, hidden: Tensor) -> list[Tensor]:
        """The hidden states of the parts, each in its own type."""
        pieces = torch.split(hidden, self.widths, -1)
        return [p if dtype is None else p.to(dtype) for p, dtype in zip(pieces, self.dtypes, strict=True)]

    def part_log_probabilities(
        self, hidden_ND: Tensor, targets_N: Tensor, measures: Mapping[int, Measure] | None = None
    ) -> Tensor:
        """(N, K), float32, in nats: the log-probability of one token for each row, by each part, or by what `measures` has in
        place of a part.
        """
        columns = []
        for k, hidden in enumerate(self.split(hidden_ND)):
            head = self.heads[k]
            measure = None if measures is None else measures.get(k)
            own = head.log_probabilities(hidden, targets_N) if measure is None else measure(head, hidden, targets_N)
            columns.append(own)
        return torch.stack(columns, 1)

    def interpolated(self, parts_NK: Tensor) -> Tensor:
        """(N, K) log-probabilities by the parts -> (N,) by the mixture."""
        return (parts_NK + torch.tensor(self.weights, device=parts_NK.device).log()).logsumexp(1)

    def logits(self, hidden: Tensor) -> Tensor:
        """See `OutputHead`; log-probabilities."""
        out: Tensor | None = None
        for head, own, weight in zip(self.heads, self.split(hidden), self.weights, strict=True):
            if weight > 0:
                part = head.logits(own) + math.log(weight)
                out = part if out is None else torch.logaddexp(out, part)
        assert out is not None
        return out

    def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `OutputHead`."""
        return self.interpolated(self.part_log_probabilities(hidden_ND, targets_N))


@dataclass(frozen=True)
class MixtureConfig:
    """Sizes of a mixture."""

    vocab_size: int
    hidden_size: int  # of all parts side by side
    num_hidden_layers: int


class MixtureState(NamedTuple):
    """The states of the parts."""

    parts: tuple[CarriedState, ...]

    def select(self, rows: Tensor, width: int = 1) -> MixtureState:
        """See `contract.State`."""
        return MixtureState(tuple(part.select(rows, width) for part in self.parts))

    def join(self, others: Sequence[MixtureState]) -> MixtureState:
        """See `contract.LanguageState`."""
        return MixtureState(
            tuple(part.join(more) for part, *more in zip(self.parts, *(o.parts for o in others), strict=True))
        )

    def detach(self) -> MixtureState:
        """The same states, cut off from their graphs."""
        return MixtureState(tuple(part.detach() for part in self.parts))


class Mixture(LanguageModelDefaults, nn.Module):
    """See the module's docstring; offers what scoring and decoding ask of a `contract.LanguageModel`.

    Args:
        parts: the models, the first of them the main one; of n-grams as `NGramDecoder`.
        alignments: one for each.
        weights: one for each; their sum is 1.
    """

    def __init__(
        self, parts: Sequence[LanguageModel], alignments: Sequence[TokenAlignment], weights: Sequence[float]
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)  # type: ignore[arg-type]
        contexts = [part.max_context for part in parts if part.max_context is not None]
        self.max_context = min(contexts, default=None)
        # parts with a state carry it over texts of any length; else all see the same windows
        self.streams = self.max_context is None
        self.neural_parts = [part.neural for part in parts]
        neural = [part for part in parts if part.neural]
        self.runs_in_16_bits = all(part.runs_in_16_bits for part in neural)
        widths = [_width(part) for part in parts]
        layers = max((part.config.num_hidden_layers for part in neural), default=0)
        self.config = MixtureConfig(len(alignments[0].ids), sum(widths), layers)
        heads = [AlignedHead(part.output, each) for part, each in zip(parts, alignments, strict=True)]
        self.output = MixtureHead(heads, widths, [None] * len(parts))
        self.set_weights(weights)

    def set_weights(self, weights: Sequence[float]) -> None:
        """Replace the weights."""
        self.output.weights = list(weights)

    def start(self, batch_size: int, capacity: int) -> MixtureState:
        """See `contract.LanguageModel`."""
        return MixtureState(tuple(part.start(batch_size, capacity) for part in self.parts))  # type: ignore[operator]

    def forward(
        self, ids: Tensor, state: MixtureState | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, MixtureState | None]:
        """See `contract.LanguageModel`."""
        before = (None,) * len(self.parts) if state is None else state.parts
        hidden, after = [], []
        for k, (part, its_state) in enumerate(zip(self.parts, before, strict=True)):
            own, its_state = part(self.output.heads[k].ids[ids], its_state, mask)
            self.output.dtypes[k] = own.dtype
            hidden.append(own.float())
            after.append(its_state)
        return torch.cat(hidden, -1), None if state is None else MixtureState(tuple(after))


def _width(part: LanguageModel) -> int:
    """The size of the hidden states that a part's head reads."""
    hidden, _ = part(torch.zeros(1, 1, dtype=torch.long))
    return int(hidden.shape[-1])
