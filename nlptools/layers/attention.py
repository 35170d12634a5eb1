"""Multi-head attention, to the sequence itself and to a source.

Vaswani et al. 2017, "Attention is all you need" (arXiv:1706.03762), section 3.2.
Departure: one projection for queries, keys and values (and one for keys and values of a source). The products and the
softmax of equation 1 are `compute.kernels.attention`; `weights` here is the same in plain operations.
A module's `heads` returns the concatenated heads; `forward` multiplies them with the output matrix W^O. Its `weighted` returns
the weights of the heads too, for looking at them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from nlptools.compute.kernels.attention import FEW_QUERIES, attention, cross_attention, self_attention
from nlptools.compute.kernels.capped_attention import capped
from nlptools.compute.kernels.ragged_attention import Ragged
from nlptools.layers.cache import KeyValues, all_in_order
from nlptools.layers.linear import Linear
from nlptools.layers.positions import Turn
from nlptools.layers.query_positions import QueryPositions
from nlptools.layers.relations import UNRELATED, Relation

# (B, 1, 1 or T, S), True = attend; or numbers (B, H, T, S) to add to the scaled products; or what rows of different lengths
# attend to, in inference
Mask = Tensor | Ragged


def cached_heads(
    query_BHTK: Tensor,
    key_BGTK: Tensor,
    value_BGTK: Tensor,
    cache: KeyValues,
    mask: Mask | None,
    dropout: float,
    causal: bool,
    cap: float = 0.0,
) -> Tensor:
    """(B, T, H * K): attention of new positions to those of a cache and themselves; their keys and values are added to it.

    See `compute.kernels.attention.attention`.
    """
    begin, (_, H, T, _) = cache.size, query_BHTK.shape
    few = FEW_QUERIES * key_BGTK.shape[1]
    if not (causal or dropout or cap) and few >= H and cache.steps():
        if isinstance(mask, Ragged):
            if mask.singly:
                return cache.step_rows(query_BHTK, key_BGTK, value_BGTK, mask.own, mask.window)
        elif few >= H * T:
            return cache.step(query_BHTK, key_BGTK, value_BGTK, mask)
    keys, values = cache.append(torch.stack([key_BGTK, value_BGTK]))
    if not begin:  # the cache may have another type
        keys, values = key_BGTK, value_BGTK
    if isinstance(mask, Ragged):
        heads = mask.attend(query_BHTK, keys, values, cap)
    else:
        heads = attention(query_BHTK, keys, values, mask, dropout, causal, cap)
    return heads.transpose(1, 2).flatten(2)


class Weighted(NamedTuple):
    """Attention with its weights."""

    weights: Tensor  # (B, H, T, S), float32
    values: Tensor  # (B, H, S, K)

    def heads(self) -> Tensor:
        """(B, T, H * K): the concatenated heads."""
        return (self.weights.to(self.values.dtype) @ self.values).transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Each position attends to itself and those before it (`causal`), or to all."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        dropout: float = 0.0,
        causal: bool = True,
        bias: bool = True,
        *,
        head_size: int = 0,
        scaled: bool = True,
    ) -> None:
        """Args:
        head_size: 0: hidden_size / num_heads.
        scaled: whether products of queries and keys are divided by sqrt(K).
        """
        super().__init__()
        self.num_heads, self.head_size = num_heads, head_size or hidden_size // num_heads
        self.dropout = dropout
        self.causal = causal
        self.factor = 1.0 if scaled else self.head_size**0.5  # of queries: the products are divided all the same
        inner = num_heads * self.head_size
        self.query_key_value = Linear(hidden_size, 3 * inner, bias=bias)
        self.output = Linear(inner, hidden_size, bias=bias)

    def forward(self, x: Tensor, cache: KeyValues | None = None, mask: Mask | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); see `heads`."""
        return self.output(self.heads(x, cache, mask))

    def heads(
        self, x: Tensor, cache: KeyValues | None = None, mask: Mask | None = None, turn: Turn | None = None
    ) -> Tensor:
        """(B, T, D) -> (B, T, H * K).

        Args:
            cache: keys and values of earlier positions; the keys and values of `x` are added.
            mask: replaces the causal mask; without a cache, a tensor.
            turn: how the positions of `x` change its queries and keys.
        """
        qkv_BT3HK = self._projected(x, turn)
        dropout = self.dropout if self.training else 0.0
        causal = self.causal and mask is None and x.shape[1] > 1
        if cache is None:
            assert not isinstance(mask, Ragged)
            return self_attention(qkv_BT3HK, mask, dropout, causal)
        query, key, value = qkv_BT3HK.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
        return cached_heads(query, key, value, cache, mask, dropout, causal)

    def weighted(self, x: Tensor, mask: Tensor | None = None, turn: Turn | None = None) -> Weighted:
        """(B, T, D): the weights that `heads` applies without a cache or dropout."""
        query, key, value = self._projected(x, turn).permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
        mask = past_mask(x) if mask is None and self.causal else mask
        return Weighted(weights(query.float(), key.float(), mask), value)

    def _projected(self, x: Tensor, turn: Turn | None) -> Tensor:
        """(B, T, D) -> (B, T, 3, H, K): queries, keys and values."""
        qkv_BT3HK: Tensor = self.query_key_value(x).view(*x.shape[:2], 3, self.num_heads, self.head_size)
        if self.factor != 1.0:
            qkv_BT3HK = torch.cat([qkv_BT3HK[:, :, :1] * self.factor, qkv_BT3HK[:, :, 1:]], 2)
        return qkv_BT3HK if turn is None else torch.cat([turn(qkv_BT3HK[:, :, :2]), qkv_BT3HK[:, :, 2:]], 2)

    def related_heads(self, x: Tensor, mask: Tensor | None, relation: Relation) -> Tensor:
        """(B, T, D) -> (B, T, H * K): as `heads`, not causal, with what `relation` says of distances in the row."""
        return self.among(*self._related(x, mask, relation), relation)

    def among(self, qkv_BT3HK: Tensor, mask: Tensor | None, relation: Relation) -> Tensor:
        """Queries, keys and values that `relation` has turned -> (B, T, H * K). `mask`: with the window of `relation`."""
        dropout = self.dropout if self.training else 0.0
        query, key, value = qkv_BT3HK.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
        scores_BHTT = relation.scores(self, query, key)
        if scores_BHTT is None:
            return self_attention(qkv_BT3HK, mask, dropout)
        weights_BHTT = weights(query, key, mask, scores_BHTT)
        return (functional.dropout(weights_BHTT, dropout) @ value).transpose(1, 2).flatten(2)

    def related_weighted(self, x: Tensor, relation: Relation) -> Weighted:
        """(B, T, D): the weights that `related_heads` applies to rows without padding, without dropout."""
        qkv_BT3HK, mask = self._related(x, None, relation)
        query, key, value = qkv_BT3HK.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
        return Weighted(weights(query.float(), key.float(), mask, relation.scores(self, query, key)), value)

    def _related(self, x: Tensor, mask: Tensor | None, relation: Relation) -> tuple[Tensor, Tensor | None]:
        """Queries, keys and values (B, T, 3, H, K) of x (B, T, D), and the mask with the window of `relation`."""
        qkv_BT3HK = relation.turned(self.query_key_value(x).view(*x.shape[:2], 3, self.num_heads, self.head_size))
        return qkv_BT3HK, within(relation.window, x.shape[1], mask, x.device)

    def of_distances(self, part: str, vectors: Tensor) -> Tensor:
        """See `relations.DistanceMaps`; by the maps of contents."""
        D = vectors.shape[1]
        return self.query_key_value.part(vectors, slice(0, D) if part == "query" else slice(D, 2 * D))

    def heads_at(
        self, x: Tensor, positions: QueryPositions, mask: Tensor | None = None, relation: Relation = UNRELATED
    ) -> Tensor:
        """(B, T, D) -> (M, D): what `related_heads` computes for the wanted positions."""
        if relation is not UNRELATED:
            return positions.select(self.related_heads(x, mask, relation))
        (B, T, D), heads = x.shape, (self.num_heads, self.head_size)
        project = self.query_key_value.part
        query_BQHK = project(positions.queries(x), slice(0, D)).view(B, -1, *heads)
        key_value_BT2HK = project(x, slice(D, 3 * D)).view(B, T, 2, *heads)
        if mask is not None and mask.shape[2] > 1:
            mask = positions.queries(mask.squeeze(1))[:, None]
        attended = cross_attention(query_BQHK, key_value_BT2HK, mask, self.dropout if self.training else 0.0)
        return attended.reshape(-1, D).index_select(0, positions.wanted)

    def plain_heads(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D): as `heads` without causal mask or dropout, in plain operations, for export."""
        qkv_BT3HK: Tensor = self.query_key_value(x).view(*x.shape[:2], 3, self.num_heads, self.head_size)
        query, key, value = qkv_BT3HK.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, K)
        return (weights(query, key, mask) @ value).transpose(1, 2).reshape(x.shape)


class DisentangledAttention(SelfAttention):
    """Self-attention with queries and keys of distances, see `relations.Disentangled`."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        dropout: float = 0.0,
        causal: bool = False,
        *,
        kinds: tuple[str, ...] = (),
    ) -> None:
        """`kinds`: kinds of `relations.Disentangled` with separate maps; the others share the maps of the contents."""
        super().__init__(hidden_size, num_heads, dropout, causal)
        self.distance_key = Linear(hidden_size, hidden_size) if "c2p" in kinds else None
        self.distance_query = Linear(hidden_size, hidden_size) if "p2c" in kinds else None

    def of_distances(self, part: str, vectors: Tensor) -> Tensor:
        """See `relations.DistanceMaps`."""
        own = self.distance_query if part == "query" else self.distance_key
        return super().of_distances(part, vectors) if own is None else own(vectors)


