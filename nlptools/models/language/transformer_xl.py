"""Transformer-XL: a causal Transformer with layers that also see a memory of earlier text.

Dai et al. 2019, "Transformer-XL: attentive language models beyond a fixed-length context" (arXiv:1901.02860): text is read
segment after segment. The inputs of each layer at the last `memory_length` positions are kept, without gradient, and the next
segment also attends to them. Attention depends on the distance of positions, so a memory needs no positions.
Blocks with ReLU and the norm after each residual sum, output tied to the embedding, which is scaled by sqrt(D), as the authors'
code has them. An adaptive softmax is not tied. `pre_norm`, which their code has too, puts the norms before the layers: that
learns faster and at higher rates. Departure: another norm then follows the last block, as in GPT-2.

In training, a position sees the memory and its own segment up to itself, or, with `same_length`, exactly the last
`memory_length` positions before it. In inference, each position sees exactly the last `inference_memory` positions before it,
so results do not depend on how a text is cut into calls. The authors' code counts the position itself as one of those.
Departure: in inference, keys and values are kept instead of the inputs that they are computed from.
Shapes: B batch, T length, m memory, S = m + T, P distances, D hidden, H heads, K head size, L layers, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from nlptools.configs.architectures.shared import adaptive_cutoffs
from nlptools.configs.architectures.transformer_xl import TransformerXLOptions
from nlptools.configs.checks import check_heads, check_sizes, checked_cutoffs
from nlptools.errors import BundleError, UsageError
from nlptools.layers.adaptive_softmax import AdaptiveSoftmax
from nlptools.layers.attention import Weighted
from nlptools.layers.dropout import Dropout
from nlptools.layers.module_lists import Modules
from nlptools.layers.output import OutputHead, Projection, padded_embedding
from nlptools.layers.positions import sinusoids
from nlptools.layers.relative_attention import RelativeAttention, band
from nlptools.layers.transformer import Block
from nlptools.models.contract import Hidden, LanguageModelDefaults

_LONGEST = 1 << 20  # positions in a memory
_SEGMENT = 128  # positions that inference computes at a time, at least: attention beyond the memory is wasted


@dataclass(frozen=True)
class TransformerXLConfig:
    """Sizes of a Transformer-XL. Dropouts apply in training only."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    memory_length: int  # in training
    inference_memory: int  # positions that each one sees before it
    intermediate_size: int = 0  # 0: four times the hidden size
    clamp_length: int = 0  # larger distances count as this one; 0: all differ
    same_length: bool = False
    pre_norm: bool = False  # norms before the layers of a block; otherwise after the residual sums
    biases_per_layer: bool = False  # u and v; otherwise all layers share them
    adaptive_cutoffs: tuple[int, ...] = ()  # first tokens of the clusters of an adaptive softmax, which is not tied
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    embedding_dropout: float = 0.0
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.intermediate_size == 0:
            object.__setattr__(self, "intermediate_size", 4 * self.hidden_size)
        check_sizes(self)
        object.__setattr__(self, "adaptive_cutoffs", checked_cutoffs(self.adaptive_cutoffs, self.vocab_size))
        check_heads(self.hidden_size, self.num_attention_heads)
        if self.hidden_size % 2:
            raise BundleError(f"hidden size {self.hidden_size} is odd: encoded distances are pairs of sine and cosine")
        for name in ("memory_length", "inference_memory", "clamp_length"):
            value = vars(self)[name]
            if type(value) is not int or not 0 <= value <= _LONGEST:
                raise BundleError(f"{name} is {value!r}, expected a whole number from 0 to {_LONGEST}")

    @classmethod
    def from_options(cls, options: TransformerXLOptions, vocab_size: int) -> TransformerXLConfig:
        """The sizes that a command's options ask for. Raises UsageError for sizes that do not fit together.

        In inference, a position sees as many others as the last one of a segment in training.
        """
        if options.hidden % options.heads or options.hidden % 2:
            raise UsageError(f"--hidden {options.hidden} is not an even multiple of --heads {options.heads}")
        memory = options.context if options.memory_length is None else options.memory_length
        p = options.dropout
        attention_dropout = options.attention_dropout
        return cls(
            vocab_size,
            options.hidden,
            options.layers,
            options.heads,
            memory_length=memory,
            inference_memory=memory if options.same_length else memory + options.context - 1,
            intermediate_size=options.intermediate,
            clamp_length=options.clamp_length,
            same_length=options.same_length,
            pre_norm=options.pre_norm,
            biases_per_layer=options.biases_per_layer,
            adaptive_cutoffs=adaptive_cutoffs(options.adaptive, vocab_size),
            embedding_dropout=p,
            hidden_dropout=p,
            attention_dropout=p if attention_dropout is None else attention_dropout,
        )

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        return self.num_hidden_layers * 5 * self.hidden_size**2 + self.vocab_size * self.hidden_size


