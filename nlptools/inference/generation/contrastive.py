"""Contrastive search: prefers likely tokens with hidden states that differ from the states of all tokens before them.

Su et al. 2022, "A contrastive framework for neural text generation" (arXiv:2202.06417), equation 5. Of the k likeliest tokens v
(`--top-k`), the one with the highest (1 - alpha) p(v | x) - alpha max_j cos(h_v, h_j) is next, where h_v is the last hidden state
when v follows the text x, and h_j are the states of the tokens of x. The candidates of a row are computed in one step of the
model, as the hypotheses of a beam, and the state goes on from the chosen one: no token is computed twice.
Departures: of a row that has outgrown the model's context, x is the window that the model sees (`SlidingWindow`); a token with
probability zero, because a rule forbids it, is never chosen.
Shapes: B rows of the batch, N rows that have not finished, K candidates, S tokens of the longest row, D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from nlptools.errors import UsageError
from nlptools.inference.generation.continuation import Continuation, next_logits, read_hidden
from nlptools.inference.generation.samples import Samples
from nlptools.models.contract import LanguageModel, LanguageState
from nlptools.models.language.mixture import MixtureHead
from nlptools.models.language.ngram_decoder import NGramHead


class HiddenHistory:
    """The hidden states of the tokens of each row, at length 1: (B, S or more, D) float32, padded on the right."""

    def __init__(self, vectors: Tensor, lengths: Tensor) -> None:
        self.vectors, self.lengths = vectors, lengths  # lengths (B,): tokens of each row

    @classmethod
    def of(cls, hidden: Tensor, lengths: Sequence[int]) -> HiddenHistory:
        """Those of hidden states (B, T, D) that are padded on the left."""
        T = hidden.shape[1]
        vectors = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
        for row, length in enumerate(lengths):
            vectors[row, :length] = unit(hidden[row, T - length :])
        return cls(vectors, torch.tensor(lengths, device=hidden.device))

    @classmethod
    def joined(cls, parts: Sequence[HiddenHistory]) -> HiddenHistory:
        """The rows of several, one after the other."""
        longest = max(part.vectors.shape[1] for part in parts)
        vectors = [F.pad(part.vectors, (0, 0, 0, longest - part.vectors.shape[1])) for part in parts]
        return cls(torch.cat(vectors), torch.cat([part.lengths for part in parts]))

    def select(self, rows: Tensor) -> HiddenHistory:
        """A choice of the rows."""
        return HiddenHistory(self.vectors[rows], self.lengths[rows])

    def nearest(self, candidates: Tensor) -> Tensor:
        """The highest cosine of each of the candidates (B, K, D), of length 1, with a token of its row: (B, K)."""
        longest = int(self.lengths.max())
        cosines = candidates @ self.vectors[:, :longest].transpose(1, 2)  # (B, K, S)
        padding = torch.arange(longest, device=cosines.device) >= self.lengths[:, None]
        return cosines.masked_fill_(padding[:, None], -torch.inf).amax(-1)

    def append(self, chosen: Tensor) -> None:
        """Add a token, (B, D) of length 1, to each row."""
        capacity = self.vectors.shape[1]
        if int(self.lengths.max()) == capacity:
            self.vectors = F.pad(self.vectors, (0, 0, 0, capacity))
        self.vectors[torch.arange(len(chosen), device=chosen.device), self.lengths] = chosen
        self.lengths = self.lengths + 1


class ContrastiveSearch(Samples):
    """`Samples` that choose the next tokens by contrastive search. Each row has one sample."""

    parents: Tensor  # (B,) the row of the state that each row goes on from
    hidden: Tensor | None = None  # (B, 1, D) of the last token of each row
    past: HiddenHistory | None = None
    opened: list[HiddenHistory]  # of rows that have been read, and join the batch

    def run(self, model: LanguageModel, room: int) -> list[Continuation]:
        """See `Samples`. Raises UsageError for a model without hidden states that could be compared."""
        if isinstance(model.output, MixtureHead | NGramHead):
            raise UsageError("--contrastive needs hidden states, which n-gram models and mixtures do not have")
        return super().run(model, room)

    def _pick(self, logits: Tensor, rows: list[int]) -> Tensor:
        """See `Samples`; the candidates of all rows go through the model together."""
        assert self.past is not None and self.state is not None and self.settings.contrastive is not None
        alpha, B, device = self.settings.contrastive, len(self.rows), self.backend.device
        probabilities, candidates = torch.softmax(logits, -1).topk(min(self.settings.top_k, logits.shape[1]))
        K = candidates.shape[1]
        tokens = torch.zeros(B, K, dtype=torch.int64, device=device)  # any tokens for rows that have finished
        tokens[self.live] = candidates
        state = self.state.select(self.parents.repeat_interleave(K), K)
        hidden, self.state = self.model(tokens.view(-1, 1), state)
        units = unit(hidden.view(B, K, -1))
        scores = (1 - alpha) * probabilities - alpha * self.past.nearest(units)[self.live]
        best = scores.masked_fill_(probabilities == 0, -torch.inf).argmax(-1)  # (N,)
        places = torch.zeros(B, dtype=torch.int64, device=device)
        places[self.live] = best
        self.parents = torch.arange(B, device=device) * K + places
        self.hidden = hidden[self.parents]
        self.past.append(units.view(B * K, -1)[self.parents])
        return candidates.gather(1, best[:, None]).squeeze(1)

    def _advance(self, chosen: dict[int, int]) -> None:
        """See `Samples`; the model has read the chosen tokens already."""
        if not self.live:
            self.rows, self.state, self.logits = [], None, None
            return
        assert self.past is not None and self.hidden is not None
        if self._compacts():
            kept = torch.tensor(self.live, device=self.backend.device)
            self.parents, self.hidden, self.past = self.parents[kept], self.hidden[kept], self.past.select(kept)
            self.rows, self.live = [self.rows[place] for place in self.live], list(range(len(kept)))
        self.logits = next_logits(self.model, self.hidden)

    def _join(self, model: LanguageModel, inputs: list[int], moved: dict[int, list[int]], room: int) -> None:
        """See `Samples`."""
        if not inputs and not moved:
            return
        self.opened = []
        if self.rows:
            assert self.past is not None and self.state is not None
            self.state, self.opened = self.state.select(self.parents), [self.past]
        super()._join(model, inputs, moved, room)
        self.past, self.parents = (
            HiddenHistory.joined(self.opened),
            torch.arange(len(self.rows), device=self.backend.device),
        )

    def _read(self, model: LanguageModel, rows: list[list[int]], room: int) -> tuple[Tensor, LanguageState]:
        """See `Samples`."""
        hidden, state = read_hidden(model, rows, room, self.backend)
        self.opened.append(HiddenHistory.of(hidden, [len(row) for row in rows]))
        return next_logits(model, hidden), state


def unit(vectors: Tensor) -> Tensor:
    """Vectors (..., D) at length 1, in float32."""
    return F.normalize(vectors.float(), dim=-1)