class SourceMemory:
    """The source for the layers of a decoder: keys and values of each layer, once for all hypotheses of a source."""

    def __init__(self, layers: list[Tensor], mask: Tensor | None) -> None:
        self.layers = layers  # each (B, S, 2, H, K); see `CrossAttention.project` for their order in memory
        self.mask = mask  # (B, 1, 1, S), True = real; None: all of it

    def select(self, inputs: Tensor) -> SourceMemory:
        """A choice of the sources; for decoding."""
        if all_in_order(inputs, len(self.layers[0])):
            return self
        mask = None if self.mask is None else self.mask[inputs]
        layers = (layer.permute(2, 0, 3, 1, 4).index_select(1, inputs).permute(1, 3, 0, 2, 4) for layer in self.layers)
        return SourceMemory(list(layers), mask)


class CrossAttention(nn.Module):
    """Each position attends to all real positions of a source."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        head_size: int = 0,
        scaled: bool = True,
    ) -> None:
        """See `SelfAttention`."""
        super().__init__()
        self.num_heads, self.head_size = num_heads, head_size or hidden_size // num_heads
        self.dropout = dropout
        self.factor = 1.0 if scaled else self.head_size**0.5
        inner = num_heads * self.head_size
        self.query = Linear(hidden_size, inner, bias=bias)
        self.key_value = Linear(hidden_size, 2 * inner, bias=bias)
        self.output = Linear(inner, hidden_size, bias=bias)

    def project(self, memory: Tensor, decoding: bool) -> Tensor:
        """Keys and values (B, S, 2, H, K) of a source (B, S, D).

        For `decoding`, each head of each source is contiguous in memory, and in float32 on a CPU, as in `Cache`.
        """
        B, S, _ = memory.shape
        key_value_BS2HK: Tensor = self.key_value(memory).view(B, S, 2, self.num_heads, self.head_size)
        if not decoding:
            return key_value_BS2HK
        by_head = key_value_BS2HK.permute(2, 0, 3, 1, 4)
        by_head = by_head.float().contiguous() if memory.device.type == "cpu" else by_head.contiguous()
        return by_head.permute(1, 3, 0, 2, 4)

    def forward(self, x: Tensor, layer: int, source: SourceMemory) -> Tensor:
        """(B, T, D) -> (B, T, D); see `heads`."""
        return self.output(self.heads(x, layer, source))

    def heads(self, x: Tensor, layer: int, source: SourceMemory) -> Tensor:
        """(B, T, D) -> (B, T, H * K); `layer` is the number of this layer in the decoder."""
        return cross_attention(
            self._queries(x), source.layers[layer], source.mask, self.dropout if self.training else 0.0
        )

    def weighted(self, x: Tensor, layer: int, source: SourceMemory) -> Weighted:
        """(B, T, D): the weights that `heads` applies without dropout."""
        key, value = source.layers[layer].permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, S, K)
        return Weighted(weights(self._queries(x).transpose(1, 2).float(), key.float(), source.mask), value)

    def _queries(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, H, K)."""
        query_BTHK: Tensor = self.query(x).view(*x.shape[:2], self.num_heads, self.head_size)
        return query_BTHK if self.factor == 1.0 else query_BTHK * self.factor


