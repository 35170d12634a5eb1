"""Linear interpolation of language models of any kind: at each position, the weighted mean of their distributions.

Jelinek & Mercer 1980. The parts may have vocabularies of their own, see `alignment`; the mixture has that of the first.
Shapes: B batch, T length, D hidden, N positions, V vocabulary, K parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nlptools.layers.output import OutputHead
from nlptools.models.contract import LanguageModel
from nlptools.models.language.alignment import Alignment
from nlptools.models.language.ngram import NGrams
from nlptools.models.language.ngram_decoder import Context, NGramDecoder

# the log-probabilities (N,) of tokens, given a head, the hidden states (N, D) and the tokens (N,)
Measure = Callable[[OutputHead, Tensor, Tensor], Tensor]

LARGEST = 1 << 24  # words of an n-gram model, whose ids have to be exact in float32
_ROWS = 64  # whole distributions that are computed at a time
_NATS = math.log(10)


class NGramContexts(NGramDecoder):
    """An n-gram model whose hidden states are the words before each position, (B, T, n - 1); -1 where there is none.

    The table is looked up by the output head, for the positions and words that are asked for.
    """

    def __init__(self, model: NGrams, eos: int) -> None:
        super().__init__(model, eos)
        self.output = NGramHead(model)  # type: ignore[assignment]

    def forward(self, ids: Tensor, state: Any = None, mask: Tensor | None = None) -> tuple[Tensor, Any]:
        """See `contract.LanguageModel`."""
        words = (self.start(len(ids), 0) if state is None else state).words
        real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        width = max(1, self.model.order - 1)
        hidden = np.full((*ids.shape, width), -1, np.float32)
        contexts = []
        for b, (before, row, kept) in enumerate(zip(words, ids.tolist(), real.tolist(), strict=True)):
            for t, (word, is_real) in enumerate(zip(row, kept, strict=True)):
                before = self._after(before, word) if is_real else before
                if before:
                    hidden[b, t, -len(before) :] = before
            contexts.append(before)
        return torch.from_numpy(hidden).to(ids.device), None if state is None else Context(tuple(contexts))

    def __deepcopy__(self, memo: dict[int, Any]) -> NGramContexts:
        """The same object: it never changes, and may be large."""
        return self


class NGramHead:
    """The distributions after the words that `NGramContexts` has as hidden states."""

    def __init__(self, model: NGrams) -> None:
        self.model, self.vocab_size = model, model.vocab_size

    def logits(self, hidden: Tensor) -> Tensor:
        """See `OutputHead`; log-probabilities."""
        flat = hidden.detach().reshape(-1, hidden.shape[-1]).cpu().numpy()
        rows, places = np.unique(flat, axis=0, return_inverse=True)
        tables = np.array([self.model.next_words(_words(row)) for row in rows], np.float32)
        tables = tables.reshape(len(rows), self.vocab_size)[places.reshape(-1)]
        out = torch.from_numpy(tables * np.float32(_NATS)).view(*hidden.shape[:-1], self.vocab_size)
        return out.to(hidden.device, hidden.dtype)

    def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `OutputHead`."""
        contexts, targets = hidden_ND.detach().cpu().numpy().astype(np.int64), targets_N.cpu().numpy()
        bos = self.model.config.bos
        # <s> cuts off what is before it; other contexts that are not full could be continued by the row before
        full = (contexts != -1).all(1) | (contexts == bos).any(1) | (self.model.order == 1)
        rows = np.concatenate([np.where(contexts == -1, bos, contexts), targets[:, None]], 1)
        out = self.model.score(rows.reshape(-1)).log_probs.reshape(rows.shape)[:, -1].copy()
        for row in np.flatnonzero(~full | (targets == bos)):
            out[row] = self.model.next_words(_words(contexts[row]))[targets[row]]
        return torch.from_numpy(out * np.float32(_NATS)).to(hidden_ND.device)

    def summed_loss(self, hidden_ND: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """See `OutputHead`."""
        return _summed_loss(self, hidden_ND, targets_N, smoothing)


def _words(context: np.ndarray) -> list[int]:
    return [int(word) for word in context if word >= 0]


class AlignedHead(nn.Module):
    """The head of a part, over the tokens of the main model."""

    ids: Tensor  # (V,)
    sharing: Tensor  # (V,)
    others: Tensor  # (X,)

    def __init__(self, head: OutputHead, alignment: Alignment) -> None:
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

    def summed_loss(self, hidden_ND: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """See `OutputHead`."""
        return _summed_loss(self, hidden_ND, targets_N, smoothing)

    @staticmethod
    def _shares(counts: Tensor) -> Tensor:
        """What to subtract for so many tokens that share a probability; infinite for 0, which have none."""
        return torch.where(counts > 0, counts.clamp(min=1).float().log(), torch.inf)


class MixtureHead(nn.Module):
    """The weighted mean of distributions. A hidden state is that of all parts side by side, float32."""

    def __init__(
        self, heads: Sequence[AlignedHead], widths: Sequence[int], dtype: Sequence[torch.dtype | None]
    ) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)
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
            head: Any = self.heads[k]
            measure = None if measures is None else measures.get(k)
            own = head.log_probabilities(hidden, targets_N) if measure is None else measure(head, hidden, targets_N)
            columns.append(own)
        return torch.stack(columns, 1)

    def interpolated(self, parts_NK: Tensor) -> Tensor:
        """(N, K) log-probabilities by the parts -> (N,) those of the mixture."""
        return (parts_NK + torch.tensor(self.weights, device=parts_NK.device).log()).logsumexp(1)

    def logits(self, hidden: Tensor) -> Tensor:
        """See `OutputHead`; log-probabilities."""
        out: Tensor | None = None
        for head, own, weight in zip(self.heads, self.split(hidden), self.weights, strict=True):
            if weight > 0:
                part = head.logits(own) + math.log(weight)  # type: ignore[operator]
                out = part if out is None else torch.logaddexp(out, part)
        assert out is not None
        return out

    def log_probabilities(self, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
        """See `OutputHead`."""
        return self.interpolated(self.part_log_probabilities(hidden_ND, targets_N))

    def summed_loss(self, hidden_ND: Tensor, targets_N: Tensor, *, smoothing: float = 0.0) -> Tensor:
        """See `OutputHead`."""
        return _summed_loss(self, hidden_ND, targets_N, smoothing)


def _summed_loss(head: Any, hidden_ND: Tensor, targets_N: Tensor, smoothing: float) -> Tensor:
    """`OutputHead.summed_loss` of a head whose logits are log-probabilities."""
    kept = targets_N >= 0
    hidden_ND, targets_N = hidden_ND[kept], targets_N[kept]
    loss: Tensor = -(1 - smoothing) * head.log_probabilities(hidden_ND, targets_N).sum()
    return loss - smoothing * head.logits(hidden_ND).mean(1).sum() if smoothing else loss


@dataclass(frozen=True)
class MixtureConfig:
    """Sizes of a mixture."""

    vocab_size: int
    hidden_size: int  # of all parts side by side
    num_hidden_layers: int


class MixtureState(NamedTuple):
    """The states of the parts."""

    parts: tuple[Any, ...]

    def select(self, rows: Tensor, width: int = 1) -> MixtureState:
        """See `contract.State`."""
        return MixtureState(tuple(part.select(rows, width) for part in self.parts))


class Mixture(nn.Module):
    """See the module's docstring; offers what scoring and decoding ask of a `contract.LanguageModel`.

    Args:
        parts: the models, the first of them the main one; of n-grams as `NGramContexts`.
        alignments: one for each.
        weights: one for each; their sum is 1.
    """

    def __init__(
        self, parts: Sequence[LanguageModel], alignments: Sequence[Alignment], weights: Sequence[float]
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)  # type: ignore[arg-type]
        contexts = [part.max_context for part in parts if part.max_context is not None]
        self.max_context = min(contexts, default=None)
        # parts with a state carry it over texts of any length; else all see the same windows
        self.streams = self.max_context is None
        neural = [part for part in parts if not isinstance(part, NGramContexts)]
        self.neural = [not isinstance(part, NGramContexts) for part in parts]
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
            own, its_state = part(self.output.heads[k].ids[ids], its_state, mask)  # type: ignore[index]
            self.output.dtypes[k] = own.dtype
            hidden.append(own.float())
            after.append(its_state)
        return torch.cat(hidden, -1), None if state is None else MixtureState(tuple(after))


def _width(part: LanguageModel) -> int:
    """The size of the hidden states that a part's head reads."""
    if isinstance(part, NGramContexts):
        return max(1, part.model.order - 1)
    hidden, _ = part(torch.zeros(1, 1, dtype=torch.long))
    return int(hidden.shape[-1])
