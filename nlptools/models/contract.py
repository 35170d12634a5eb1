"""What every language model and every encoder offers; decoding, scoring, embedding and training are written once against
this.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar

from torch import Tensor

from nlptools.layers.output import OutputHead

S = TypeVar("S", bound="State")


class State(Protocol):
    """What a model remembers of the tokens so far: a key/value cache, a hidden state, ..."""

    def select(self: S, rows: Tensor, width: int = 1) -> S:
        """The state of a choice of batch rows (int64 indices), in that order; for beams and finished rows.

        The new rows come in groups of `width`, the hypotheses of one input: what depends on the input alone is kept
        once per group. The old state may be used up.
        """


class LanguageModel(Protocol):
    """A causal language model over token ids. Shapes: B batch, T length, D hidden, V vocabulary."""

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

    @property
    def output(self) -> OutputHead:
        """The distribution over the next token, given the hidden state at a position."""


class SourceState(State, Protocol):
    """The state of a decoder that attends to a source."""

    keeps_attention: bool  # to be set: whether calls leave their attention weights behind
    attention: Tensor | None  # (B, T, S) of the last call, float32, each row with sum 1; for alignments and coverage


class EncoderDecoder(LanguageModel, Protocol):
    """A language model over target tokens, given a source. It begins with `encode` instead of `start`, then feeds on the
    start token and what it has said so far, as any language model does.
    """

    start_token: int  # what stands before the first target token

    def encode(self, ids: Tensor, mask: Tensor | None = None, capacity: int | None = None) -> SourceState:
        """(B, S) source ids, the end token included -> the state before the first target token.

        `mask` (B, S), True = real; rows are padded on the RIGHT. None: no row is padded. `capacity`: room for so many
        target tokens; None: the state serves for one call with all of them (training, forced decoding).
        """


class Hidden(NamedTuple):
    """What an encoder makes of its input, layer by layer."""

    last: Tensor  # (B, T, D)
    layers: tuple[Tensor, ...]  # layers[0] is what the embeddings give; each (B, T, D)


class Encoder(Protocol):
    """A bidirectional encoder over token ids."""

    vocab_size: int
    hidden_size: int  # D
    max_context: int | None  # most positions it can see; None: no limit
    runs_in_16_bits: bool  # whether a CPU can run it in bf16

    def __call__(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        types: Tensor | None = None,
        positions: Tensor | None = None,
        attend: Tensor | None = None,
    ) -> Hidden:
        """(B, T) ids, padded on the right -> hidden states of all layers.

        `mask` (B, T), True = real; None: no row is padded. `types` (B, T): the segment of each token, 0 by default.
        `positions` (B, T): where each stands in its sequence, from 0 along the row by default. `attend` (B, 1, T, T), True =
        attend, in place of `mask`: for several sequences in a row, which see themselves only.
        """
