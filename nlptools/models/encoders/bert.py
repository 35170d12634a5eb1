"""BERT and ELECTRA: bidirectional Transformer encoders.

Devlin et al. 2019, "BERT: pre-training of deep bidirectional Transformers" (arXiv:1810.04805): post-norm blocks, learned
positions, segment embeddings, a norm over their sum. Clark et al. 2020, "ELECTRA" (arXiv:2003.10555): the same, with
narrower embeddings that are projected to the hidden size.
Departure: embeddings have a multiple of 64 rows in memory, for aligned products. Subclasses: other `relations` and stacks.
Shapes: B batch, T length, E embedding, D hidden, N positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import ClassVar

import torch
from torch import Tensor, nn

from nlptools.configs.checks import check_heads, check_sizes
from nlptools.errors import BundleError, DataError
from nlptools.layers import packed
from nlptools.layers.attention import SelfAttention
from nlptools.layers.dropout import Dropout
from nlptools.layers.heads import MaskedTokenHead, Pooler, PredictionLayer
from nlptools.layers.initial import draw_as_bert
from nlptools.layers.linear import Linear, check_activation
from nlptools.layers.module_lists import Modules
from nlptools.layers.output import padded_embedding
from nlptools.layers.packed import EqualLengths
from nlptools.layers.query_positions import QueryPositions
from nlptools.layers.relations import UNRELATED, DistanceBuckets, Relation
from nlptools.layers.transformer import Block, Heads
from nlptools.models.contract import Hidden, layer_of, linear_maps


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes and variants of an encoder. Dropouts apply in training only."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    layout: str = "bert"  # the family that names its folders and weights, see `huggingface.encoder_folders`
    embedding_size: int = 0  # of the embeddings, projected to the hidden size where it differs; 0: the hidden size
    max_position_embeddings: int = 512
    first_position: int = 0  # the row of the position embedding for the first token
    type_vocab_size: int = 2  # segments that a token can belong to; 0: they have no embedding
    activation: str = "gelu"
    masked_activation: str = ""  # of the head for masked tokens; "": `activation`
    sequence_activation: str = ""  # of a layer in the head for whole sequences; "": the head takes the pooler's vector
    choice_activation: str = ""  # the same of the head that compares sequences
    num_blocks: int = 0  # that the layers share, in equal parts; 0: each layer has its own (ALBERT: one, or a few)
    distance_buckets: int = 0  # for which heads have learned scores, see `relations.DistanceBuckets`; 0: none
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    pad: int = 0

    learns_positions: ClassVar[bool] = True  # whether each position has an embedding
    heads_divide: ClassVar[bool] = True  # whether heads are as wide as the hidden size together
    pools_means: ClassVar[bool] = False  # whether heads of sequences take the mean of all tokens, not the first one

    def __post_init__(self) -> None:
        for name, size in (("embedding_size", self.hidden_size), ("num_blocks", self.num_hidden_layers)):
            if vars(self)[name] == 0:
                object.__setattr__(self, name, size)
        if self.layout == "electra":  # its heads have layers with the exact GELU, where BERT has a pooler
            for name in ("masked_activation", "sequence_activation", "choice_activation"):
                object.__setattr__(self, name, "gelu")
        check_sizes(self, num_blocks=self.num_hidden_layers, distance_buckets=1 << 10)
        if self.heads_divide:
            check_heads(self.hidden_size, self.num_attention_heads)
        check_activation(self.activation)
        if self.layout == "bert" and self.embedding_size != self.hidden_size:
            raise BundleError("a BERT's embeddings are as wide as its hidden states")
        if not 0 <= self.first_position < self.max_position_embeddings:
            raise BundleError(f"the first of {self.max_position_embeddings} positions is {self.first_position}")
        if not isinstance(self.pad, int) or isinstance(self.pad, bool) or not 0 <= self.pad < self.vocab_size:
            raise BundleError(f"pad is {self.pad!r}, expected a token of the vocabulary")

    def encoder(self, pooler: bool) -> Bert:
        """A model of these sizes."""
        return Bert(self, pooler)

    def masked_head(self) -> MaskedTokenHead:
        """The head that predicts masked tokens."""
        sizes = (self.hidden_size, self.embedding_size, self.vocab_size)
        return MaskedTokenHead(*sizes, self.masked_activation or self.activation, self.layer_norm_eps)

    def before_heads(self) -> PredictionLayer | None:
        """A layer that the heads of tasks share; None: there is none."""
        return None

    def is_pooled(self, head: str) -> bool:
        """Whether a head, of `heads.ROW_HEADS`, takes the vector of the pooler."""
        return not self.row_activation(head)

    def row_activation(self, head: str) -> str:
        """The activation of the layer in a head of `heads.ROW_HEADS`; "": it has none."""
        return self.sequence_activation if head == "sequence" else self.choice_activation

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        block = 4 * self.hidden_size**2 + 2 * self.hidden_size * self.intermediate_size
        return self.num_blocks * block + self.vocab_size * self.embedding_size


class Bert(nn.Module):
    """See the module's docstring; fulfils `contract.Encoder`."""

    runs_in_16_bits = True
    causal = False

    def __init__(self, config: EncoderConfig, pooler: bool = False) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = config.vocab_size
        self.hidden_size = config.hidden_size
        self.max_context = config.max_position_embeddings - config.first_position
        E, D = config.embedding_size, config.hidden_size
        self.token_embedding = padded_embedding(config.vocab_size, E)
        self.position_embedding = nn.Embedding(config.max_position_embeddings, E) if config.learns_positions else None
        self.type_embedding = nn.Embedding(config.type_vocab_size, E) if config.type_vocab_size else None
        self.embedding_norm: nn.Module = nn.LayerNorm(E, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout)
        if E != D:
            self.embedding_projection = Linear(E, D)
        self.distance_scores = (
            nn.Embedding(config.distance_buckets, config.num_attention_heads) if config.distance_buckets else None
        )
        self.blocks = Modules(new() for new in [self.block()] * config.num_blocks)
        self.pooler = Pooler(D) if pooler else None

    def block(self) -> Callable[..., Block]:
        """Makes a block of the stack; later arguments replace these."""
        config = self.config
        sizes = (config.hidden_size, config.num_attention_heads, config.intermediate_size)
        return partial(
            Block,
            *sizes,
            activation=config.activation,
            dropout=config.hidden_dropout,
            attention_dropout=config.attention_dropout,
            eps=config.layer_norm_eps,
            pre_norm=False,
            causal=False,
        )

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw the weights as BERT does: normal, biases 0, norms 1."""
        draw_as_bert(self, self.config.initializer_range)
        self.token_embedding.weight[self.config.pad].zero_()
        self.token_embedding.weight[self.vocab_size :].zero_()

    def forward(
        self,
        ids: Tensor,
        mask: Tensor | None = None,
        types: Tensor | None = None,
        positions: Tensor | None = None,
        attend: Tensor | None = None,
    ) -> Hidden:
        """See `contract.Encoder`."""
        x = self._embedded(ids, types, positions)
        layers = list(self._states(x, self._layers(_padded(mask, attend), ids, positions)))
        return Hidden(layers[-1], tuple(layers))

    def first(self, ids: Tensor, mask: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """(B, T) ids -> (B, 1, D): the last hidden state of the first token alone, see `at`."""
        return self.at(ids, QueryPositions.first(len(ids), ids.device), mask, types)[:, None]

    def at(
        self,
        ids: Tensor,
        wanted: QueryPositions,
        mask: Tensor | None = None,
        types: Tensor | None = None,
        positions: Tensor | None = None,
        attend: Tensor | None = None,
    ) -> Tensor:
        """(B, T) ids -> (M, D): the last hidden states of the wanted positions. Other arguments: see `contract.Encoder`.

        The last block is computed for these positions only, which saves up to five sixths of it.
        """
        heads = _padded(mask, attend)
        last = partial(SelfAttention.heads_at, positions=wanted, mask=heads.keywords["mask"])
        x = self._embedded(ids, types, positions)
        return self._last(x, self._layers(heads, ids, positions), last, wanted.select)

    def packed(
        self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], layers: range, types: Tensor | None = None
    ) -> list[Tensor]:
        """The hidden states (N, D) of each of `layers`, numbered as in `contract.Hidden`, of packed sequences.

        Args:
            ids, positions: (N,) of all sequences, in the order of `groups`.
            layers: not empty.
            types: (N,) the segment of each token; None: 0.
        """
        each = self._layers(partial(packed.heads, groups=groups), ids, positions)
        states = self._states(self._embedded(ids, types, positions), each)
        return [x for number, x in enumerate(islice(states, layers[-1] + 1)) if number in layers]

    def packed_first(
        self, ids: Tensor, positions: Tensor, groups: Sequence[EqualLengths], types: Tensor | None = None
    ) -> Tensor:
        """The last hidden state (B, D) of the first token of each packed sequence, see `packed` and `at`."""
        each = self._layers(partial(packed.heads, groups=groups), ids, positions)
        last, select = partial(packed.first_heads, groups=groups), partial(packed.first_rows, groups=groups)
        return self._last(self._embedded(ids, types, positions), each, last, select)

    @property
    def attention_size(self) -> tuple[int, int]:
        """See `contract.Attends`."""
        return self.config.num_hidden_layers, self.config.num_attention_heads

    def attention_weights(self, ids: Tensor, types: Tensor | None = None) -> Iterator[Tensor]:
        """See `contract.Attends`."""
        x = self._embedded(ids, types, None)
        relations = self.relations(torch.arange(ids.shape[1], device=ids.device)[None])
        for block, relation in zip(self._stack(), relations, strict=True):
            x = yield from block.observed(x, partial(SelfAttention.related_weighted, relation=relation))

    def layer_of(self, name: str) -> int:
        """See `contract.Layered`."""
        layers = self.config.num_hidden_layers
        return layers + 1 if name.startswith("pooler.") else layer_of(name, layers)

    def linear_maps(self) -> list[str]:
        """See `contract.Layered`: the maps in the blocks."""
        return [name for name in linear_maps(self) if name.startswith("blocks.")]

    def exported(self, ids: Tensor, mask: Tensor, types: Tensor) -> tuple[Tensor, ...]:
        """(B, T) ids, mask (True = real) and segments -> the hidden states of all layers, as `contract.Hidden.layers`.

        The operations do not depend on values or sizes, so that what is traced holds for every batch and length. For a model in
        eval mode with weights that require gradients: others may be packed for a kernel that only this processor has.
        """
        x = self._embedded(ids, types, torch.arange(ids.shape[1], device=ids.device))
        heads = partial(SelfAttention.plain_heads, mask=mask[:, None, None])
        return tuple(self._states(x, [(block, heads) for block in self._stack()]))

    def relations(self, positions: Tensor) -> Sequence[Relation]:
        """What each layer's attention knows of distances; `positions` (B, T), (1, T) or (N,)."""
        scores = self.distance_scores
        return [UNRELATED if scores is None else DistanceBuckets(scores)] * self.config.num_hidden_layers

    def finished(self, x: Tensor) -> Tensor:
        """The result of the last block -> the last hidden state."""
        return x

    def _stack(self) -> list[Block]:
        """The block of each layer."""
        blocks, layers = len(self.blocks), self.config.num_hidden_layers
        return [self.blocks[int(layer / (layers / blocks))] for layer in range(layers)]

    def _layers(
        self, heads: Callable[..., Tensor], ids: Tensor, positions: Tensor | None
    ) -> list[tuple[Block, partial[Tensor]]]:
        """The block of each layer and the heads of its attention, computed by `heads`."""
        if positions is None:
            positions = torch.arange(ids.shape[-1], device=ids.device)[None]
        relations = self.relations(positions)
        return [(block, partial(heads, relation=each)) for block, each in zip(self._stack(), relations, strict=True)]

    def _states(self, x: Tensor, layers: Sequence[tuple[Block, Heads]]) -> Iterator[Tensor]:
        """What goes into the first block, and comes out of each, (..., D)."""
        yield x
        for number, (block, heads) in enumerate(layers, 1):
            x = block.run(x, heads)
            yield x if number < len(layers) else self.finished(x)

    def _last(
        self,
        x: Tensor,
        layers: Sequence[tuple[Block, partial[Tensor]]],
        last: Callable[..., Tensor],
        select: Callable[[Tensor], Tensor],
    ) -> Tensor:
        """(..., D) -> (M, D): the last hidden states of those positions that `last` and `select` choose."""
        for block, heads in layers[:-1]:
            x = block.run(x, heads)
        block, heads = layers[-1]
        return self.finished(block.run(x, partial(last, relation=heads.keywords["relation"]), select))

    def _embedded(self, ids: Tensor, types: Tensor | None, positions: Tensor | None) -> Tensor:
        """(B, T) or (N,) -> (..., D): what goes into the first block."""
        if positions is None:
            T = ids.shape[1]
            if self.max_context < T:
                raise DataError(f"{T} tokens are more than the model's limit of {self.max_context}")
            positions = torch.arange(T, device=ids.device)
        x: Tensor = self.token_embedding(ids)
        if self.position_embedding is not None:
            x = x + self.position_embedding(positions + self.config.first_position)
        if self.type_embedding is not None:
            x = x + (self.type_embedding.weight[0] if types is None else self.type_embedding(types))
        return self.project_and_norm(x)

    def project_and_norm(self, x: Tensor) -> Tensor:
        """Embeddings (..., E) -> (..., D)."""
        x = self.dropout(self.embedding_norm(x))
        return self.embedding_projection(x) if self.config.embedding_size != self.config.hidden_size else x


def _padded(mask: Tensor | None, attend: Tensor | None) -> partial[Tensor]:
    """The heads of padded rows; for the arguments see `contract.Encoder`."""
    if attend is None and mask is not None and not bool(mask.all()):
        attend = mask[:, None, None]  # (B, 1, 1, T)
    return partial(SelfAttention.related_heads, mask=attend)
