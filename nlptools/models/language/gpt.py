"""GPT: a causal Transformer language model.

Radford et al. 2019, "Language models are unsupervised multitask learners" (GPT-2): pre-norm blocks, learned positions,
output tied to the token embedding (or not), residual projections initialised with std 0.02 / sqrt(2 L). With `post_norm` it is
GPT (Radford et al. 2018, "Improving language understanding by generative pre-training"): norms after the residual sums.
Departure: the embedding has its rows padded to a multiple of 64 in memory, for aligned matrix products.
Shapes: B batch, T length, S keys, D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.attention import FEW_QUERIES, type_of_kept_keys
from nlptools.compute.kernels.ragged_attention import Ragged, Stepwise
from nlptools.configs.architectures.transformer import TransformerOptions
from nlptools.configs.checks import check_heads, check_sizes
from nlptools.errors import BundleError, DataError, UsageError
from nlptools.layers.attention import Mask
from nlptools.layers.cache import Cache, KeyValues
from nlptools.layers.capped_output import CappedProjection
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import Linear, check_activation
from nlptools.layers.module_lists import Modules
from nlptools.layers.norms import LayerNorm
from nlptools.layers.output import Projection, padded_embedding
from nlptools.layers.positions import POSITIONS, Turn
from nlptools.layers.traced_steps import Optionals, TracedSteps
from nlptools.layers.transformer import Block, weighted_by
from nlptools.models.contract import Hidden, LanguageModelDefaults


@dataclass(frozen=True)
class GPTConfig:
    """Sizes of a GPT. Dropouts apply in training only."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    intermediate_size: int = 0  # 0: four times the hidden size
    activation: str = "gelu_new"
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    embedding_dropout: float = 0.0
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    positions: str = "learned"  # a name in `layers.positions.POSITIONS`
    post_norm: bool = False  # norms after the residual sums, and none at the end: GPT (Radford et al. 2018)
    tie_word_embeddings: bool = True  # False: the output has another matrix than the embedding

    def __post_init__(self) -> None:
        if self.intermediate_size == 0:
            object.__setattr__(self, "intermediate_size", 4 * self.hidden_size)
        check_sizes(self)
        check_heads(self.hidden_size, self.num_attention_heads)
        check_activation(self.activation)
        if self.positions not in POSITIONS:
            raise BundleError(f"positions is {self.positions!r}, expected one of {', '.join(POSITIONS)}")

    @classmethod
    def from_options(cls, options: TransformerOptions, vocab_size: int) -> GPTConfig:
        """The sizes that a command's options ask for. Raises UsageError for sizes that do not fit together."""
        if options.hidden % options.heads:
            raise UsageError(f"--hidden {options.hidden} is not a multiple of --heads {options.heads}")
        p = options.dropout
        return cls(
            vocab_size,
            options.hidden,
            options.layers,
            options.heads,
            options.context,
            embedding_dropout=p,
            hidden_dropout=p,
            attention_dropout=p,
            post_norm=options.post_norm,
        )

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        return self.num_hidden_layers * 4 * self.hidden_size**2 + self.vocab_size * self.hidden_size


class GPTState:
    """Keys and values of all layers, how far each prompt is padded on the left, and how long the text of each may grow."""

    stepwise = False  # see `inference.generation.lookup.RewindableState`

    def __init__(self, cache: Cache, padding: Tensor | None = None, longest: Tensor | int = 0) -> None:
        self.cache = cache
        self.padding = padding  # (G,) padding at the left of each input, shared by its hypotheses; None: none has any
        self.longest = longest  # (G,) most tokens of the text of each input, as far as that was known; or one number

    def select(self, rows: Tensor, width: int = 1) -> GPTState:
        """See `contract.State`."""
        inputs = rows[::width] // self.cache.width
        padding = None if self.padding is None else self.padding[inputs]
        longest = self.longest if isinstance(self.longest, int) else self.longest[inputs]
        return GPTState(self.cache.select(rows, width), padding, longest)

    def join(self, others: Sequence[GPTState]) -> GPTState:
        """See `contract.LanguageState`."""
        states = [state._one_by_one() for state in (self, *others)]
        cache = Cache.joined([state.cache for state in states])
        padding = [state._padding() + (cache.length - state.cache.length) for state in states]
        longest = [state.longest + torch.zeros_like(each) for state, each in zip(states, padding, strict=True)]
        return GPTState(cache, torch.cat(padding), torch.cat(longest))

    def forget(self, count: int) -> None:
        """See `inference.generation.lookup.RewindableState`."""
        self.cache.forget(count)

    def ragged(self, T: int) -> Ragged | None:
        """The positions that the last T ones attend to where rows are padded, or drafts are read, on a CPU; None: see the mask
        of the cache.
        """
        if self.cache.width > 1 or torch.compiler.is_compiling():
            return None
        if self.padding is None:
            steps = self.stepwise and 1 < T <= FEW_QUERIES and self.cache.device.type == "cpu"
            return Stepwise(torch.full((self.cache.inputs,), self.cache.length), T) if steps else None
        return Ragged(self.cache.length - self.padding, T) if self.padding.is_cpu else None

    def lengths(self) -> Tensor | int:
        """(G, 1) or one number, the tokens that the text of each input may grow to, see `Positions.turn`."""
        return self.longest if isinstance(self.longest, int) else self.longest[:, None]

    def _one_by_one(self) -> GPTState:
        """This state, with separate slots for each hypothesis."""
        if self.cache.width == 1:
            return self
        return self.select(torch.arange(self.cache.inputs * self.cache.width, device=self.cache.device))

    def _padding(self) -> Tensor:
        """(G,) as `padding`."""
        if self.padding is not None:
            return self.padding
        return torch.zeros(self.cache.inputs, dtype=torch.int64, device=self.cache.device)


