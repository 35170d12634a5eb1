"""What every language model and every encoder offers; decoding, scoring, embedding and training are written once against
this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from torch import Tensor, nn

from nlptools.layers.output import OutputHead

S = TypeVar("S", bound="State")


class State(Protocol):
    """What a model keeps of the tokens so far: a key/value cache, a hidden state, ..."""

    def select(self: S, rows: Tensor, width: int = 1) -> S:
        """The state of some rows of the batch (int64 indices), in that order; for beams and finished rows.

        The new rows come in groups of `width`, the hypotheses of one input: what depends on the input alone is kept
        once per group. The old state may be used up.
        """


class LanguageState(State, Protocol):
    """The state of a language model."""

    def join(self: S, others: Sequence[S]) -> S:
        """The state of the rows of this one, and then of those of the others, which may have read more or fewer tokens. The old
        states may be used up.
        """


class Hidden(NamedTuple):
    """The hidden states of a model, layer by layer."""

    last: Tensor  # (B, T, D)
    layers: tuple[Tensor, ...]  # layers[0] is the embeddings; each (B, T, D)


class Decoder(Protocol):
    """A model that predicts tokens one after the other. Shapes: B batch, T length, D hidden, V vocabulary.

    It is a `torch.nn.Module`, built from its configuration, with a method `initialize` that draws the weights. Dropouts are
    those fields of the configuration that end in "dropout"; they and those that end in "penalty" are set anew when training
    continues from a saved model.
    """

    @property
    def config(self) -> Any:
        """The sizes, see `registry.Architecture`."""

    @property
    def max_context(self) -> int | None:
        """Most positions it can see; None: no limit."""

    @property
    def runs_in_16_bits(self) -> bool:
        """Whether a CPU can run it in bf16."""

    @property
    def output(self) -> OutputHead:
        """The distribution over the next token, given the hidden state at a position."""

    def __call__(self, ids: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(B, T) ids, and the state after the tokens before them -> hidden (B, T, D) and the new state."""


class LanguageModel(Decoder, Protocol):
    """A causal language model over token ids. Its configuration has at least the fields `vocab_size`, `hidden_size` (D) and
    `num_hidden_layers`.
    """

    @property
    def streams(self) -> bool:
        """Whether it trains on text in order, its state carried from batch to batch and into checkpoints. The state is then a
        named tuple of tensors, with a method `detach` that cuts it off from the graph.
        """

    @property
    def token_embedding(self) -> nn.Embedding:
        """The vectors that tokens are read as. Rows beyond the vocabulary are padding."""

    def __call__(self, ids: Tensor, state: Any = None, mask: Tensor | None = None) -> tuple[Tensor, Any]:
        """See `Decoder`. Without a state, nothing comes before `ids`, and the new state is None (training, scoring).

        `mask` (B, T), True = real, allows rows padded on the LEFT in the first call.
        """

    def state_dict(self) -> dict[str, Any]:
        """The weights."""

    def start(self, batch_size: int, capacity: int) -> Any:
        """The `LanguageState` before the first token, with room for `capacity` tokens."""

    def states(self, ids: Tensor) -> Hidden:
        """(B, T) ids, padded on the right -> the hidden states of all layers, `config.num_hidden_layers` + 1. The last one
        is that of `__call__`.
        """


class Penalized:
    """A base of models with a further term in their training loss, which they compute along with the hidden states."""

    penalty: Tensor | None = (
        None  # of the last call in training: its mean over tokens (), float32; taken by the objective
    )


class SourceState(State, Protocol):
    """The state of a decoder that attends to a source."""

    keeps_attention: bool  # to be set: whether calls leave their attention weights behind
    attention: Tensor | None  # (B, T, S) of the last call, float32, each row with sum 1; for alignments and coverage


class EncoderDecoder(Decoder, Protocol):
    """A model of target tokens, given a source. Its configuration is a `translation.vocabularies.Vocabularies`."""

    @property
    def start_token(self) -> int:
        """Stands before the first target token."""

    def encode(self, ids: Tensor, mask: Tensor | None = None, capacity: int | None = None) -> Any:
        """(B, S) source ids, the end token included -> the `SourceState` before the first target token.

        `mask` (B, S), True = real; rows are padded on the RIGHT. None: no row is padded. `capacity`: initial
        room in target tokens; None: the state serves for one call with all of them (training, forced decoding).
        """


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
        `positions` (B, T): the position of each in its sequence, by default from 0 along the row. `attend` (B, 1, T, T),
        True = attend, in place of `mask`: for several sequences in a row, which see themselves only.
        """
