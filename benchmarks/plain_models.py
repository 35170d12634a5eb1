"""Language models as one writes them by hand in PyTorch, which training is compared with.

Each maps ids and targets, both (B, T), and its state, None at first, to the loss and the new state.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def normal(model: nn.Module) -> None:
    """Initialize as GPT-2 does."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)


# -- GPT-2 ------------------------------------------------------------------------------------------------------------


class GPTBlock(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.p = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (
            t.view(B, T, self.heads, D // self.heads).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(D, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.p if self.training else 0.0)
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(B, T, D)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")))


class PlainGPT(nn.Module):
    def __init__(self, vocab: int, context: int, width: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(GPTBlock(width, heads, dropout) for _ in range(layers))
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        normal(self)

    def forward(self, ids: Tensor, targets: Tensor, state: None) -> tuple[Tensor, None]:
        x = self.dropout(self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device)))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1)), None


# -- LLaMA ------------------------------------------------------------------------------------------------------------


class LlamaBlock(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.heads, self.groups, size = heads, groups, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)
        self.q, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(width, groups * size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        B, T, D = x.shape
        h = self.norm1(x)
        q, k, v = (
            p(h).view(B, T, n, -1).transpose(1, 2)
            for p, n in ((self.q, self.heads), (self.k, self.groups), (self.v, self.groups))
        )
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, D))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def turned(x: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([-b, a], -1)


class PlainLlama(nn.Module):
    def __init__(self, vocab: int, context: int, width: int, layers: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, groups, inner) for _ in range(layers))
        self.norm = nn.RMSNorm(width, 1e-5)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.tokens.weight
        size = width // heads
        angles = torch.arange(context)[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        normal(self)

    def forward(self, ids: Tensor, targets: Tensor, state: None) -> tuple[Tensor, None]:
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1)), None


# -- LSTM -------------------------------------------------------------------------------------------------------------