class XLState(NamedTuple):
    """The memory of every layer."""

    # in training the inputs, (L, 1, 1, B, m, D), without gradient; in inference keys and values, (L, 2, H, B, m, K)
    memory: Tensor
    padding: Tensor  # (B,) int64: positions of padding at the beginning of the memory
    distances: Tensor  # (L, H, P, K) vectors of the distances P - 1, ..., 0, in inference: computed once

    def select(self, rows: Tensor, width: int = 1) -> XLState:
        """See `contract.State`."""
        return XLState(self.memory.index_select(3, rows), self.padding[rows], self.distances)

    def join(self, others: Sequence[XLState]) -> XLState:
        """See `contract.LanguageState`."""
        states = (self, *others)
        longest = max(state.memory.shape[4] for state in states)
        missing = [longest - state.memory.shape[4] for state in states]
        memory = [pad(state.memory, (0, 0, n, 0)) for state, n in zip(states, missing, strict=True)]
        padding = [state.padding + n for state, n in zip(states, missing, strict=True)]
        distances = max((state.distances for state in states), key=lambda table: table.shape[2])
        return XLState(torch.cat(memory, 3), torch.cat(padding), distances)

    def detach(self) -> XLState:
        """The same state, cut off from its graph."""
        return XLState(self.memory.detach(), self.padding, self.distances.detach())


