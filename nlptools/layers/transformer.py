"""The Transformer block.

Vaswani et al. 2017 (arXiv:1706.03762); pre-norm as in Radford et al. 2019 (GPT-2).
Systems vary in the classes of a block's slots (norm, self-attention, feed-forward) and in few settings: norm before or
after, activation, causal or not, attention to a source or none. The lists are closed: a new idea is a new class for a slot,
and a name for it. Positions (`layers.positions`) belong to the model, which adds them to its embeddings, or hands each block
the map of queries and keys that they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from nlptools.layers.attention import CrossAttention, SelfAttention, Source
from nlptools.layers.cache import KeyValues
from nlptools.layers.dropout import Dropout
from nlptools.layers.grouped_attention import GroupedQueryAttention
from nlptools.layers.linear import Linear
from nlptools.layers.norms import RMSNorm
from nlptools.layers.positions import Turn
from nlptools.layers.relative_attention import RelativeAttention

Heads = Callable[[Any, Tensor], Tensor]  # the heads of a block's self-attention: (..., D) -> (..., H * K)


class FeedForward(nn.Module):
    """Two linear maps around an activation (section 3.3)."""

    def __init__(
        self, hidden_size: int, intermediate_size: int, activation: str, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.activation = activation
        self.up = Linear(hidden_size, intermediate_size, bias=bias)
        self.down = Linear(intermediate_size, hidden_size, bias=bias)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        return self.down(self.inner(x))

    def inner(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., intermediate size): what the second map is given."""
        return self.dropout(self.up(x, self.activation))


class GatedFeedForward(FeedForward):
    """The first map is multiplied with a gate, which the activation is applied to (Shazeer 2020, arXiv:2002.05202)."""

    def __init__(
        self, hidden_size: int, intermediate_size: int, activation: str, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__(hidden_size, intermediate_size, activation, dropout, bias)
        self.gate = Linear(hidden_size, intermediate_size, bias=bias)

    def inner(self, x: Tensor) -> Tensor:
        """See `FeedForward`."""
        return self.dropout(self.up.times(self.gate(x, self.activation), x))


# The slots of a block: a name in a configuration, and the class that it stands for.
NORMS: dict[str, type[nn.Module]] = {"layer": nn.LayerNorm, "rms": RMSNorm}  # (hidden_size, eps)
ATTENTIONS: dict[str, Any] = {  # (hidden_size, num_heads, dropout, causal)
    "multi-head": SelfAttention,
    "grouped-query": GroupedQueryAttention,
    "relative": RelativeAttention,
}
FEED_FORWARDS = {"plain": FeedForward, "gated": GatedFeedForward}


class Block(nn.Module):
    """Self-attention, optionally attention to a source, and feed-forward, each with its residual and norm."""

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
        attention_options: Mapping[str, Any] | None = None,
        feed_forward_bias: bool = True,
    ) -> None:
        """
        Args:
            norm, attention, feed_forward: names in `NORMS`, `ATTENTIONS` and `FEED_FORWARDS`.
            attention_options: more arguments of the class of `attention`.
        """
        super().__init__()
        new_norm = NORMS[norm]
        self.pre_norm = pre_norm
        self.attention_norm = new_norm(hidden_size, eps)
        options = attention_options or {}
        self.attention = ATTENTIONS[attention](hidden_size, num_heads, attention_dropout, causal, **options)
        if cross:
            self.cross_attention_norm = new_norm(hidden_size, eps)
            self.cross_attention = CrossAttention(hidden_size, num_heads, attention_dropout)
        self.feed_forward_norm = new_norm(hidden_size, eps)
        self.feed_forward = FEED_FORWARDS[feed_forward](
            hidden_size, intermediate_size, activation, activation_dropout, feed_forward_bias
        )
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        cache: KeyValues | None = None,
        mask: Tensor | None = None,
        *,
        turn: Turn | None = None,
        source: Source | None = None,
        layer: int = 0,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D).

        Args:
            cache, mask, turn: see `SelfAttention.heads`.
            source: what a block with `cross` attends to, as layer number `layer` of its decoder.
        """
        source_heads = None
        if source is not None:
            source_heads = partial(self.cross_attention.heads, layer=layer, source=source)

        def heads(attention: Any, x: Tensor) -> Tensor:
            out: Tensor = attention.heads(x, cache, mask, turn)
            return out

        return self.run(x, heads, source_heads=source_heads)

    def source_weights(
        self, x: Tensor, cache: KeyValues | None, mask: Tensor | None, source: Source, layer: int
    ) -> tuple[Tensor, Tensor]:
        """The result of `forward`, and how much each position attends to each of the source, (B, T, S)."""
        weights: list[Tensor] = []

        def source_heads(x: Tensor) -> Tensor:
            weights.append(self.cross_attention.weights(x, layer, source))
            return self.cross_attention.heads(x, layer, source)

        x = self.run(x, partial(SelfAttention.heads, cache=cache, mask=mask), source_heads=source_heads)
        return x, weights[0]

    def run(
        self,
        x: Tensor,
        heads: Heads,
        select: Callable[[Tensor], Tensor] | None = None,
        source_heads: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """As `forward`, with the heads of self-attention computed by `heads`, (..., D) -> (..., D).

        Where `heads` computes some positions only, `select` chooses the same ones of x. `source_heads`: those of attention
        to a source, if any.
        """
        x = self._sublayer(self.attention_norm, x, partial(heads, self.attention), self.attention.output, select)
        if source_heads is not None:
            x = self._sublayer(self.cross_attention_norm, x, source_heads, self.cross_attention.output)
        return self._sublayer(self.feed_forward_norm, x, self.feed_forward.inner, self.feed_forward.down)

    def _sublayer(
        self,
        norm: nn.Module,
        x: Tensor,
        inner: Callable[[Tensor], Tensor],
        output: Linear,
        select: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """The map `output` of what `inner` computes, with dropout, residual and norm (sections 3.1 and 5.4)."""
        hidden = inner(norm(x) if self.pre_norm else x)
        residual = x if select is None else select(x)
        if self.dropout.active:
            x = self.dropout.add(residual, output(hidden))
        else:
            x = output.add_to(residual, hidden)
        return x if self.pre_norm else norm(x)
