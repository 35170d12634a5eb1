"""Decoders of the LLaMA family: LLaMA, Mistral, Qwen2, Qwen3, SmolLM.

Touvron et al. 2023, "LLaMA" (arXiv:2302.13971): pre-norm blocks with RMSNorm, rotary positions, a gated feed-forward network
(SwiGLU) and no biases. Grouped-query attention as in LLaMA 2 (arXiv:2307.09288), a sliding window as in Mistral 7B
(arXiv:2310.06825), biases of queries, keys and values as in Qwen2 (arXiv:2407.10671), norms of queries and keys as in Qwen3
(arXiv:2505.09388). The output matrix is tied to the embedding or not.
Departures: residual projections are initialised with std 0.02 / sqrt(2 L), as in GPT-2.
Shapes: B batch, T length, S keys, D hidden, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.ragged_attention import Ragged
from nlptools.configs.architectures.transformer import ModernOptions
from nlptools.configs.checks import check_heads, check_sizes
from nlptools.errors import BundleError, UsageError
from nlptools.layers.attention import Mask
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import check_activation
from nlptools.layers.norms import RMSNorm
from nlptools.layers.output import padded_embedding
from nlptools.layers.positions import Rotary, rotary_rates
from nlptools.layers.transformer import Block
from nlptools.models.language.gpt import GPT

_LARGEST_BASE = 1e15  # of rotary positions


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
    rope_scaling: dict[str, Any] | None = None  # see `layers.positions.rotary_rates`
    query_key_norm: bool = False
    attention_bias: bool = False  # of queries, keys and values
    output_bias: bool = False  # of the output of attention
    feed_forward_bias: bool = False
    tie_word_embeddings: bool = True
    sliding_window: int = 0  # most tokens that a position attends to, itself included; 0: all
    max_window_layers: int = 0  # the first layer with a sliding window
    embedding_dropout: float = 0.0
    hidden_dropout: float = 0.0
    attention_dropout: float = 0.0

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
        if self.head_dim % 2:
            raise BundleError(f"rotary positions need heads of an even size, not of {self.head_dim}")
        for name in ("sliding_window", "max_window_layers"):
            if type(vars(self)[name]) is not int or vars(self)[name] < 0:
                raise BundleError(f"{name} is {vars(self)[name]!r:.80}, expected a whole number from 0")
        if type(self.rope_theta) not in (int, float) or not 1 < self.rope_theta <= _LARGEST_BASE:
            raise BundleError(
                f"rope_theta is {self.rope_theta!r:.80}, expected a number above 1, up to {_LARGEST_BASE:g}"
            )
        if not isinstance(self.rope_scaling, (dict, type(None))):
            raise BundleError(f"rope_scaling is {self.rope_scaling!r:.80}, expected an object or null")
        rotary_rates(self.head_dim, self.rope_theta, self.rope_scaling, self.max_position_embeddings)

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
        self.config: Any = config
        self.max_context = config.max_position_embeddings
        self.activation, self.initializer_range = config.activation, config.initializer_range
        D = config.hidden_size
        self.token_embedding = padded_embedding(config.vocab_size, D)
        self.output = self._output(config.vocab_size, config.tie_word_embeddings)
        self.position_embedding = Rotary(self.max_context, D, config.head_dim, config.rope_theta, config.rope_scaling)
        self.dropout = Dropout(config.embedding_dropout)
        self.blocks = nn.ModuleList(
            Block(
                D,
                config.num_attention_heads,
                config.intermediate_size,
                activation=config.activation,
                dropout=config.hidden_dropout,
                attention_dropout=config.attention_dropout,
                eps=config.rms_norm_eps,
                norm="rms",
                attention="grouped-query",
                attention_options={
                    "key_value_heads": config.num_key_value_heads,
                    "head_size": config.head_dim,
                    "bias": config.attention_bias,
                    "output_bias": config.output_bias,
                    "norm_eps": config.rms_norm_eps if config.query_key_norm else None,
                },
                feed_forward="gated",
                feed_forward_bias=config.feed_forward_bias,
            )
            for _ in range(config.num_hidden_layers)
        )
        self.norm: Any = RMSNorm(D, config.rms_norm_eps)

    def _masks(self, attend: Mask | None, past: int, T: int) -> Sequence[Mask | None]:
        """See `GPT`: the later layers see a window, if there is one."""
        config = self.config
        whole = min(config.max_window_layers, len(self.blocks)) if config.sliding_window else len(self.blocks)
        near = attend
        if whole < len(self.blocks):
            window, device = config.sliding_window, self.token_embedding.weight.device
            if isinstance(attend, Ragged):
                near = attend.within(window)
            else:
                near = within(attend, past, T, window, device)
        return [attend] * whole + [near] * (len(self.blocks) - whole)


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
