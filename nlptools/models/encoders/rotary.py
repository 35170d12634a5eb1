"""Encoders with rotary positions: ModernBERT and NomicBERT.

Warner et al. 2024, "ModernBERT" (arXiv:2412.13663): pre-norm blocks without biases, the first without a norm before attention;
gated feed-forward networks; every third layer attends to all tokens, the others to a window, with another base of the rotary
positions. Nussbaum et al. 2024, "Nomic Embed" (arXiv:2402.01613): post-norm blocks that attend to all tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, cast

from torch import Tensor, nn

from nlptools.errors import BundleError
from nlptools.json_types import Json
from nlptools.layers.heads import MaskedTokenHead, PredictionLayer
from nlptools.layers.linear import check_activation
from nlptools.layers.norms import LayerNorm
from nlptools.layers.positions import Rotary
from nlptools.layers.relations import Relation, Rotation
from nlptools.layers.rotary_scaling import rotary_rates
from nlptools.layers.transformer import Block
from nlptools.models.contract import linear_maps
from nlptools.models.encoders.bert import Bert, EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads

_LARGEST_BASE = 1e15  # of rotary positions


@dataclass(frozen=True)
class RotaryEncoderConfig(EncoderConfig):
    """Sizes and variants of an encoder with rotary positions. Dropouts apply in training only."""

    rope_theta: int | float = 10000.0
    local_rope_theta: int | float = 10000.0  # of layers with a window
    rope_scaling: Mapping[str, Json] | None = None  # see `layers.rotary_scaling`
    local_window: int = 0  # the largest distance that a layer with a window attends to; 0: no layer has one
    whole_layers: tuple[int, ...] = ()  # the layers without a window
    pre_norm: bool = True
    attention_bias: bool = False
    feed_forward_bias: bool = False
    norm_bias: bool = False
    layer_before_heads: bool = True  # see `layers.heads.PredictionLayer`
    classifier_activation: str = "gelu"
    classifier_bias: bool = False
    classifier_pooling: str = "cls"

    learns_positions: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "whole_layers", tuple(self.whole_layers))  # which may come from JSON
        check_activation(self.classifier_activation)
        if self.head_size % 2:
            raise BundleError(f"rotary positions need heads of an even size, not of {self.head_size}")
        for name in ("rope_theta", "local_rope_theta"):
            value = vars(self)[name]
            if type(value) not in (int, float) or not 1 < value <= _LARGEST_BASE:
                raise BundleError(f"{name} is {value!r:.80}, expected a number above 1, up to {_LARGEST_BASE:g}")
        rates = rotary_rates(self.head_size, self.rope_theta, self.rope_scaling, self.max_position_embeddings)
        if rates.far is not None:
            raise BundleError("scaling of rotary positions 'longrope' is not supported in encoders")
        if type(self.local_window) is not int or self.local_window < 0:
            raise BundleError(f"local_window is {self.local_window!r:.80}, expected a whole number from 0")
        if self.classifier_pooling not in ("cls", "mean"):
            raise BundleError(
                f"classifier_pooling {self.classifier_pooling!r:.80} is not supported, expected cls or mean"
            )

    @property
    def head_size(self) -> int:
        """K."""
        return self.hidden_size // self.num_attention_heads

    @property
    def pools_means(self) -> bool:  # type: ignore[override]
        """See `EncoderConfig`."""
        return self.classifier_pooling == "mean"

    def encoder(self, pooler: bool) -> RotaryEncoder:
        """See `EncoderConfig`."""
        return RotaryEncoder(self, pooler)

    def masked_head(self) -> MaskedTokenHead:
        """See `EncoderConfig`."""
        if not self.layer_before_heads:
            return super().masked_head()
        sizes = (self.hidden_size, self.hidden_size, self.vocab_size)
        biases = (self.classifier_bias, self.norm_bias)
        return MaskedTokenHead(*sizes, self.classifier_activation, self.layer_norm_eps, *biases)

    def before_heads(self) -> PredictionLayer | None:
        """See `EncoderConfig`."""
        if not self.layer_before_heads:
            return None
        settings = (self.classifier_activation, self.layer_norm_eps, self.classifier_bias, self.norm_bias)
        return PredictionLayer(self.hidden_size, *settings)

    def is_pooled(self, head: str) -> bool:
        """See `EncoderConfig`."""
        return not self.layer_before_heads


class RotaryEncoder(Bert):
    """See the module's docstring; fulfils `contract.Encoder`."""

    def __init__(self, config: RotaryEncoderConfig, pooler: bool = False) -> None:
        super().__init__(config, pooler)
        self.sizes = config
        length, D, K = config.max_position_embeddings, config.hidden_size, config.head_size
        self.whole = Rotary(length, D, K, config.rope_theta, config.rope_scaling)
        self.local = Rotary(length, D, K, config.local_rope_theta, config.rope_scaling)
        self.embedding_norm = LayerNorm(D, config.layer_norm_eps, bias=config.norm_bias)
        if config.pre_norm:
            self.blocks[0].attention_norm = nn.Identity()
            self.final_norm = LayerNorm(D, config.layer_norm_eps, bias=config.norm_bias)

    def block(self) -> Callable[..., Block]:
        """See `Bert`."""
        config = cast(RotaryEncoderConfig, self.config)
        return partial(
            super().block(),
            pre_norm=config.pre_norm,
            norm="layer" if config.norm_bias else "layer-without-bias",
            attention_options={"bias": config.attention_bias},
            feed_forward="gated",
            feed_forward_bias=config.feed_forward_bias,
        )

    def relations(self, positions: Tensor) -> Sequence[Relation]:
        """See `Bert`."""
        config = self.sizes
        whole, local = (rotary.turn(positions) for rotary in (self.whole, self.local))
        assert whole is not None and local is not None
        everywhere = Rotation(whole)
        if not config.local_window:
            return [everywhere] * config.num_hidden_layers
        nearby = Rotation(local, config.local_window)
        return [everywhere if layer in config.whole_layers else nearby for layer in range(config.num_hidden_layers)]

    def finished(self, x: Tensor) -> Tensor:
        """See `Bert`."""
        out: Tensor = self.final_norm(x) if self.sizes.pre_norm else x
        return out

    def linear_maps(self) -> list[str]:
        """See `contract.Layered`. In folders of ModernBERT, a gate and what it multiplies are one matrix: no adapters."""
        names = [name for name in linear_maps(self) if name.startswith("blocks.")]
        return [name for name in names if not name.endswith((".gate", ".up"))] if self.sizes.pre_norm else names


class RotaryEncoderWithHeads(BertWithHeads):
    """A `RotaryEncoder` with heads."""
