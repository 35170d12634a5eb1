"""The Transformer block.

Vaswani et al. 2017 (arXiv:1706.03762); pre-norm as in Radford et al. 2019 (GPT-2).
Systems vary in the classes of a block's slots (norm, self-attention, feed-forward) and in few settings: norms before or
after, parts one after the other or in parallel, activation, causal or not, attention to a source or none. The lists are closed:
a new idea is a new class for a slot, and a name for it. Positions (`layers.positions`) belong to the model, which adds them to
its embeddings, or hands each block the map of queries and keys that they stand for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

from torch import Tensor, nn

from nlptools.layers.attention import (
    CrossAttention,
    DisentangledAttention,
    Mask,
    SelfAttention,
    SourceMemory,
    Weighted,
)
from nlptools.layers.cache import KeyValues
from nlptools.layers.direct import Direct
from nlptools.layers.dropout import Dropout
from nlptools.layers.grouped_attention import GroupedQueryAttention
from nlptools.layers.linear import Linear
from nlptools.layers.norms import NORMS
from nlptools.layers.positions import Turn
from nlptools.layers.relative_attention import RelativeAttention

Heads = Callable[[Any, Tensor], Tensor]  # the heads of a block's self-attention: (..., D) -> (..., H * K)


class FeedForward(Direct, nn.Module):
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
        """(..., D) -> (..., intermediate size): the input of the second map."""
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


# The slots of a block: a name in a configuration, and the class that it stands for; see also `norms.NORMS`.
ATTENTIONS: dict[str, Any] = {  # (hidden_size, num_heads, dropout, causal)
    "multi-head": SelfAttention,
    "grouped-query": GroupedQueryAttention,
    "relative": RelativeAttention,
    "disentangled": DisentangledAttention,
}
FEED_FORWARDS = {"plain": FeedForward, "gated": GatedFeedForward}


class Block(Direct, nn.Module):
    """Self-attention, optionally attention to a source, and feed-forward, each with its residual and norm.

    Attributes:
        separate: in training, only `forward` and `run` use the weights, so that they are needed there alone.
    """

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
        output_norm: bool = False,
        parallel: bool = False,
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
            pre_norm, output_norm: whether there are norms before the parts, and of what the parts return, before it is added
                to the residual. With neither, the sums pass a norm.
            parallel: whether feed-forward reads the input of the block, not the sum with attention (Wang & Komatsuzaki 2021,
                GPT-J). It needs `pre_norm`.
            norm, attention, feed_forward: names in `NORMS`, `ATTENTIONS` and `FEED_FORWARDS`.
            attention_options: more arguments of the class of `attention`, and of attention to a source.
        """
        super().__init__()
        self.separate = not cross  # a decoder projects the source for all blocks first
        new_norm = NORMS[norm]
        self.pre_norm, self.parallel = pre_norm, parallel
        has_norms = pre_norm or not output_norm
        self.attention_norm = new_norm(hidden_size, eps) if has_norms else nn.Identity()
        self.attention_output_norm = new_norm(hidden_size, eps) if output_norm else None
        options = attention_options or {}
        self.attention = ATTENTIONS[attention](hidden_size, num_heads, attention_dropout, causal, **options)
        if cross:
            self.cross_attention_norm = new_norm(hidden_size, eps)
            self.cross_attention = CrossAttention(hidden_size, num_heads, attention_dropout, **options)
        self.feed_forward_norm = new_norm(hidden_size, eps) if has_norms else nn.Identity()
        self.feed_forward_output_norm = new_norm(hidden_size, eps) if output_norm else None
        self.feed_forward = FEED_FORWARDS[feed_forward](
            hidden_size, intermediate_size, activation, activation_dropout, feed_forward_bias
        )
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        cache: KeyValues | None = None,
        mask: Mask | None = None,
        *,
        turn: Turn | None = None,
        source: SourceMemory | None = None,
        layer: int = 0,
        weights: list[Tensor] | None = None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D).

        Args:
            cache, mask, turn: see `SelfAttention.heads`.
            source: the source that a block with `cross` attends to, as layer number `layer` of its decoder.
            weights: gets how much each position attends to each of the source, (B, T, S).
        """
        norm, attention, begin = self.attention_norm, self.attention, x
        heads = attention.heads(norm(x) if self.pre_norm else x, cache, mask, turn)
        x = self._close(norm, x, attention.output, heads, self.attention_output_norm)
        if source is not None:
            norm, cross = self.cross_attention_norm, self.cross_attention
            normed = norm(x) if self.pre_norm else x
            if weights is not None:
                weights.append(cross.weighted(normed, layer, source).weights.mean(1))
            x = self._close(norm, x, cross.output, cross.heads(normed, layer, source))
        return self._fed_forward(x, begin)

    def run(self, x: Tensor, heads: Heads, select: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """As `forward` without a source, with the heads of self-attention computed by `heads`, (..., D) -> (..., D).

        Where `heads` computes some positions only, `select` chooses the same ones of x.
        """
        norm, attention = self.attention_norm, self.attention
        hidden = heads(attention, norm(x) if self.pre_norm else x)
        begin = x if select is None else select(x)
        return self._fed_forward(self._close(norm, begin, attention.output, hidden, self.attention_output_norm), begin)

    def observed(
        self, x: Tensor, weighted: Callable[[Any, Tensor], Weighted], source: SourceMemory | None = None, layer: int = 0
    ) -> Generator[Tensor, None, Tensor]:
        """As `run`, step by step: yields the weights (B, H, T, S) of self-attention, then of attention to the source if there
        is one, and returns the result (B, T, D). Each step is computed when the caller asks for it.

        Args:
            weighted: the attention of the block with its weights, by its module `attention`, given (B, T, D).
            source, layer: see `forward`.
        """
        norm, attention, begin = self.attention_norm, self.attention, x
        seen = weighted(attention, norm(x) if self.pre_norm else x)
        yield seen.weights
        x = self._close(norm, x, attention.output, seen.heads(), self.attention_output_norm)
        if source is not None:
            norm, cross = self.cross_attention_norm, self.cross_attention
            seen = cross.weighted(norm(x) if self.pre_norm else x, layer, source)
            yield seen.weights
            x = self._close(norm, x, cross.output, seen.heads())
        return self._fed_forward(x, begin)

    def _fed_forward(self, x: Tensor, begin: Tensor) -> Tensor:
        """The last part of the block: feed-forward, with its residual and norm; `begin`: the input of the block."""
        norm, feed_forward, read = self.feed_forward_norm, self.feed_forward, begin if self.parallel else x
        hidden = feed_forward.inner(norm(read) if self.pre_norm else read)
        return self._close(norm, x, feed_forward.down, hidden, self.feed_forward_output_norm)

    def _close(
        self, norm: nn.Module, residual: Tensor, output: Linear, hidden: Tensor, output_norm: nn.Module | None = None
    ) -> Tensor:
        """The last map of a part, with dropout, residual and norms (sections 3.1 and 5.4)."""
        if output_norm is not None:
            return self.dropout.add(residual, output_norm(output(hidden)))
        if self.dropout.active:
            x = self.dropout.add(residual, output(hidden))
        else:
            x = output.add_to(residual, hidden)
        return x if self.pre_norm else norm(x)


def weighted_by(
    mask: Tensor | None = None, turn: Turn | None = None
) -> Callable[[SelfAttention | GroupedQueryAttention, Tensor], Weighted]:
    """The argument of `Block.observed` where self-attention takes a mask and a turn, see `SelfAttention.heads`."""
    return lambda attention, x: attention.weighted(x, mask, turn)
