"""What every language model and every encoder offers; decoding, scoring, embedding and training are written once against
this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, fields, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeGuard, TypeVar, cast, overload

from torch import Tensor, nn

from nlptools.layers.linear import Linear
from nlptools.layers.output import OutputHead
from nlptools.layers.packed import unpacked

if TYPE_CHECKING:
    from nlptools.models.translation.vocabularies import Vocabularies

S = TypeVar("S", bound="State")
C = TypeVar("C")


class State(Protocol):
    """A model's memory of the tokens so far: a key/value cache, a hidden state, ..."""

    def select(self: S, rows: Tensor, width: int = 1) -> S:
        """The state of some rows of the batch (int64 indices), in that order; for beams and finished rows.

        The new rows come in groups of `width`, the hypotheses of one input: what depends on the input alone is kept
        once per group. The old state may be used up.
        """


class LanguageState(State, Protocol):
    """The state of a language model."""

    def join(self: S, others: Sequence[S]) -> S:
        """The state of the rows of this one, followed by the rows of the others, which may have read more or fewer tokens. The
        old states may be used up.
        """


class CarriedState(LanguageState, Protocol):
    """The state of a language model that `streams`: a named tuple of tensors."""

    def __iter__(self) -> Iterator[Tensor]: ...

    @classmethod
    def _make(cls: type[S], iterable: Iterable[Tensor], /) -> S:
        """The state of these tensors."""

    def detach(self: S) -> S:
        """The same state, cut off from the graph."""


class Hidden(NamedTuple):
    """The hidden states of a model, layer by layer."""

    last: Tensor  # (B, T, D)
    layers: tuple[Tensor, ...]  # layers[0] is the embeddings; each (B, T, D)


