"""The Transformer block and stack.

Vaswani et al. 2017 (arXiv:1706.03762); pre-norm as in Radford et al. 2019 (GPT-2).
The variations between systems are settings of this file, and the list is closed: norm before or after, activation,
causal or not. A new idea comes as a new class for one of the slots.
Shapes: B batch, T length, D hidden.
"""

from __future__ import annotations

from torch import Tensor, nn

from nlptools.layers.attention import KeyValues, SelfAttention
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import Linear


class FeedForward(nn.Module):
    """Two linear maps around an activation (section 3.3)."""

    def __init__(self, hidden_size: int, intermediate_size: int, activation: str) -> None:
        super().__init__()
        self.activation = activation
        self.up = Linear(hidden_size, intermediate_size)
        self.down = Linear(intermediate_size, hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(self.up(x, self.activation))
        return out


class Block(nn.Module):
    """Self-attention and feed-forward, each with its residual and norm."""

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        intermediate_size: int,
        *,
        activation: str = "gelu_new",
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        eps: float = 1e-5,
        pre_norm: bool = True,
        causal: bool = True,
    ) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.attention_norm = nn.LayerNorm(hidden_size, eps)
        self.attention = SelfAttention(hidden_size, num_heads, attention_dropout, causal)
        self.feed_forward_norm = nn.LayerNorm(hidden_size, eps)
        self.feed_forward = FeedForward(hidden_size, intermediate_size, activation)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, cache: KeyValues | None = None, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        if self.pre_norm:
            x = self.dropout.add(x, self.attention(self.attention_norm(x), cache, mask))
            return self.dropout.add(x, self.feed_forward(self.feed_forward_norm(x)))
        x = self.attention_norm(self.dropout.add(x, self.attention(x, cache, mask)))
        out: Tensor = self.feed_forward_norm(self.dropout.add(x, self.feed_forward(x)))
        return out