def weights(
    query_BHTK: Tensor,
    key_BHSK: Tensor,
    mask: Tensor | None = None,
    added_BHTS: Tensor | None = None,
    cap: float = 0.0,
) -> Tensor:
    """softmax(Q K^T / sqrt(K)) of each head: (B, H, T, S). `mask` (B, 1, 1 or T, S) or (T, S), True = attend, or numbers as
    `added_BHTS`, which are added before the softmax. `cap`: see `compute.kernels.capped_attention`.
    """
    scores_BHTS: Tensor = capped(query_BHTK * query_BHTK.shape[-1] ** -0.5 @ key_BHSK.transpose(-1, -2), cap)
    if added_BHTS is not None:
        scores_BHTS = scores_BHTS + added_BHTS
    if mask is not None and mask.is_floating_point():
        return (scores_BHTS + mask).softmax(-1)
    if mask is not None:  # not with -inf: a row that may attend to nothing would be NaN
        scores_BHTS = scores_BHTS.masked_fill(~mask, torch.finfo(scores_BHTS.dtype).min)
    return scores_BHTS.softmax(-1)


def within(window: int, length: int, mask: Tensor | None, device: torch.device) -> Tensor | None:
    """(B or 1, 1, T, T), True = attend: `mask` (B, 1, 1 or T, T) where keys are at most `window` places away; 0: any place."""
    if not 0 < window < length - 1:
        return mask
    places = torch.arange(length, device=device)
    apart = (places - places[:, None]).abs()
    near = apart <= window
    # padding sees itself: a row that may attend to nothing would be NaN
    return near[None, None] if mask is None else (mask & near) | (apart == 0)


def past_mask(x: Tensor) -> Tensor:
    """(T, T), True = attend, for x (B, T, D): each position attends to itself and those before it."""
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril_()
