"""The constraint that the text of a continuation matches a regular expression, or contains some texts and not others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from nlptools import messages
from nlptools.configs.generation import Generate
from nlptools.errors import UsageError
from nlptools.inference.generation.automaton import FAR, TokenAutomaton, Trie, automaton
from nlptools.inference.generation.constraints import DecodingState
from nlptools.inference.generation.continuation import Continuation
from nlptools.text.token_bytes import keeps_first_space, token_bytes
from nlptools.text.tokenizer import Tokenizer

_MOST_REMEMBERED = 100_000  # rows with a remembered state


class Spelling:
    """How the tokens of a tokenizer spell a text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises UsageError where the text of a token depends on those around it."""
        pieces = token_bytes(tokenizer)
        if pieces is None:
            raise UsageError(
                f"--match, --force-words and --ban-words need tokens that are pieces of the text; the tokens of"
                f" '{tokenizer.kind}' depend on their neighbours"
            )
        self.trie = Trie(pieces)
        self.at_start = self.trie  # of the first token of a text
        if not keeps_first_space(tokenizer):
            self.at_start = Trie([piece.removeprefix(b" ") for piece in pieces])


class TextConstraint:
    """A `constraints.Ban` that leaves only tokens with which the text can still fulfil `settings`.

    The end token is left where the text may end. When there is room for few more tokens, those are left with which the text
    can end in time.

    Args:
        at_start: whether the text begins with the continuation of each input, so that a first space is dropped.
        limits: the most new tokens of each input.
        ended: whether the client of an input has left; if all have left, a long search raises
            TimeoutError.
    """

    def __init__(
        self,
        settings: Generate,
        spelling: Spelling,
        eos: int,
        at_start: Sequence[bool],
        limits: Sequence[int],
        ended: Callable[[int], bool] | None = None,
    ) -> None:
        """Raises what `TextAutomaton` raises, and UsageError where no tokens spell a text that fulfils `settings`."""
        self.ended = ended
        self.text = automaton(settings.match, settings.force_words, settings.ban_words)
        self.tokens = TokenAutomaton(self.text, spelling.trie, self._stop)
        self.first = TokenAutomaton(self.text, spelling.at_start, self._stop)
        self.eos, self.at_start, self.limits = eos, at_start, limits
        self._states: dict[tuple[bool, bytes], int] = {}
        for first in {self.first if start else self.tokens for start in at_start}:
            reached = first.after(self.text.start)
            if not self.text.accepts(self.text.start) and (self.tokens.needs(reached) == FAR).all():
                raise UsageError(
                    "no tokens of the model spell a text that fulfils --match, --force-words and --ban-words"
                )

    def _stop(self) -> bool:
        return self.ended is not None and all(map(self.ended, range(len(self.at_start))))

    def __call__(self, scores: Tensor, rows: DecodingState) -> None:
        for row, number in enumerate(rows.inputs):
            self._ban(scores[row], rows.ids[row], self.at_start[number], self.limits[number])

    def _ban(self, scores: Tensor, ids: np.ndarray, at_start: bool, limit: int) -> None:
        """Ban tokens after the new tokens `ids` of a row, in its scores (V,)."""
        state = self.state(ids, at_start)
        after = (self.first if at_start and not len(ids) else self.tokens).after(state)
        needs = self.tokens.needs(after)
        needs[self.eos : self.eos + 1] = FAR  # it may be no token of the tokenizer
        alive = needs < FAR
        near = needs <= limit - len(ids) - 1
        kept = torch.zeros(len(scores), dtype=torch.bool)
        kept[: len(after)] = torch.from_numpy(near if near.any() else alive)
        # where no token leads on, the end of the text is all that is left
        kept[self.eos] = self.text.accepts(state) or not bool(kept.any())
        scores[~kept.to(scores.device)] = -torch.inf

    def state(self, ids: Sequence[int] | np.ndarray, at_start: bool) -> int:
        """The state after the new tokens of a row."""
        row = np.asarray(ids, np.int64)
        begin, state = len(row), self.text.start
        while begin and (known := self._states.get((at_start, row[:begin].tobytes()))) is None:
            begin -= 1
        if begin:
            assert known is not None
            state = known
        for n in range(begin, len(row)):
            state = int((self.first if at_start and n == 0 else self.tokens).after(state)[row[n]])
        if len(self._states) >= _MOST_REMEMBERED:
            self._states.clear()
        self._states[at_start, row.tobytes()] = state
        return state

    def report(self, continuations: Sequence[Sequence[Continuation]]) -> None:
        """Warn of continuations that do not fulfil the constraint: the limit of tokens, or a lack of tokens, ended them."""
        for row, at_start in zip(continuations, self.at_start, strict=True):
            for continuation in row:
                if continuation.finish != "stop" and not self.text.accepts(self.state(continuation.ids, at_start)):
                    messages.warn(
                        "a text ends before it fulfils --match, --force-words and --ban-words", kind="no match"
                    )
