"""N-gram models as PyTorch modules, so that `generate` decodes them like all others, and mixtures have them as parts.

Shapes: B batch, T length, n order, N positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from nlptools.layers.output import OutputHeadDefaults
from nlptools.models.contract import LanguageModelDefaults
from nlptools.models.language.ngram import NGrams

_NATS = math.log(10)  # of a log10


class Context(NamedTuple):
    """The last words of each row."""

    words: tuple[tuple[int, ...], ...]  # B rows

    def select(self, rows: Tensor, width: int = 1) -> Context:
        """See `contract.State`."""
        return Context(tuple(self.words[row] for row in rows.tolist()))

    def join(self, others: Sequence[Context]) -> Context:
        """See `contract.LanguageState`."""
        return Context(tuple(words for state in (self, *others) for words in state.words))

    def detach(self) -> Context:
        """The same words, which no gradient goes through."""
        return self


class NGramDecoder(LanguageModelDefaults, nn.Module):
    """See `contract.LanguageModel`; the hidden states are the words before each position, (B, T, n - 1), -1 where there is none.

    The output head looks up the tables, for the positions and words that are asked for. The token `eos` stands for <s> where
    it comes before a text. Hidden states are in float64, in which ids are exact.
    """

    max_context, runs_in_16_bits, streams, neural = None, False, False, False

    def __init__(self, model: NGrams, eos: int) -> None:
        super().__init__()
        self.model, self.eos, self.config = model, eos, model.config
        self.output = NGramHead(model)

    def start(self, batch_size: int, capacity: int) -> Context:
        """See `contract.LanguageModel`."""
        return Context(((),) * batch_size)

    def forward(
        self, ids: Tensor, state: Context | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Context | None]:
        """See `contract.LanguageModel`."""
        words = (self.start(len(ids), 0) if state is None else state).words
        real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        width = max(1, self.model.order - 1)
        hidden = np.full((*ids.shape, width), -1, np.float64)
        contexts = []
        for b, (before, row, kept) in enumerate(zip(words, ids.tolist(), real.tolist(), strict=True)):
            for t, (word, is_real) in enumerate(zip(row, kept, strict=True)):
                before = self._after(before, word) if is_real else before
                if before:
                    hidden[b, t, -len(before) :] = before
            contexts.append(before)
        return torch.from_numpy(hidden).to(ids.device), None if state is None else Context(tuple(contexts))

    def __deepcopy__(self, memo: dict[int, object]) -> NGramDecoder:
        """The same object: it never changes, and may be large."""
        return self

    def _after(self, before: tuple[int, ...], word: int) -> tuple[int, ...]:
        """The context after a word; one sentence ends and another begins at `eos`."""
        if word == self.eos:
            return (self.config.bos,)
        reach = self.model.order - 1
        return (*before, word)[-reach:] if reach else ()


class NGramHead(OutputHeadDefaults):
    """The distributions after the words that `NGramDecoder` has as hidden states."""

    def __init__(self, model: NGrams) -> None:
        self.model, self.vocab_size = model, model.vocab_size

    def logits(self, hidden: Tensor) -> Tensor:
        """See `OutputHead`; log-probabilities, float32."""
        flat = hidden.detach().reshape(-1, hidden.shape[-1]).cpu().numpy()
        rows, places = np.unique(flat, axis=0, return_inverse=True)
        tables = np.array([self.model.next_words(_words(row)) for row in rows], np.float32)
        tables = tables.reshape(len(rows), self.vocab_size)[places.reshape(-1)]
        out = torch.from_numpy(tables * np.float32(_NATS)).view(*hidden.shape[:-1], self.vocab_size)
        return out.to(hidden.device)

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


def _words(context: np.ndarray) -> list[int]:
    return [int(word) for word in context if word >= 0]
