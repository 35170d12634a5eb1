"""What attention of an encoder knows of the distance between a query and a key.

A model hands each block a `Relation`, or None where positions are in its embeddings alone. A new scheme is a subclass.
Shapes: as in `layers`; distances are places of keys minus places of queries, in a row.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn

from nlptools.layers.positions import Turn


class DistanceMaps(Protocol):
    """Self-attention, as a relation sees it."""

    def of_distances(self, part: str, vectors: Tensor) -> Tensor:
        """(R, D) vectors of distances -> (R, D): their queries, or their keys, as `part`, "query" or "key", says."""


class Relation:
    """No relation: a base.

    Attributes:
        window: the largest distance that a position attends to, on either side; 0: any.
    """

    window = 0

    def turned(self, qkv: Tensor) -> Tensor:
        """Queries, keys and values (..., 3, H, K), as the products take them."""
        return qkv

    def scores(self, attention: DistanceMaps, query_BHTK: Tensor, key_BHTK: Tensor) -> Tensor | None:
        """The terms added to the scaled products of a block's queries and keys: (B or 1, H, T, T); None: nothing."""
        return None


UNRELATED = Relation()


class Rotation(Relation):
    """Rotary positions (Su et al. 2021, arXiv:2104.09864), and perhaps a window."""

    def __init__(self, turn: Turn, window: int = 0) -> None:
        self.turn, self.window = turn, window

    def turned(self, qkv: Tensor) -> Tensor:
        """See `Relation`."""
        return torch.cat([self.turn(qkv[..., :2, :, :]), qkv[..., 2:, :, :]], -3)


class DistanceBuckets(Relation):
    """A learned number for each head and bucket of distances, the same in all blocks (Raffel et al. 2020, arXiv:1910.10683)."""

    def __init__(self, table: nn.Embedding, farthest: int = 128) -> None:
        """`table`: (buckets, H); `farthest`: from this distance on, all are in one bucket."""
        self.table, self.farthest = table, farthest
        self._by_length: dict[int, Tensor] = {}

    def scores(self, attention: DistanceMaps, query_BHTK: Tensor, key_BHTK: Tensor) -> Tensor | None:
        """See `Relation`."""
        T = query_BHTK.shape[2]
        if T not in self._by_length:
            places = torch.arange(T, device=query_BHTK.device)
            buckets = distance_buckets(places - places[:, None], self.table.num_embeddings, self.farthest)
            self._by_length[T] = self.table(buckets).permute(2, 0, 1)[None]
        return self._by_length[T].to(query_BHTK.dtype)


class UnscaledBuckets(DistanceBuckets):
    """As `DistanceBuckets`, for products of queries and keys that are not scaled, as in a T5."""

    def turned(self, qkv: Tensor) -> Tensor:
        """See `Relation`: the products are divided by sqrt(K) afterwards."""
        return torch.cat([qkv[..., :1, :, :] * qkv.shape[-1] ** 0.5, qkv[..., 1:, :, :]], -3)


def distance_buckets(distances: Tensor, buckets: int, farthest: int) -> Tensor:
    """The bucket of each distance: one for each small distance, then of growing width; half of them for keys that follow."""
    half = buckets // 2
    return _bucket(distances.abs(), half, farthest) + (distances > 0) * half


def past_buckets(distances: Tensor, buckets: int, farthest: int) -> Tensor:
    """As `distance_buckets`, all of them for keys that come before: distances from 0 down."""
    return _bucket(-distances.clamp(max=0), buckets, farthest)


def _bucket(size: Tensor, buckets: int, farthest: int) -> Tensor:
    """The bucket of each size of a distance."""
    near = buckets // 2
    far = near + (torch.log(size.float() / near) / math.log(farthest / near) * (buckets - near)).long()
    return torch.where(size < near, size, far.clamp(max=buckets - 1))