class PlainLSTM(nn.Module):
    def __init__(self, vocab: int, width: int, hidden: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.p, self.tokens, self.head = dropout, nn.Embedding(vocab, width), nn.Linear(hidden, vocab)
        self.lstm = nn.LSTM(width, hidden, layers, dropout=dropout)

    def forward(self, ids: Tensor, targets: Tensor, state: Any) -> tuple[Tensor, Any]:
        x, state = self.lstm(F.dropout(self.tokens(ids.t()), self.p, self.training), state)
        logits = self.head(F.dropout(x, self.p, self.training))
        loss = F.cross_entropy(logits.flatten(0, 1), targets.t().reshape(-1))
        return loss, tuple(each.detach() for each in state)


# -- Transformer-XL, after the paper (arXiv:1901.02860, appendix B) -----------------------------------------------------


class XLLayer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.qkv, self.distance = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2, self.dropout = nn.LayerNorm(width), nn.LayerNorm(width), nn.Dropout(dropout)

    def forward(self, x: Tensor, memory: Tensor, positions: Tensor, u: Tensor, v: Tensor, later: Tensor) -> Tensor:
        B, T, D = x.shape
        joined = torch.cat([memory, x], 1)
        S = joined.shape[1]
        q, k, v_ = (y.view(B, S, self.heads, self.size).transpose(1, 2) for y in self.qkv(joined).chunk(3, -1))
        q = q[:, :, S - T :]
        r = self.distance(positions).view(S, self.heads, self.size).transpose(0, 1)
        by_distance = (q + v[:, None]) @ r.transpose(1, 2)
        shifted = F.pad(by_distance, (1, 0)).view(B, self.heads, S + 1, T)[:, :, 1:].reshape(by_distance.shape)
        scores = ((q + u[:, None]) @ k.transpose(2, 3) + shifted) * self.size**-0.5
        weights = self.dropout(scores.masked_fill(later, -torch.inf).softmax(-1))
        y = self.out((weights @ v_).transpose(1, 2).reshape(B, T, D))
        x = self.norm1(x + self.dropout(y))
        return self.norm2(x + self.dropout(self.down(self.dropout(F.relu(self.up(x))))))


class PlainXL(nn.Module):
    def __init__(self, vocab: int, width: int, inner: int, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(XLLayer(width, inner, heads, dropout) for _ in range(layers))
        self.u, self.v = (nn.Parameter(torch.zeros(heads, width // heads)) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, ids: Tensor, targets: Tensor, state: list[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        (B, T), D = ids.shape, self.tokens.embedding_dim
        memory = state or [torch.zeros(B, 0, D, device=ids.device)] * len(self.layers)
        S = T + memory[0].shape[1]
        angles = torch.arange(S - 1, -1, -1)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
        positions = self.dropout(torch.cat([angles.sin(), angles.cos()], 1).to(ids.device))
        later = torch.ones(T, S, dtype=torch.bool, device=ids.device).triu(S - T + 1)
        x, kept = self.dropout(self.tokens(ids) * D**0.5), []
        for layer, before in zip(self.layers, memory, strict=True):
            kept.append(torch.cat([before, x], 1)[:, -T:].detach())
            x = layer(x, before.to(x.dtype), positions, self.u, self.v, later)
        logits = F.linear(self.dropout(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten()), kept


# -- ELMo (Peters et al. 2018, arXiv:1802.05365) ------------------------------------------------------------------------


class PlainElmo(nn.Module):
    """`nn.Conv1d` over the 50 characters of each word, `nn.LSTM` with `proj_size` in each direction.

    Args:
        spellings: (words, 50) the characters of each word.
    """

    def __init__(
        self,
        spellings: Tensor,
        hidden: int,
        cells: int,
        highways: int,
        filters: tuple[tuple[int, int], ...],
        dropout: float,
    ) -> None:
        super().__init__()
        held, self.p = sum(number for _, number in filters), dropout
        self.register_buffer("spellings", spellings, persistent=False)
        self.characters = nn.Embedding(262, 16)
        self.filters = nn.ModuleList(nn.Conv1d(16, number, width) for width, number in filters)
        self.highways = nn.ModuleList(nn.Linear(held, 2 * held) for _ in range(highways))
        self.projection, self.head = nn.Linear(held, hidden), nn.Linear(hidden, len(spellings))
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.LSTM(hidden, cells, proj_size=hidden, batch_first=True) for _ in "ab") for _ in "12"
        )

    def forward(self, ids: Tensor, targets: Tensor, state: None) -> tuple[Tensor, None]:
        """The mean loss of both directions: each predicts the next of the ids."""
        words = self.words(self.spellings[ids])
        losses = []
        for layers, x, y in zip(self.layers, (words, words.flip(1)), (ids, ids.flip(1)), strict=True):
            logits = self.head(self.direction(layers, x)[:, :-1])
            losses.append(F.cross_entropy(logits.flatten(0, 1), y[:, 1:].reshape(-1)))
        return torch.stack(losses).mean(), None

    def words(self, spelled: Tensor) -> Tensor:
        """The vectors (B, T, D) of words spelled as (B, T, C) characters."""
        x = self.characters(spelled.flatten(0, 1)).transpose(1, 2)
        y = torch.cat([each(x).amax(2).relu() for each in self.filters], 1)
        for highway in self.highways:
            change, gate = highway(y).chunk(2, 1)
            y = gate.sigmoid() * change.relu() + (1 - gate.sigmoid()) * y
        return self.projection(y).view(*spelled.shape[:2], -1)

    def direction(self, layers: Any, x: Tensor) -> Tensor:
        """The last layer (B, T, D) of a direction."""
        for i, layer in enumerate(layers):
            fed = F.dropout(x, self.p, self.training)
            x = layer(fed)[0]
            x = x + fed if i else x
        return F.dropout(x, self.p, self.training)
