"""The head of a dependency parser: biaffine scores of heads and relations.

Dozat & Manning 2017, "Deep biaffine attention for neural dependency parsing" (arXiv:1611.01734), on the vectors of an encoder,
not of LSTMs. Each word has four vectors: as a dependent and as a head, for arcs and for relations; the root of the
sentence is a learned vector. `forward` computes the vectors of tokens in rows. Scores are computed for the words of a sentence,
so a sentence may have several rows.
Dimensions: S sentences, M words, A size of the vectors for arcs, R size of the vectors for relations, L relations.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import Linear

ARC_SIZE, RELATION_SIZE = 256, 128
_DROPOUT = 0.33


class DependencyHead(nn.Module):
    """The weights of a parser on an encoder. Scores are computed in the type of the vectors."""

    def __init__(self, hidden_size: int, relations: int) -> None:
        """`relations`: L."""
        super().__init__()
        self.dense = Linear(hidden_size, 2 * (ARC_SIZE + RELATION_SIZE))
        self.root = nn.Parameter(torch.zeros(1, ARC_SIZE + RELATION_SIZE))
        self.arc_weight = nn.Parameter(torch.zeros(ARC_SIZE + 1, ARC_SIZE))
        self.relation_weight = nn.Parameter(torch.zeros(relations, RELATION_SIZE + 1, RELATION_SIZE + 1))
        self.dropout = Dropout(_DROPOUT)

    @property
    def vector_size(self) -> int:
        """Numbers per word: 2 (A + R)."""
        return 2 * (ARC_SIZE + RELATION_SIZE)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., 2 (A + R)): the vectors of each position as a dependent and as a head."""
        return self.dropout(F.leaky_relu(self.dense(self.dropout(hidden)), 0.1))

    def arc_scores(self, vectors: Tensor) -> Tensor:
        """(S, M, 2 (A + R)) -> (S, M, M + 1): the score of each head of each word, the root first, then the words in order."""
        dependents, heads = vectors[..., :ARC_SIZE], vectors[..., ARC_SIZE : 2 * ARC_SIZE]
        heads = self._with_root(heads, self.root[:, :ARC_SIZE])
        scores: Tensor = _with_one(dependents) @ self.arc_weight.to(vectors.dtype) @ heads.transpose(1, 2)
        return scores

    def relation_scores(self, vectors: Tensor, heads: Tensor) -> Tensor:
        """(S, M, 2 (A + R)), and the head (S, M) of each word, 0 the root -> (S, M, L): the scores of the relations."""
        dependents, candidates = vectors[..., 2 * ARC_SIZE :].chunk(2, -1)
        candidates = self._with_root(candidates, self.root[:, ARC_SIZE:])
        chosen = candidates.gather(1, heads[..., None].expand(-1, -1, RELATION_SIZE))
        products = torch.einsum("smi,lij->smlj", _with_one(dependents), self.relation_weight.to(vectors.dtype))
        scores: Tensor = (products @ _with_one(chosen)[..., None]).squeeze(-1)
        return scores

    def _with_root(self, heads: Tensor, root: Tensor) -> Tensor:
        """(S, M, size) -> (S, M + 1, size)."""
        return torch.cat([root.to(heads.dtype).expand(len(heads), 1, -1), heads], 1)


def _with_one(vectors: Tensor) -> Tensor:
    """(..., size) -> (..., size + 1): the last number is 1, and its weights are biases."""
    return F.pad(vectors, (0, 1), value=1.0)