class GPT(LanguageModelDefaults, nn.Module):
    """See the module's docstring; fulfils `contract.LanguageModel`."""

    streams = False
    rewinds = True
    runs_in_16_bits = True  # also on a CPU
    unit_gain = LayerNorm.unit  # of its norms

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.max_context = config.max_position_embeddings
        self.marks_rows = config.post_norm  # GPT-1
        self.activation, self.initializer_range = config.activation, config.initializer_range
        D = config.hidden_size
        self.token_embedding = padded_embedding(config.vocab_size, D)
        self.output = self._output(config.vocab_size, config.tie_word_embeddings)
        head_size = D // config.num_attention_heads
        self.position_embedding = POSITIONS[config.positions](config.max_position_embeddings, D, head_size)
        self.dropout = Dropout(config.embedding_dropout)
        self.blocks = Modules(
            Block(
                D,
                config.num_attention_heads,
                config.intermediate_size,
                activation=config.activation,
                dropout=config.hidden_dropout,
                attention_dropout=config.attention_dropout,
                eps=config.layer_norm_eps,
                pre_norm=not config.post_norm,
            )
            for _ in range(config.num_hidden_layers)
        )
        self.norm: nn.Module = nn.Identity() if config.post_norm else LayerNorm(D, config.layer_norm_eps)
        self.traced_steps = TracedSteps()

    def _output(self, vocab_size: int, tied: bool, cap: float = 0.0) -> Projection:
        """The output head, with the matrix of the embedding or with another one. `cap`: of logits, 0: none."""
        matrix: nn.Embedding | Linear = self.token_embedding
        if not tied:
            matrix = self.output_matrix = Linear(*reversed(self.token_embedding.weight.shape), bias=False)
        return CappedProjection(matrix, vocab_size, cap) if cap else Projection(matrix, vocab_size)

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw the weights as GPT-2 does, or with `post_norm` as GPT does, without the smaller residual projections."""
        std = self.config.initializer_range
        pre_norm = all(block.pre_norm for block in self.blocks)
        shrink = (2 * len(self.blocks)) ** 0.5 if pre_norm else 1.0
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            residual = name.endswith(("attention.output.weight", "feed_forward.down.weight"))
            parameter.normal_(std=std / shrink if residual else std)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 1:
                parameter.fill_(self.unit_gain if name.endswith("norm.weight") else 0.0)

    def forward(
        self, ids: Tensor, state: GPTState | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, GPTState | None]:
        """See `contract.LanguageModel`. Raises DataError for more tokens than the context."""
        rows, T = ids.shape
        past, attend = 0, None
        if state is not None:
            past = state.cache.length
            if mask is not None and not bool(mask.all()):
                state.padding = T - mask.sum(1)
                state.longest = state.longest - state.padding
                attend = state.cache.extend(T, mask)
            else:
                attend = state.cache.extend(T)
            ids = ids.view(rows // state.cache.width, state.cache.width * T)
        positions = torch.arange(past, past + T, device=ids.device)
        if state is not None and state.padding is not None:
            positions = (positions - state.padding[:, None]).clamp_(min=0)
        if T and int(past + T) > self.max_context and int(positions.max()) >= self.max_context:
            raise DataError(
                f"{int(positions.max()) + 1} tokens are more than the model's context of {self.max_context}"
            )
        ragged = None if state is None else state.ragged(T)
        masks = self._masks(attend if ragged is None else ragged, past, T)
        lengths = T if state is None else state.lengths()
        caches = [None] * len(self.blocks) if state is None else state.cache.layers
        hidden = None
        if state is not None and not self.token_embedding.weight.requires_grad and (ragged is None or ragged.singly):
            inputs = ids, positions, torch.as_tensor(lengths), None if ragged is None else ragged.own
            shared = [None if isinstance(mask, Ragged) else mask for mask in masks]
            hidden = self.traced_steps.run(self, self._step, inputs, shared, state.cache.layers)
        if hidden is None:
            hidden = self._through(ids, positions, lengths, caches, masks)
        return hidden.view(rows, T, -1), state

    def _step(self, inputs: Optionals, masks: Optionals, caches: Sequence[KeyValues]) -> Tensor:
        """See `layers.traced_steps`."""
        ids, positions, lengths, own = inputs
        assert ids is not None and positions is not None and lengths is not None
        if own is None:
            return self._through(ids, positions, lengths, caches, masks)
        T = ids.shape[1]
        return self._through(ids, positions, lengths, caches, self._masks(Stepwise(own, T), 0, T))

    def _through(
        self,
        ids: Tensor,
        positions: Tensor,
        lengths: Tensor | int,
        caches: Sequence[KeyValues | None],
        masks: Sequence[Mask | None],
    ) -> Tensor:
        """(B, T, D): the output of the last norm; `lengths`: see `Positions.turn`; a cache and a mask for each block."""
        x, turns = self._embedded(ids, positions), self._turns(positions, lengths)
        for block, cache, mask, turn in zip(self.blocks, caches, masks, turns, strict=True):
            x = block(x, cache, mask, turn=turn)
        hidden: Tensor = self.norm(x)
        return hidden

    def packed(self, ids: Tensor, segments: Tensor) -> Tensor:
        """See `contract.LanguageModel`; a mask keeps the sequences apart. Raises DataError for one beyond the context."""
        T = ids.shape[1]
        attend = torch.ones(T, T, dtype=torch.bool, device=ids.device).tril_()
        attend = attend & (segments[:, :, None] == segments[:, None])  # (B, T, T)
        positions = attend.sum(-1) - 1
        if self.max_context < T and int(positions.max()) >= self.max_context:
            longest = int(positions.max()) + 1
            raise DataError(f"{longest} tokens are more than the model's context of {self.max_context}")
        lengths = positions + attend.sum(1)  # tokens before each, and from it on
        masks = self._masks(attend[:, None], 0, T)
        return self._through(ids, positions, lengths, [None] * len(self.blocks), masks)

    def states(self, ids: Tensor) -> Hidden:
        """See `contract.LanguageModel`; the last layer is the output of the norm."""
        x, turns, masks = self._whole(ids)
        layers = [x]
        for block, mask, turn in zip(self.blocks, masks, turns, strict=True):
            layers.append(block(layers[-1], mask=mask, turn=turn))
        layers[-1] = self.norm(layers[-1])
        return Hidden(layers[-1], tuple(layers))

    @property
    def attention_size(self) -> tuple[int, int]:
        """See `contract.Attends`."""
        return len(self.blocks), self.config.num_attention_heads

    def attention_weights(self, ids: Tensor, types: Tensor | None = None) -> Iterator[Tensor]:
        """See `contract.Attends`."""
        x, turns, masks = self._whole(ids)
        for block, mask, turn in zip(self.blocks, masks, turns, strict=True):
            x = yield from block.observed(x, weighted_by(mask, turn))

    def position_vectors(self, length: int) -> Tensor | None:
        """See `contract.Positioned`."""
        return self.position_embedding.first(length)

    def _whole(self, ids: Tensor) -> tuple[Tensor, Sequence[Turn | None], Sequence[Any]]:
        """Whole texts as the blocks take them: x, the turn and the mask of each layer. Raises DataError beyond the context."""
        T = ids.shape[1]
        if self.max_context < T:
            raise DataError(f"{T} tokens are more than the model's context of {self.max_context}")
        positions = torch.arange(T, device=ids.device)
        return self._embedded(ids, positions), self._turns(positions, T), self._masks(None, 0, T)

    def _embedded(self, ids: Tensor, positions: Tensor) -> Tensor:
        """What goes into the first block, (..., T) -> (..., T, D)."""
        return self.dropout(self.position_embedding.add_to(self.token_embedding(ids), positions))

    def _turns(self, positions: Tensor, lengths: Tensor | int) -> Sequence[Turn | None]:
        """How positions change queries and keys of each layer. Arguments: see `Positions.turn`."""
        return [self.position_embedding.turn(positions, lengths)] * len(self.blocks)

    def _masks(self, attend: Mask | None, past: int, T: int) -> Sequence[Mask | None]:
        """The mask of each layer, for T tokens after `past` others; `attend`: as `Cache.extend` or `ragged` returns it."""
        return [attend] * len(self.blocks)

    def start(self, batch_size: int, capacity: int) -> GPTState:
        """See `contract.LanguageModel`."""
        kept = type_of_kept_keys(self.token_embedding.weight.device)
        return GPTState(Cache.of(len(self.blocks), capacity, kept), longest=capacity)
