"""Prompt lookup: the next tokens are copied from the text so far, and the model checks this draft in one step.

Saxena 2023, "Prompt lookup decoding"; drafts as in Leviathan et al. 2022, "Fast inference from transformers via speculative
decoding" (arXiv:2211.17192). If the last tokens of a text have occurred before, the draft is the text after their last
occurrence. The model reads the last token and the draft together. This takes little longer than a single token, because reading
the weights takes most of the time. Tokens are then chosen one after the other, as without drafts. At the first one that differs
from the draft, the state goes back. The output is therefore the same as without drafts, also for samples.

After a draft that was right the next one is twice as long, after a wrong one half as long.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, cast

import torch
from torch import Tensor

from nlptools.compute import contention
from nlptools.errors import UsageError
from nlptools.inference.generation.continuation import Continuation
from nlptools.inference.generation.samples import Samples
from nlptools.models.contract import LanguageModel, LanguageState

_LENGTHS = (3, 2)  # of the last tokens that are looked up, the first that occurred before


class RewindableState(LanguageState, Protocol):
    """The state of a language model that `rewinds`."""

    # to be set: whether a few tokens that are read together get the digits that they get one after the other
    stepwise: bool

    def forget(self, count: int) -> None:
        """Go back to the place before the last `count` tokens."""


class Repeats:
    """A text, and where each of its last tokens occurred before."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}  # tokens: the place after their last occurrence

    def extend(self, tokens: Iterable[int]) -> None:
        """Add tokens to the text."""
        for token in tokens:
            for n in _LENGTHS:
                if len(self.tokens) >= n:
                    self._after[tuple(self.tokens[-n:])] = len(self.tokens)
            self.tokens.append(token)

    def draft(self, count: int) -> list[int]:
        """What followed the last tokens where they occurred last, `count` tokens; a copy of a copy where that is the end of the
        text. Empty if they have not occurred before.
        """
        length = len(self.tokens)
        for n in _LENGTHS:
            begin = self._after.get(tuple(self.tokens[-n:]))
            if begin is not None:
                return [self.tokens[begin + i % (length - begin)] for i in range(count)]
        return []


class LookupSearch(Samples):
    """`Samples` with drafts. The batch has one row."""

    text: Repeats  # of the row
    reads: int  # the number of the row; -1: none has been read
    # the part of a draft that is still to be checked: each token, and the logits (1, V) after it
    ahead: list[tuple[int, Tensor]]
    most: int  # tokens of the next draft

    def run(self, model: LanguageModel, room: int) -> list[Continuation]:
        """See `Samples`. Raises UsageError for a model whose state cannot go back."""
        if not model.rewinds:
            raise UsageError("--lookup needs a Transformer, such as a GPT or a LLaMA")
        self.ahead, self.reads = [], -1
        return super().run(model, room)

    def _advance(self, chosen: dict[int, int]) -> None:
        """See `Samples`; a token that was in the draft has been read already."""
        if not self.live:
            self.ahead = []
            super()._advance(chosen)
            return
        token = chosen[0]
        if self.ahead and self.ahead[0][0] == token:
            _, self.logits = self.ahead.pop(0)
            return
        state = cast(RewindableState, self.state)
        state.stepwise = True
        if self.ahead:
            state.forget(len(self.ahead))
        draft = self._draft(self.rows[0])
        hidden, self.state = self.model(torch.tensor([[token, *draft]], device=self.backend.device), state)
        contention.look()
        logits = self.model.output.logits(hidden[0])
        self.logits = logits[:1]
        self.ahead = [(next_token, logits[i : i + 1]) for i, next_token in enumerate(draft, 1)]

    def _draft(self, row: int) -> list[int]:
        """The draft for a row, no longer than its limit and the context allow."""
        prompt, new = self.prompts[row], self.out[row].ids
        if row != self.reads:
            self.text, self.reads, self.most = Repeats(), row, self.settings.lookup
            self.text.extend(prompt)
        else:
            self.most = max(1, self.most // 2) if self.ahead else min(2 * self.most, self.settings.lookup)
        self.text.extend(new[len(self.text.tokens) - len(prompt) :])
        room = self.limits[row] - len(new) - 1
        if self.window is not None:
            room = min(room, self.window.context - len(self.window.of(self.text.tokens)))
        return self.text.draft(min(self.most, room)) if room > 0 else []
