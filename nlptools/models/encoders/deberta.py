"""DeBERTa, versions 2 and 3: a BERT whose attention also compares contents with distances.

He et al. 2021, "DeBERTa" (arXiv:2006.03654) and "DeBERTaV3" (arXiv:2111.09543). Each distance, or bucket of distances, has a
vector; see `relations.Disentangled`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from torch import Tensor, nn

from nlptools.errors import BundleError
from nlptools.layers.linear import Linear
from nlptools.layers.relations import UNRELATED, Disentangled, Relation
from nlptools.layers.transformer import Block
from nlptools.models.encoders.bert import Bert, EncoderConfig
from nlptools.models.encoders.bert_with_heads import BertWithHeads


@dataclass(frozen=True)
class DebertaConfig(EncoderConfig):
    """Sizes and variants of a DeBERTa. Dropouts apply in training only."""

    attention_kinds: tuple[str, ...] = ("c2p", "p2c")  # see `relations.Disentangled`
    relative: bool = True  # whether distances have vectors
    position_buckets: int = 256  # of distances; 0: each distance has its vector
    farthest: int = 512  # the largest distance
    shares_maps: bool = True  # whether distances and contents have the same maps
    normed_distances: bool = True  # whether there is a norm of the vectors of distances
    position_biased_input: bool = False  # whether positions have embeddings, too

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("position_buckets", 0), ("farthest", 1)):
            value = vars(self)[name]
            if type(value) is not int or not least <= value <= 1 << 20:
                raise BundleError(f"{name} is {value!r:.80}, expected a whole number from {least} to {1 << 20}")
        if not {*self.attention_kinds} <= {"c2p", "p2c"} or len({*self.attention_kinds}) < len(self.attention_kinds):
            raise BundleError(f"pos_att_type is {self.attention_kinds!r:.80}, expected c2p, p2c or both")
        if self.attention_kinds and not self.relative:
            raise BundleError("pos_att_type without relative_attention is not supported")

    @property
    def learns_positions(self) -> bool:  # type: ignore[override]
        """See `EncoderConfig`."""
        return self.position_biased_input

    @property
    def span(self) -> int:
        """Half the number of vectors of distances."""
        return self.position_buckets or self.farthest

    def is_pooled(self, head: str) -> bool:
        """See `EncoderConfig`."""
        return False

    def encoder(self, pooler: bool) -> Deberta:
        """See `EncoderConfig`."""
        return Deberta(self, pooler)


class Deberta(Bert):
    """See the module's docstring; fulfils `contract.Encoder`."""

    def __init__(self, config: DebertaConfig, pooler: bool = False) -> None:
        super().__init__(config, pooler)
        self.sizes = config
        D, E = config.hidden_size, config.embedding_size
        self.embedding_norm = nn.LayerNorm(D, config.layer_norm_eps)
        if E != D:
            self.embedding_projection = Linear(E, D, bias=False)
        self.distance_embedding = nn.Embedding(2 * config.span, D) if config.relative else None
        self.distance_norm = nn.LayerNorm(D, config.layer_norm_eps) if config.normed_distances else None

    def block(self) -> Callable[..., Block]:
        """See `Bert`."""
        config = cast(DebertaConfig, self.config)
        kinds = () if config.shares_maps else config.attention_kinds
        return partial(super().block(), attention="disentangled", attention_options={"kinds": kinds})

    def relations(self, positions: Tensor) -> Sequence[Relation]:
        """See `Bert`."""
        config = self.sizes
        shared: Relation = UNRELATED
        if self.distance_embedding is not None:
            vectors: Tensor = self.distance_embedding.weight
            vectors = vectors if self.distance_norm is None else self.distance_norm(vectors)
            shared = Disentangled(
                self.dropout(vectors), config.span, config.position_buckets, config.farthest, config.attention_kinds
            )
        return [shared] * config.num_hidden_layers

    def project_and_norm(self, x: Tensor) -> Tensor:
        """See `Bert`: the norm comes last."""
        if self.sizes.embedding_size != self.sizes.hidden_size:
            x = self.embedding_projection(x)
        return self.dropout(self.embedding_norm(x))


class DebertaWithHeads(BertWithHeads):
    """A `Deberta` with heads."""