class Configuration(Protocol):
    """The sizes of a model: a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""


class Sizes(Configuration, Protocol):
    """The configuration of a language model: a frozen dataclass with at least these fields."""

    @property
    def vocab_size(self) -> int:
        """V."""

    @property
    def hidden_size(self) -> int:
        """D."""

    @property
    def num_hidden_layers(self) -> int:
        """L."""

    @property
    def hidden_dropout(self) -> float:
        """Dropout of hidden states, in training."""


def with_dropout(config: C, dropout: float | None) -> C:
    """A configuration with this probability of every dropout; None: unchanged. Switches such as `locked_dropout` stay."""
    if dropout is None:
        return config
    names = [field.name for field in fields(config) if field.name.endswith("dropout") and field.type != "bool"]  # type: ignore[arg-type]
    return replace(config, **dict.fromkeys(names, dropout))  # type: ignore[type-var]


class Decoder(Protocol):
    """A model that predicts tokens one after the other. Shapes: B batch, T length, D hidden, V vocabulary.

    It is a `torch.nn.Module`, built from its configuration, with a method `initialize` that draws the weights. Dropouts are
    those fields of the configuration that end in "dropout"; they and those that end in "penalty" are set anew when training
    continues from a saved model.
    """

    @property
    def config(self) -> Configuration:
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

    def __call__(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """(B, T) ids, and the state after the tokens before them -> hidden (B, T, D) and the new state."""


class Layered(Protocol):
    """Embeddings and a stack of layers. Training may freeze some layers, or adapt their linear maps."""

    @property
    def causal(self) -> bool:
        """Whether tokens see only those before them."""

    @property
    def max_context(self) -> int | None:
        """See `Decoder`."""

    def initialize(self) -> None:
        """Draw the weights."""

    def layer_of(self, name: str) -> int:
        """The layer of a parameter, from 1 to L; 0: the embeddings; L + 1: the head that it was pretrained with."""

    def linear_maps(self) -> list[str]:
        """The names of the `layers.linear.Linear` that low-rank adapters can be added to; empty: of none."""


def layer_of(name: str, num_layers: int) -> int:
    """See `Layered`, where embeddings are named so, and the layers are the modules of a list."""
    number = re.match(r"\w+\.(\d+)\.", name)
    if number:
        return min(int(number[1]) + 1, num_layers)
    return 0 if "embedding" in name else num_layers


def linear_maps(module: nn.Module) -> list[str]:
    """See `Layered`: all maps except in the output head; there, names begin with "output"."""
    return [name for name, part in module.named_modules() if type(part) is Linear and not name.startswith("output")]


class LanguageModel(Decoder, Layered, Protocol):
    """A causal language model over token ids. `LanguageModelDefaults` has what a model may leave out."""

    @property
    def config(self) -> Sizes:
        """See `Decoder`."""

    @property
    def streams(self) -> bool:
        """Whether it trains on text in order, its state carried from batch to batch and into checkpoints. The state is then a
        `CarriedState`, see `is_streaming`.
        """

    @property
    def rewinds(self) -> bool:
        """Whether its state has a method `forget`, see `inference.generation.lookup.RewindableState`."""

    @property
    def token_embedding(self) -> nn.Embedding:
        """The vectors that tokens are read as. Rows beyond the vocabulary are padding."""

    @overload
    def __call__(self, ids: Tensor, state: None = None, mask: Tensor | None = None) -> tuple[Tensor, None]: ...
    @overload
    def __call__(self, ids: Tensor, state: S, mask: Tensor | None = None) -> tuple[Tensor, S]: ...
    def __call__(self, ids: Tensor, state: S | None = None, mask: Tensor | None = None) -> tuple[Tensor, S | None]:
        """See `Decoder`. Without a state, nothing comes before `ids`, and the new state is None (training, scoring).

        `mask` (B, T), True = real, allows rows padded on the LEFT in the first call.
        """

    def state_dict(self) -> dict[str, Tensor]:
        """The weights."""

    def load_state_dict(self, state_dict: Mapping[str, Tensor]) -> object:
        """Take these weights."""

    def start(self, batch_size: int, capacity: int) -> LanguageState:
        """The state before the first token, with room for `capacity` tokens."""

    def states(self, ids: Tensor) -> Hidden:
        """(B, T) ids, padded on the right -> the hidden states of all layers, `config.num_hidden_layers` + 1. The last one
        is the result of `__call__`.
        """

    def packed(self, ids: Tensor, segments: Tensor) -> Tensor:
        """(B, T) ids of rows with several sequences end to end, and the number of the sequence of each token, -1: padding
        -> hidden states (B, T, D). Each sequence is read from its first token and sees itself only.
        """

    neural: bool  # whether it has weights that a loss can change, not counts
    penalty: Tensor | None  # a term of the training loss: the mean over the tokens of the last call (), float32
    marks_rows: bool  # whether the rows of tasks have special tokens that fine-tuning adds, as in GPT-1
    activation: str  # of heads of tasks
    initializer_range: float  # standard deviation of the first weights of heads of tasks

    def drop_output(self) -> None:
        """Remove the output head and the weights that it alone has: a head of a task replaces it."""


class StreamingModel(LanguageModel, Protocol):
    """A language model that `streams`."""

    def start(self, batch_size: int, capacity: int) -> CarriedState:
        """See `LanguageModel`."""


def is_streaming(model: LanguageModel) -> TypeGuard[StreamingModel]:
    """Whether a model `streams`."""
    return bool(model.streams)


class Attends(Protocol):
    """A language model or an encoder with attention, for looking at its weights."""

    @property
    def runs_in_16_bits(self) -> bool:
        """See `Decoder`."""

    @property
    def max_context(self) -> int | None:
        """See `Decoder`."""

    @property
    def attention_size(self) -> tuple[int, int]:
        """Its number of layers, and of heads in each."""

    def attention_weights(self, ids: Tensor, types: Tensor | None = None) -> Iterator[Tensor]:
        """(B, T) ids without padding -> the attention weights of each layer in turn, (B, H, T, T), float32; row t says how
        much position t attends to each. A layer is computed when the iterator reaches it. `types`: see `Encoder`.

        Raises DataError for more tokens than the context.
        """


class Positioned(Protocol):
    """A model, for looking at the vectors of its positions."""

    def position_vectors(self, length: int) -> Tensor | None:
        """(T, D), the vectors that it adds to the embeddings of the first `length` tokens, or to as many as it can read; of an
        encoder-decoder, of its source. None: it adds none.
        """


class LanguageModelDefaults:
    """A base of language models: members of `LanguageModel` that hold for any of them, if not as fast as they could be."""

    causal = neural = True
    marks_rows = rewinds = False
    penalty: Tensor | None = None
    activation = "gelu"
    initializer_range = 0.02

    def layer_of(self: LanguageModel, name: str) -> int:
        """See `Layered`."""
        return layer_of(name, self.config.num_hidden_layers)

    def linear_maps(self) -> list[str]:
        """See `Layered`."""
        return linear_maps(cast(nn.Module, self))

    def position_vectors(self, length: int) -> Tensor | None:
        """See `Positioned`."""
        return None

    def drop_output(self) -> None:
        """See `LanguageModel`: members with names such as "output" and "output_matrix"."""
        module = cast(nn.Module, self)
        weights = (name for name, _ in module.named_parameters(recurse=False))
        for name in {*weights, *(name for name, _ in module.named_children()), *vars(self)}:
            if name.startswith("output"):
                delattr(self, name)

    def packed(self: LanguageModel, ids: Tensor, segments: Tensor) -> Tensor:
        """See `LanguageModel`; one sequence per row, padded on the right, in a call without a penalty."""
        rows, places = unpacked(ids, segments)
        hidden, _ = self(rows)
        self.penalty = None  # its mean would count the padding
        out = hidden.new_zeros(*ids.shape, hidden.shape[-1])
        out[segments >= 0] = hidden[places]
        return out


class SourceState(State, Protocol):
    """The state of a decoder that reads a source."""

    keeps_attention: bool  # to be set: whether calls keep their attention weights, if the model has any
    attention: Tensor | None  # (B, T, S) of the last call, float32, each row with sum 1; for alignments and coverage


class EncoderDecoder(Decoder, Protocol):
    """A model of target tokens, given a source."""

    @property
    def config(self) -> Vocabularies:
        """See `Decoder`."""

    @property
    def start_token(self) -> int:
        """Stands before the first target token."""

    @property
    def attends(self) -> bool:
        """Whether it has attention to the source, which states can keep."""

    def encode(self, ids: Tensor, mask: Tensor | None = None, capacity: int | None = None) -> SourceState:
        """(B, S) source ids, the end token included -> the state before the first target token.

        `mask` (B, S), True = real; rows are padded on the RIGHT. None: no row is padded. `capacity`: initial
        room in target tokens; None: the state serves for one call with all of them (training, forced decoding).
        """


class AttendsToSource(EncoderDecoder, Protocol):
    """An encoder-decoder, for looking at its attention weights."""

    @property
    def attention_sizes(self) -> Mapping[str, tuple[int, int]]:
        """The numbers of layers and heads of each of its kinds of attention: "cross", "encoder" and "decoder" self-attention;
        empty: it has none.
        """

    def attention_weights(self, part: str, source: Tensor, target: Tensor) -> Iterator[Tensor]:
        """The attention weights of each layer of a kind in turn, (B, H, T or S, T or S), float32, as in `Attends`.

        Args:
            part: a key of `attention_sizes`.
            source: (B, S) ids without padding, the end token included.
            target: (B, T) ids without padding, after the start token; the encoder does not look at it.
        """


class CrossAttentionDefaults:
    """A base of encoder-decoders without any attention but the one in `SourceState.attention`."""

    def position_vectors(self, length: int) -> Tensor | None:
        """See `Positioned`."""
        return None

    @property
    def attention_sizes(self: EncoderDecoder) -> Mapping[str, tuple[int, int]]:
        """See `AttendsToSource`."""
        return {"cross": (1, 1)} if self.attends else {}

    def attention_weights(self: EncoderDecoder, part: str, source: Tensor, target: Tensor) -> Iterator[Tensor]:
        """See `AttendsToSource`; of several layers, their mean."""
        state = self.encode(source)
        state.keeps_attention = True
        attention = self(target, state)[1].attention
        assert attention is not None
        yield attention[:, None]


class Encoder(Layered, Protocol):
    """A bidirectional encoder over token ids."""

    vocab_size: int
    hidden_size: int  # D
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
        True = attend, instead of `mask`: for several sequences in a row, which see themselves only.
        """
