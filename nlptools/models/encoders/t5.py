"""The encoder of a T5 without its decoder, as in Sentence-T5 (Ni et al. 2022, arXiv:2108.08877) and GTR.

Raffel et al. 2020, "T5" (arXiv:1910.10683): pre-norm blocks without biases; heads have learned scores of distances, and products
of queries and keys are not scaled. A text ends with a special token and begins with none, so heads for whole sequences take the
mean of all tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, cast

from torch import Tensor, nn

from nlptools.configs.checks import check_sizes
from nlptools.errors import BundleError
from nlptools.layers.norms import NORMS
from nlptools.layers.relations import Relation, UnscaledBuckets
from nlptools.layers.transformer import FEED_FORWARDS, Block
from nlptools.models.encoders.bert import Bert, EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads

_NORM = "rms"


@dataclass(frozen=True)
class T5EncoderConfig(EncoderConfig):
    """Sizes and variants of the encoder of a T5. Dropouts apply in training only."""

    head_size: int = 64
    farthest_distance: int = 128  # from this distance on, all are in one bucket
    feed_forward: str = "plain"  # a name in `layers.transformer.FEED_FORWARDS`

    learns_positions: ClassVar[bool] = False
    heads_divide: ClassVar[bool] = False
    pools_means: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, head_size=1 << 14, distance_buckets=1 << 10, farthest_distance=1 << 20)
        if self.feed_forward not in FEED_FORWARDS:
            raise BundleError(f"feed_forward {self.feed_forward!r:.80} is not supported")
        if self.distance_buckets % 4 or self.farthest_distance <= self.distance_buckets // 4:
            raise BundleError(
                f"{self.distance_buckets} buckets of distances up to {self.farthest_distance} are not supported"
            )

    def encoder(self, pooler: bool) -> T5Encoder:
        """See `EncoderConfig`."""
        return T5Encoder(self, pooler)

    def least_weights(self) -> int:
        """See `EncoderConfig`."""
        block = 4 * self.num_attention_heads * self.head_size + 2 * self.intermediate_size
        return (self.num_hidden_layers * block + self.vocab_size) * self.hidden_size


class T5Encoder(Bert):
    """See the module's docstring; fulfils `contract.Encoder`."""

    def __init__(self, config: T5EncoderConfig, pooler: bool = False) -> None:
        super().__init__(config, pooler)
        self.sizes = config
        self.embedding_norm = nn.Identity()
        self.final_norm = NORMS[_NORM](config.hidden_size, config.layer_norm_eps)

    def block(self) -> Callable[..., Block]:
        """See `Bert`."""
        config = cast(T5EncoderConfig, self.config)
        return partial(
            super().block(),
            pre_norm=True,
            norm=_NORM,
            activation_dropout=config.hidden_dropout,
            attention_options={"bias": False, "head_size": config.head_size},
            feed_forward=config.feed_forward,
            feed_forward_bias=False,
        )

    def relations(self, positions: Tensor) -> Sequence[Relation]:
        """See `Bert`."""
        assert self.distance_scores is not None
        return [UnscaledBuckets(self.distance_scores, self.sizes.farthest_distance)] * self.sizes.num_hidden_layers

    def finished(self, x: Tensor) -> Tensor:
        """See `Bert`."""
        out: Tensor = self.dropout(self.final_norm(x))
        return out


class T5EncoderWithHeads(BertWithHeads):
    """A `T5Encoder` with heads."""
