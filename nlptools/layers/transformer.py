"""The Transformer block and stack.

Vaswani et al. 2017 (arXiv:1706.03762); pre-norm as in Radford et al. 2019 (GPT-2).
Systems vary in the classes of a block's slots (norm, self-attention, feed-forward) and in few settings: norm before or
after, activation, causal or not, attention to a source or none. The lists are closed: a new idea is a new class for a slot,
and a name for it. Positions that are added to the embeddings belong to the model, others to a class of attention.
Shapes: B batch, T length, D hidden.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from nlptools.layers.attention import CrossAttention, SelfAttention, Source
from nlptools.layers.cache import KeyValues
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import Linear
from nlptools.layers.places import Places


class FeedForward(nn.Module):
    """Two linear maps around an activation (section 3.3)."""

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str, dropout: float = 0.0) -> None:
        super().__init__()
        self.activation = activation
        self.up = Linear(hidden_size, intermediate_size)
        self.down = Linear(intermediate_size, hidden_size)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        out: Tensor = self.down(self.inner(x))
        return out

    def inner(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., intermediate size): what the second map is given."""
        out: Tensor = self.dropout(self.up(x, self.activation))
        return out


class GatedFeedForward(FeedForward):
    """The first map is multiplied with a gate, which the activation is applied to (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str, dropout: float = 0.0) -> None:
        super().__init__(hidden_size, intermediate_size, activation, dropout)
        self.gate = Linear(hidden_size, intermediate_size)

    def inner(self, x: Tensor) -> Tensor:
        """See `FeedForward`."""
        out: Tensor = self.dropout(self.gate(x, self.activation) * self.up(x))
        return out


# The slots of a block: a name in a configuration, and the class that it stands for.
NORMS: dict[str, type[nn.Module]] = {"layer": nn.LayerNorm, "rms": nn.RMSNorm}  # (hidden_size, eps)
ATTENTIONS = {"multi-head": SelfAttention}  # (hidden_size, num_heads, dropout, causal)
FEED_FORWARDS = {"plain": FeedForward, "gated": GatedFeedForward}


class Block(nn.Module):
    """Self-attention, perhaps attention to a source, and feed-forward, each with its residual and norm."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        intermediate_size: int,
        *,
        activation: str = "gelu_new",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        eps: float = 1e-5,
        pre_norm: bool = True,
        causal: bool = True,
        cross: bool = False,
        norm: str = "layer",
        attention: str = "multi-head",
        feed_forward: str = "plain",
    ) -> None:
        """`norm`, `attention`, `feed_forward`: names in `NORMS`, `ATTENTIONS` and `FEED_FORWARDS`."""
        super().__init__()
        new_norm = NORMS[norm]
        self.pre_norm = pre_norm
        self.attention_norm = new_norm(hidden_size, eps)
        self.attention = ATTENTIONS[attention](hidden_size, num_heads, attention_dropout, causal)
        if cross:
            self.cross_attention_norm = new_norm(hidden_size, eps)
            self.cross_attention = CrossAttention(hidden_size, num_heads, attention_dropout)
        self.feed_forward_norm = new_norm(hidden_size, eps)
        self.feed_forward = FEED_FORWARDS[feed_forward](hidden_size, intermediate_size, activation, activation_dropout)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        cache: KeyValues | None = None,
        mask: Tensor | None = None,
        *,
        real: Tensor | None = None,
        source: Source | None = None,
        layer: int = 0,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D). `source` is what a block made with `cross` attends to, as its layer `layer`."""
        x = self._around(self.attention_norm, x, lambda x: self.attention(x, cache, mask, real))
        if source is not None:
            x = self._around(self.cross_attention_norm, x, lambda x: self.cross_attention(x, layer, source))
        return self._around(self.feed_forward_norm, x, self.feed_forward)

    def at(self, x: Tensor, places: Places, mask: Tensor | None = None, real: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (M, D): what `forward` gives those places, where attention is not causal."""
        attended = self.attention.at(self.attention_norm(x) if self.pre_norm else x, places, mask, real)
        found = self.dropout.add(places.select(x), attended)
        return self._around(
            self.feed_forward_norm, found if self.pre_norm else self.attention_norm(found), self.feed_forward
        )

    def source_weights(
        self, x: Tensor, cache: KeyValues | None, mask: Tensor | None, source: Source, layer: int
    ) -> tuple[Tensor, Tensor]:
        """What `forward` gives, and besides how much each position attends to each of the source, (B, T, S)."""
        x = self._around(self.attention_norm, x, lambda x: self.attention(x, cache, mask))
        query = self.cross_attention_norm(x) if self.pre_norm else x
        weights = self.cross_attention.weights(query, layer, source)
        x = self._around(self.cross_attention_norm, x, lambda x: self.cross_attention(x, layer, source))
        return self._around(self.feed_forward_norm, x, self.feed_forward), weights

    def _around(self, norm: nn.Module, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """`sublayer` with its residual and norm."""
        if self.pre_norm:
            return self.dropout.add(x, sublayer(norm(x)))
        out: Tensor = norm(self.dropout.add(x, sublayer(x)))
        return out
