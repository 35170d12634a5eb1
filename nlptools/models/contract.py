"""What every language model offers; decoding, scoring and training are written once against this."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from torch import Tensor

S = TypeVar("S", bound="State")


class State(Protocol):
    """What a model remembers of the tokens so far: a key/value cache, a hidden state, ..."""

    def select(self: S, rows: Tensor) -> S:
        """The state of a choice of batch rows (int64 indices), in that order; for beams and finished rows."""


class LanguageModel(Protocol):
    """A causal language model over token ids. Shapes: B batch, T length, D hidden, V vocabulary."""

    vocab_size: int
    max_context: int | None  # most positions it can see; None: no limit
    runs_in_16_bits: bool  # whether a CPU can run it in bf16
    streams: bool  # trained on text in order, with its state carried from batch to batch

    def __call__(self, ids: Tensor, state: Any = None, mask: Tensor | None = None) -> tuple[Tensor, Any]:
        """(B, T) ids, and the state after what came before -> hidden (B, T, D) and the new state.

        Without a state nothing came before and none is returned (training, scoring); `start` makes an empty one.
        `mask` (B, T), True = real, lets shorter rows be padded on the LEFT in the first call after `start`.
        """

    def start(self, batch_size: int, capacity: int) -> State:
        """The state before the first token, with room for `capacity` tokens."""

    def head(self, hidden: Tensor) -> Tensor:
        """(..., D) -> logits (..., V)."""

    def output_weight(self) -> Tensor:
        """The (V or more, D) matrix of `head`, for losses that project chunk by chunk; rows from V on are padding."""