def bucket_scores(table: nn.Embedding, distances: Tensor, farthest: int, mask: Tensor | None, causal: bool) -> Tensor:
    """The terms added to the products of queries and keys: (B or 1, H, T, S), -inf where a query does not attend.

    Args:
        table: (buckets, H): a learned number for each head and bucket.
        distances: (B or 1, T, S) or (T, S): places of keys minus places of queries.
        mask: (B or 1, 1, 1 or T, S), True = attend.
        causal: queries attend to themselves and the keys before them.
    """
    bucket = (past_buckets if causal else distance_buckets)(distances, table.num_embeddings, farthest)
    scores_BTSH: Tensor = table(bucket)
    scores_BHTS = scores_BTSH.view(-1, *scores_BTSH.shape[-3:]).permute(0, 3, 1, 2)
    if mask is None:
        return scores_BHTS.contiguous()
    return scores_BHTS.masked_fill(~mask, -torch.inf)


class Disentangled(Relation):
    """Products of contents with vectors of distances, both ways (He et al. 2021, "DeBERTa", arXiv:2006.03654, equation 4).

    All products are divided by sqrt(n K), where n is how many kinds there are.
    """

    def __init__(self, vectors: Tensor, span: int, buckets: int, farthest: int, kinds: tuple[str, ...]) -> None:
        """
        Args:
            vectors: (2 * span, D), of distances from -span to span - 1.
            buckets: of distances, 0: each has its vector.
            farthest: the distance at which the last bucket ends.
            kinds: "c2p" for contents of queries and distances, "p2c" for distances and contents of keys.
        """
        self.vectors, self.span, self.buckets, self.farthest, self.kinds = vectors, span, buckets, farthest, kinds
        self._rows: dict[int, Tensor] = {}

    def turned(self, qkv: Tensor) -> Tensor:
        """See `Relation`."""
        query, rest = qkv[..., :1, :, :], qkv[..., 1:, :, :]
        return torch.cat([query * (1 + len(self.kinds)) ** -0.5, rest], -3)

    def scores(self, attention: DistanceMaps, query_BHTK: Tensor, key_BHTK: Tensor) -> Tensor | None:
        """See `Relation`."""
        H, T, K = query_BHTK.shape[1:]
        if T not in self._rows:  # the vector of each distance that occurs, query minus key, from T - 1 down to 1 - T
            distances = torch.arange(T - 1, -T, -1, device=query_BHTK.device)
            if self.buckets:
                distances = logarithmic(distances, self.buckets, self.farthest)
            self._rows[T] = self.vectors[(distances + self.span).clamp(0, 2 * self.span - 1)]
        rows = self._rows[T].to(query_BHTK.dtype)  # (2T - 1, D)
        out: Tensor | None = None
        if "c2p" in self.kinds:  # the queries are scaled already
            keys_HRK = attention.of_distances("key", rows).view(-1, H, K).transpose(0, 1)
            out = _shifted(query_BHTK @ keys_HRK.transpose(1, 2) * K**-0.5)
        if "p2c" in self.kinds:
            queries_HRK = attention.of_distances("query", rows).view(-1, H, K).transpose(0, 1)
            scale = (K * (1 + len(self.kinds))) ** -0.5
            # rows from the smallest distance up: column j of key i is the query i - (T - 1) + j
            by_key = _shifted(key_BHTK @ queries_HRK.flip(1).transpose(1, 2) * scale).transpose(2, 3)
            out = by_key if out is None else out + by_key
        return out


def _shifted(products_BHTR: Tensor) -> Tensor:
    """(B, H, T, 2T - 1) products of places with all distances -> (B, H, T, T): row i has columns T - 1 - i and those after it."""
    B, H, T, R = products_BHTR.shape
    # a row is R long, so that a step of R - 1 begins each row one column earlier
    return products_BHTR.contiguous().as_strided((B, H, T, T), (H * T * R, T * R, R - 1, 1), T - 1)


def logarithmic(distances: Tensor, buckets: int, farthest: int) -> Tensor:
    """Distances, with those beyond half the number of buckets in buckets of growing width, as in DeBERTa v2."""
    middle = buckets // 2
    size = distances.abs()
    far = torch.log(size.clamp(min=1).float() / middle) / torch.log(torch.tensor((farthest - 1) / middle))
    bucket = torch.ceil(far * (middle - 1)) + middle
    return torch.where(size <= middle, distances, (bucket * distances.sign()).long())