class TransformerXL(LanguageModelDefaults, nn.Module):
    """See the module's docstring; fulfils `contract.LanguageModel`."""

    streams = True
    runs_in_16_bits = True  # also on a CPU
    max_context = None

    def __init__(self, config: TransformerXLConfig) -> None:
        super().__init__()
        self.config = config
        D, H, L = config.hidden_size, config.num_attention_heads, config.num_hidden_layers
        self.token_embedding = padded_embedding(config.vocab_size, D)
        self.output: OutputHead
        if config.adaptive_cutoffs:
            self.output = AdaptiveSoftmax(D, config.vocab_size, config.adaptive_cutoffs)
        else:
            self.output = Projection(self.token_embedding, config.vocab_size)
        rows = L if config.biases_per_layer else 1
        self.content_bias = nn.Parameter(torch.zeros(rows, H, D // H))  # u of the paper
        self.distance_bias = nn.Parameter(torch.zeros(rows, H, D // H))  # v
        self.blocks = Modules(
            Block(
                D,
                H,
                config.intermediate_size,
                activation="relu",
                dropout=config.hidden_dropout,
                attention_dropout=config.attention_dropout,
                activation_dropout=config.hidden_dropout,
                eps=config.layer_norm_eps,
                pre_norm=config.pre_norm,
                attention="relative",
            )
            for _ in range(L)
        )
        for block in self._blocks():
            block.separate = False  # the model computes keys and values
        self.norm = nn.LayerNorm(D, config.layer_norm_eps) if config.pre_norm else nn.Identity()
        self.embedding_dropout = Dropout(config.embedding_dropout)
        self.dropout = Dropout(config.hidden_dropout)

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw the weights as the authors' code does."""
        std = self.config.initializer_range
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                parameter.normal_(std=std)
            else:
                parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)

    def forward(
        self, ids: Tensor, state: XLState | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, XLState | None]:
        """See `contract.LanguageModel`."""
        layers, after = self._layers(ids, state, mask)
        return layers[-1], None if state is None else after

    def states(self, ids: Tensor) -> Hidden:
        """See `contract.LanguageModel`."""
        layers = self._layers(ids)[0]
        return Hidden(layers[-1], tuple(layers))

    @property
    def attention_size(self) -> tuple[int, int]:
        """See `contract.Attends`."""
        return len(self.blocks), self.config.num_attention_heads

    def attention_weights(self, ids: Tensor, types: Tensor | None = None) -> Iterator[Tensor]:
        """See `contract.Attends`; in inference. The whole text is one segment, so that a position sees what it always sees."""
        T = ids.shape[1]
        mask = self._mask(T, T, ids.new_zeros(len(ids)))
        x = self._read(ids)
        for i, (block, places) in enumerate(zip(self._blocks(), self._distances(T), strict=True)):
            x = yield from block.observed(x, _weighted(places, self._biases(i), mask))

    def start(self, batch_size: int, capacity: int) -> XLState:
        """See `contract.LanguageModel`."""
        weight, L, D = self.token_embedding.weight, len(self.blocks), self.config.hidden_size
        H = self.config.num_attention_heads
        memory = (1, 1, batch_size, 0, D) if self.training else (2, H, batch_size, 0, D // H)
        padding = torch.zeros(batch_size, dtype=torch.int64, device=weight.device)
        return XLState(weight.new_zeros(L, *memory), padding, weight.new_zeros(L, H, 0, D // H))

    def _layers(
        self, ids: Tensor, state: XLState | None = None, mask: Tensor | None = None
    ) -> tuple[list[Tensor], XLState]:
        """(B, T) ids -> the hidden states of all layers, (B, T, D) each, and the new state.

        In inference, a long text is cut into segments; the result is the same.
        """
        T = ids.shape[1]
        state = self.start(len(ids), 0) if state is None else state
        if mask is not None:
            state = state._replace(padding=T - mask.sum(1))
        step = T if self.training else max(_SEGMENT, self.config.inference_memory)
        if step >= T:
            return self._segment(ids, state)
        parts = []
        for begin in range(0, T, step):
            layers, state = self._segment(ids[:, begin : begin + step], state)
            parts.append(layers)
        return [torch.cat(segments, 1) for segments in zip(*parts, strict=True)], state

    def _segment(self, ids: Tensor, state: XLState) -> tuple[list[Tensor], XLState]:
        """See `_layers`; for ids that are read at once."""
        T, config = ids.shape[1], self.config
        S = state.memory.shape[-2] + T
        kept = min(S, config.memory_length if self.training else config.inference_memory)
        mask = self._mask(T, S, state.padding)
        distances, positions = state.distances, None
        if self.training:
            positions = self.dropout(self._encoded(S))
        elif distances.shape[2] < S:
            distances = self._distances(max(S, min(2 * S, config.inference_memory + 1)))
        x = self._read(ids)
        layers, memory = [x], []
        for i, block in enumerate(self._blocks()):
            if positions is not None:
                inputs = torch.cat([state.memory[i, 0, 0], x], 1)
                keys_values = block.attention.keys_and_values(self._normed(block, inputs))
                places = block.attention.distances(positions)
                memory.append(inputs.detach()[None, None, :, S - kept :])
            else:
                keys_values = torch.cat([state.memory[i], block.attention.keys_and_values(self._normed(block, x))], 3)
                places = distances[i, :, distances.shape[2] - S :]
                memory.append(keys_values[..., S - kept :, :])
            x = block.run(x, _heads(keys_values, places, self._biases(i), mask))
            layers.append(x)
        layers[-1] = self.dropout(self.norm(x))
        padding = (state.padding - (S - kept)).clamp_(min=0)
        return layers, XLState(torch.stack(memory), padding, distances)

    def _read(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, D): what goes into the first block."""
        x: Tensor = self.embedding_dropout(self.token_embedding(ids) * self.config.hidden_size**0.5)
        return x

    def _mask(self, T: int, S: int, padding: Tensor) -> Tensor | None:
        """(T, S) or (B, T, S), True = attend; None: a single query that attends to everything."""
        reach = self.config.inference_memory
        if self.training:
            reach = self.config.memory_length if self.config.same_length else S
        padded = bool(padding.any())
        if T == 1 and reach >= S - 1 and not padded:
            return None
        mask = band(T, S, reach, padding.device)
        if not padded:
            return mask
        real = torch.arange(S, device=padding.device) >= padding[:, None]
        # padding attends to itself, because a softmax over nothing would be NaN; its output is not used
        own = band(T, S, 0, padding.device)
        return (mask & real[:, None]) | own

    def _blocks(self) -> Iterable[Block]:
        return self.blocks

    def _normed(self, block: Block, inputs: Tensor) -> Tensor:
        """The inputs of a block as its attention sees them."""
        normed: Tensor = block.attention_norm(inputs) if self.config.pre_norm else inputs
        return normed

    def _biases(self, layer: int) -> tuple[Tensor, Tensor]:
        row = layer if self.config.biases_per_layer else 0
        return self.content_bias[row], self.distance_bias[row]

    def _encoded(self, count: int) -> Tensor:
        """(P, D): sines and cosines of the distances P - 1, ..., 0, equal from the clamp length on."""
        clamp, weight = self.config.clamp_length, self.token_embedding.weight
        table = sinusoids(count if clamp == 0 else min(count, clamp + 1), self.config.hidden_size)
        places = torch.arange(count - 1, -1, -1).clamp_(max=len(table) - 1)
        return table[places].to(weight)

    def _distances(self, count: int) -> Tensor:
        """(L, H, P, K): the vectors of the distances P - 1, ..., 0 of all layers."""
        encoded = self._encoded(count)
        return torch.stack([block.attention.distances(encoded) for block in self._blocks()])


def _heads(
    keys_values: Tensor, distances: Tensor, biases: tuple[Tensor, Tensor], mask: Tensor | None
) -> Callable[[RelativeAttention, Tensor], Tensor]:
    """The heads of a block's attention, for `Block.run`."""

    def heads(attention: RelativeAttention, x: Tensor) -> Tensor:
        return attention.heads(x, keys_values, distances, biases, mask)

    return heads


def _weighted(
    distances: Tensor, biases: tuple[Tensor, Tensor], mask: Tensor | None
) -> Callable[[RelativeAttention, Tensor], Weighted]:
    """The attention of a block to its own segment, for `Block.observed`."""
    return lambda attention, x: attention.weighted(x, attention.keys_and_values(x), distances, biases, mask)
