"""Heads: what turns hidden states into what is predicted, and belongs to one task.

BERT: Devlin et al. 2019 (arXiv:1810.04805); ELECTRA: Clark et al. 2020 (arXiv:2003.10555).
Shapes: N positions, D hidden, E embedding, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nlptools.layers.linear import Linear


class MaskedTokenHead(nn.Module):
    """Which token stands at a masked position: one more layer, then the embedding matrix and a bias.

    The matrix is the encoder's and is passed in, so that only the positions that are asked for go through it.
    """

    def __init__(self, hidden_size: int, embedding_size: int, vocab_size: int, activation: str, eps: float) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.activation = activation
        self.transform = Linear(hidden_size, embedding_size)
        self.norm = nn.LayerNorm(embedding_size, eps)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, hidden: Tensor) -> Tensor:
        """(N, D) -> (N, E): what is multiplied with the embeddings."""
        out: Tensor = self.norm(self.transform(hidden, self.activation))
        return out

    def logits(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        """(N, D) and the embeddings (V or more, E) -> (N, V)."""
        logits: Tensor = self(hidden) @ embeddings[: self.vocab_size].t() + self.bias
        return logits


class ReplacedTokenHead(nn.Module):
    """Whether each token was replaced (ELECTRA's discriminator): a logit above 0 says so."""

    def __init__(self, hidden_size: int, activation: str) -> None:
        super().__init__()
        self.activation = activation
        self.dense = Linear(hidden_size, hidden_size)
        self.output = Linear(hidden_size, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (...)."""
        out: Tensor = self.output(self.dense(hidden, self.activation)).squeeze(-1)
        return out


class Pooler(nn.Module):
    """BERT's vector for a whole sequence: a layer and tanh on the first token."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.dense = Linear(hidden_size, hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        return torch.tanh(self.dense(hidden[:, 0]))
