"""N-gram models as PyTorch modules, so that `generate` decodes them like all others."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nlptools.layers.output import LogProbabilities
from nlptools.models.language.ngram import NGrams


class Context(NamedTuple):
    """The last words of each row."""

    words: tuple[tuple[int, ...], ...]  # B rows

    def select(self, rows: Tensor, width: int = 1) -> Context:
        """See `contract.State`."""
        return Context(tuple(self.words[row] for row in rows.tolist()))


class NGramDecoder(nn.Module):
    """See `contract.LanguageModel`; the hidden states are log-probabilities (B, T, V) in nats, on the CPU.

    The token `eos` stands for <s> where it comes before a text.
    """

    max_context, runs_in_16_bits, streams = None, False, False

    def __init__(self, model: NGrams, eos: int) -> None:
        super().__init__()
        self.model, self.eos, self.config = model, eos, model.config
        self.output = LogProbabilities(model.vocab_size)

    def start(self, batch_size: int, capacity: int) -> Context:
        """See `contract.LanguageModel`."""
        return Context(((),) * batch_size)

    def forward(self, ids: Tensor, state: Any = None, mask: Tensor | None = None) -> tuple[Tensor, Any]:
        """See `contract.LanguageModel`."""
        words = (self.start(len(ids), 0) if state is None else state).words
        real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
        rows, contexts = [], []
        for before, row, kept in zip(words, ids.tolist(), real.tolist(), strict=True):
            out = []
            for word, is_real in zip(row, kept, strict=True):
                before = self._after(before, word) if is_real else before
                out.append(torch.from_numpy(self.model.next_words(before)))
            rows.append(torch.stack(out))
            contexts.append(before)
        hidden = torch.stack(rows).to(ids.device) * torch.log(torch.tensor(10.0))
        return hidden, None if state is None else Context(tuple(contexts))

    def _after(self, before: tuple[int, ...], word: int) -> tuple[int, ...]:
        """The context after a word; one sentence ends and another begins at `eos`."""
        if word == self.eos:
            return (self.config.bos,)
        reach = self.model.order - 1
        return (*before, word)[-reach:] if reach else ()
