"""Decoders of the LLaMA family and its relatives.

Touvron et al. 2023, "LLaMA" (arXiv:2302.13971): pre-norm blocks with RMSNorm, rotary positions, a gated feed-forward network
(SwiGLU) and no biases. Grouped-query attention as in LLaMA 2 (arXiv:2307.09288), a sliding window as in Mistral 7B
(arXiv:2310.06825), biases of queries, keys and values as in Qwen2 (arXiv:2407.10671), norms of queries and keys as in Qwen3
(arXiv:2505.09388). The output matrix is tied to the embedding or not.
Variants of others: parallel residuals, LayerNorm and a part of each head that turns as in GPT-NeoX (arXiv:2204.06745); norms of
what attention and feed-forward return as in OLMo 2 (arXiv:2501.00656); layers without positions as in SmolLM3 (Yang et al.
2025, arXiv:2501.18795); learned positions as in OPT (arXiv:2205.01068); scaled embeddings, capped scores and logits, and two
bases of positions as in Gemma 2 and 3 (arXiv:2408.00118, arXiv:2503.19786).
Departures: residual projections are initialised with std 0.02 / sqrt(2 L), as in GPT-2.
Shapes: B batch, T length, S keys, D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.ragged_attention import Ragged
from nlptools.configs.architectures.transformer import ModernOptions
from nlptools.configs.checks import check_heads, check_sizes
from nlptools.errors import BundleError, UsageError
from nlptools.json_types import JsonObject
from nlptools.layers.attention import Mask
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import check_activation
from nlptools.layers.module_lists import Modules
from nlptools.layers.norms import NORMS
from nlptools.layers.output import padded_embedding
from nlptools.layers.positions import POSITIONS, Positions, Rotary, Turn
from nlptools.layers.rotary_scaling import rotary_rates
from nlptools.layers.traced_steps import TracedSteps
from nlptools.layers.transformer import FEED_FORWARDS, Block
from nlptools.models.language.gpt import GPT

_LARGEST_BASE = 1e15  # of rotary positions
_LARGEST_SCALE = 1e6  # of embeddings, scores and logits
_HALVES = {"phi3": (".gate", ".up")}  # maps that are halves of a matrix in folders: they have no adapters


@dataclass(frozen=True)
class ModernConfig:
    """Sizes and variants of a decoder. Dropouts apply in training only."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    num_key_value_heads: int = 0  # 0: num_attention_heads
    head_dim: int = 0  # 0: hidden_size / num_attention_heads
    intermediate_size: int = 0  # 0: 8/3 of the hidden size, in steps of 64
    activation: str = "swish"
    rms_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    rope_theta: int | float = 10000.0
    rope_scaling: JsonObject | None = None  # see `layers.rotary_scaling`
    query_key_norm: bool = False
    attention_bias: bool = False  # of queries, keys and values
    output_bias: bool = False  # of the output of attention
    feed_forward_bias: bool = False
    tie_word_embeddings: bool = True
    sliding_window: int = 0  # most tokens that a position attends to, itself included; 0: all
    whole_layers: tuple[int, ...] = ()  # the layers without a sliding window
    embedding_dropout: float = 0.0
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0
    layout: str = ""  # the model_type of its folders; "": of LLaMA or a near relative
    norm: str = "rms"  # a name in `layers.norms.NORMS`
    pre_norm: bool = True
    output_norm: bool = False  # norms of what attention and feed-forward return
    joint_norms: bool = False  # norms of queries and keys see all heads as one vector
    parallel: bool = False  # feed-forward reads what attention reads
    feed_forward: str = "gated"  # a name in `layers.transformer.FEED_FORWARDS`
    rotary_share: float = 1.0  # the part of each head that positions turn
    positions: str = "rotary"  # a name in `layers.positions.POSITIONS`
    causal: bool = True  # False: positions see each other in both directions; a window is on either side
    unturned_layers: tuple[int, ...] = ()  # the layers without positions
    local_rope_theta: int | float = 0.0  # of layers with a sliding window; 0: rope_theta, with its scaling
    embedding_scale: int | float = 1.0
    score_size: int | float = 0.0  # scores are divided by its root; 0: head_dim
    score_cap: int | float = 0.0  # see `compute.kernels.capped_attention`; 0: none
    logit_cap: int | float = 0.0  # the same of logits

    def __post_init__(self) -> None:
        D, heads = self.hidden_size, self.num_attention_heads
        if all(type(size) is int and size > 0 for size in (D, heads)):  # else `check_sizes` refuses them
            if not self.head_dim:
                check_heads(D, heads)
            for name, size in (
                ("num_key_value_heads", heads),
                ("head_dim", D // heads),
                ("intermediate_size", -(-8 * D // (3 * 64)) * 64),
            ):
                object.__setattr__(self, name, vars(self)[name] or size)
        check_sizes(self, num_key_value_heads=1 << 10, head_dim=1 << 16)
        if heads % self.num_key_value_heads:
            raise BundleError(
                f"{heads} attention heads are not a multiple of {self.num_key_value_heads} key-value heads"
            )
        check_activation(self.activation)
        for name, table in (("norm", NORMS), ("feed_forward", FEED_FORWARDS), ("positions", POSITIONS)):
            if vars(self)[name] not in table:
                raise BundleError(f"{name} is {vars(self)[name]!r:.80}, expected one of {', '.join(table)}")
        self._check_attention()
        self._check_positions()

    def _check_attention(self) -> None:
        if type(self.sliding_window) is not int or self.sliding_window < 0:
            raise BundleError(f"sliding_window is {self.sliding_window!r:.80}, expected a whole number from 0")
        for name in ("whole_layers", "unturned_layers"):
            layers = vars(self)[name]
            if not isinstance(layers, list | tuple) or not all(type(layer) is int for layer in layers):
                raise BundleError(f"{name} is {layers!r:.80}, expected numbers of layers")
            object.__setattr__(self, name, tuple(layers))
        for name in ("embedding_scale", "score_size", "score_cap", "logit_cap"):
            value = vars(self)[name]
            if type(value) not in (int, float) or not 0 <= value <= _LARGEST_SCALE:
                raise BundleError(f"{name} is {value!r:.80}, expected a number from 0 to {_LARGEST_SCALE:g}")

    def _check_positions(self) -> None:
        if self.positions != "rotary":
            return
        if type(self.rotary_share) not in (int, float) or not 0 < self.rotary_share <= 1:
            raise BundleError(f"the part of each head that turns is {self.rotary_share!r:.80}, expected from 0 to 1")
        turning = int(self.head_dim * self.rotary_share)
        if turning % 2 or not turning:
            what = "heads" if self.rotary_share == 1 else "parts of heads"
            raise BundleError(f"rotary positions need {what} of an even size, not of {turning}")
        for name in ("rope_theta", "local_rope_theta"):
            base = vars(self)[name]
            unset = name == "local_rope_theta" and base == 0
            if type(base) not in (int, float) or not (unset or 1 < base <= _LARGEST_BASE):
                raise BundleError(f"{name} is {base!r:.80}, expected a number above 1, up to {_LARGEST_BASE:g}")
        if not isinstance(self.rope_scaling, (dict, type(None))):
            raise BundleError(f"rope_scaling is {self.rope_scaling!r:.80}, expected an object or null")
        rotary_rates(turning, self.rope_theta, self.rope_scaling, self.max_position_embeddings)

    def has_window(self, layer: int) -> bool:
        """Whether a layer attends to a sliding window only."""
        return bool(self.sliding_window) and layer not in self.whole_layers

    @classmethod
    def from_options(cls, options: ModernOptions, vocab_size: int) -> ModernConfig:
        """The sizes that a command's options ask for. Raises UsageError for sizes that do not fit together."""
        if options.hidden % (2 * options.heads):
            raise UsageError(
                f"--hidden {options.hidden} is not a multiple of 2 x --heads {options.heads}: rotary positions turn pairs"
            )
        if options.key_value_heads and options.heads % options.key_value_heads:
            raise UsageError(
                f"--heads {options.heads} is not a multiple of --key-value-heads {options.key_value_heads}"
            )
        p = options.dropout
        return cls(
            vocab_size,
            options.hidden,
            options.layers,
            options.heads,
            options.context,
            num_key_value_heads=options.key_value_heads,
            intermediate_size=options.intermediate,
            rope_theta=options.rope_theta,
            query_key_norm=options.qk_norm,
            tie_word_embeddings=not options.untied,
            embedding_dropout=p,
            hidden_dropout=p,
            attention_dropout=p,
        )

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        D = self.hidden_size
        layer = D * (self.num_attention_heads * self.head_dim + self.intermediate_size)
        return self.num_hidden_layers * layer + self.vocab_size * D


class Modern(GPT):
    """See the module's docstring; fulfils `contract.LanguageModel`. It reads and decodes as a GPT, in other layers."""

    def __init__(self, config: ModernConfig) -> None:
        nn.Module.__init__(self)
        self.config: ModernConfig = config  # type: ignore[assignment]
        self.max_context = config.max_position_embeddings
        self.activation, self.initializer_range = config.activation, config.initializer_range
        D = config.hidden_size
        self.token_embedding = padded_embedding(config.vocab_size, D)
        self.output = self._output(config.vocab_size, config.tie_word_embeddings, config.logit_cap)
        self.unit_gain = NORMS[config.norm].unit
        self.position_embedding = self._positions(config.rope_theta, config.rope_scaling)
        local = config.local_rope_theta  # 0: layers with a window have the same positions as the others
        self.local_positions = self._positions(local) if local else None
        self.dropout = Dropout(config.embedding_dropout)
        self.blocks = Modules(self._block() for _ in range(config.num_hidden_layers))
        self.norm = NORMS[config.norm](D, config.rms_norm_eps)
        self.traced_steps = TracedSteps()

    def linear_maps(self) -> list[str]:
        """See `contract.Layered`."""
        halves = _HALVES.get(self.config.layout, ())
        return [name for name in super().linear_maps() if not name.endswith(halves)]

    def _positions(self, theta: float, scaling: JsonObject | None = None) -> Positions:
        config = self.config
        if config.positions != "rotary":
            return POSITIONS[config.positions](self.max_context, config.hidden_size, config.head_dim)
        return Rotary(self.max_context, config.hidden_size, config.head_dim, theta, scaling, config.rotary_share)

    def _block(self) -> Block:
        config = self.config
        return Block(
            config.hidden_size,
            config.num_attention_heads,
            config.intermediate_size,
            activation=config.activation,
            dropout=config.hidden_dropout,
            attention_dropout=config.attention_dropout,
            eps=config.rms_norm_eps,
            pre_norm=config.pre_norm,
            output_norm=config.output_norm,
            parallel=config.parallel,
            causal=config.causal,
            norm=config.norm,
            attention="grouped-query",
            attention_options={
                "key_value_heads": config.num_key_value_heads,
                "head_size": config.head_dim,
                "bias": config.attention_bias,
                "output_bias": config.output_bias,
                "norm_eps": config.rms_norm_eps if config.query_key_norm else None,
                "norm": config.norm,
                "joint_norms": config.joint_norms,
                "query_scale": (config.head_dim / config.score_size) ** 0.5 if config.score_size else 1.0,
                "cap": config.score_cap,
            },
            feed_forward=config.feed_forward,
            feed_forward_bias=config.feed_forward_bias,
        )

    def _embedded(self, ids: Tensor, positions: Tensor) -> Tensor:
        """See `GPT`."""
        x: Tensor = self.token_embedding(ids)
        if self.config.embedding_scale != 1.0:
            x = x * torch.tensor(self.config.embedding_scale, dtype=x.dtype)  # rounded to its type first, as in Gemma
        return self.dropout(self.position_embedding.add_to(x, positions))

    def _turns(self, positions: Tensor, lengths: Tensor | int) -> Sequence[Turn | None]:
        """See `GPT`: layers with a window may have another base, and some layers have no positions."""
        config = self.config
        whole = near = self.position_embedding.turn(positions, lengths)
        if self.local_positions is not None:
            near = self.local_positions.turn(positions, lengths)
        layers = range(len(self.blocks))
        turns = [near if config.has_window(layer) else whole for layer in layers]
        return [None if layer in config.unturned_layers else turns[layer] for layer in layers]

    def _masks(self, attend: Mask | None, past: int, T: int) -> Sequence[Mask | None]:
        """See `GPT`: some layers see a window."""
        windows = [self.config.has_window(layer) for layer in range(len(self.blocks))]
        near = attend
        if not self.config.causal:
            assert attend is None and not past  # it reads whole texts only
            near = _on_either_side(T, self.config.sliding_window, self.token_embedding.weight.device)
            return [near if is_near else None for is_near in windows]
        if any(windows):
            window, device = self.config.sliding_window, self.token_embedding.weight.device
            if isinstance(attend, Ragged):
                near = attend.within(window)
            else:
                near = within(attend, past, T, window, device)
        return [near if is_near else attend for is_near in windows]


class ModernReader(Modern):
    """The layers of a `Modern` without an output head: for sentence vectors."""

    def __init__(self, config: ModernConfig) -> None:
        super().__init__(config)
        self.drop_output()


def within(attend: Tensor | None, past: int, T: int, window: int, device: torch.device) -> Tensor | None:
    """A mask (B or 1, 1, 1 or T, S) in which each position attends to at most the last `window` of what `attend` allows.

    Slots of a cache are in the order of their tokens, also where hypotheses share them, so counting from the end is enough.
    """
    if past + T <= window:
        return attend
    if attend is None:
        distance = torch.arange(past, past + T, device=device)[:, None] - torch.arange(past + T, device=device)
        return ((distance >= 0) & (distance < window))[None, None]
    later = attend.flip(-1).cumsum(-1).flip(-1)  # how many there are from each slot on
    return attend & (later <= window)


def _on_either_side(T: int, window: int, device: torch.device) -> Tensor | None:
    """(1, 1, T, T): each position attends to those less than `window` away. None: to all."""
    if window >= T:
        return None
    places = torch.arange(T, device=device)
    return ((places[:, None] - places).abs() < window)[None, None]
