"""Heads: from hidden states to the predictions of one task.

BERT: Devlin et al. 2019 (arXiv:1810.04805); ELECTRA: Clark et al. 2020 (arXiv:2003.10555).
Dimensions: K labels, M names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from nlptools.configs.layers import Mix
from nlptools.errors import UsageError
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import ACTIVATIONS as OF_LAYERS
from nlptools.layers.linear import Linear

ACTIVATIONS = {**OF_LAYERS, "tanh": torch.tanh}


class MaskedTokenHead(nn.Module):
    """Predicts the token at a masked position: one more layer. Its output is projected to the vocabulary with the encoder's
    embedding matrix and the bias of this head (see `output.Projection`).
    """

    def __init__(
        self,
        hidden_size: int,
        embedding_size: int,
        vocab_size: int,
        activation: str,
        eps: float,
        bias: bool = True,
        norm_bias: bool = True,
    ) -> None:
        """`bias`, `norm_bias`: whether the layer and its norm have one."""
        super().__init__()
        self.activation = activation
        self.transform = Linear(hidden_size, embedding_size, bias=bias)
        self.norm = nn.LayerNorm(embedding_size, eps, bias=norm_bias)
        self.bias = nn.Parameter(torch.zeros(vocab_size))

    def forward(self, hidden: Tensor) -> Tensor:
        """(N, D) -> (N, E): the input of the projection to the vocabulary."""
        out: Tensor = self.norm(self.transform(hidden, self.activation))
        return out


class PredictionLayer(nn.Module):
    """A layer between an encoder and the heads of tasks (ModernBERT)."""

    def __init__(self, hidden_size: int, activation: str, eps: float, bias: bool, norm_bias: bool) -> None:
        """`bias`, `norm_bias`: whether the layer and its norm have one."""
        super().__init__()
        self.activation = activation
        self.dense = Linear(hidden_size, hidden_size, bias=bias)
        self.norm = nn.LayerNorm(hidden_size, eps, bias=norm_bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (..., D)."""
        out: Tensor = self.norm(self.dense(hidden, self.activation))
        return out


class ReplacedTokenHead(nn.Module):
    """Predicts whether each token was replaced (ELECTRA's discriminator): yes for a logit above 0."""

    def __init__(self, hidden_size: int, activation: str) -> None:
        super().__init__()
        self.activation = activation
        self.dense = Linear(hidden_size, hidden_size)
        self.output = Linear(hidden_size, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """(..., D) -> (...)."""
        return self.output(self.dense(hidden, self.activation)).squeeze(-1)


class SequenceHead(nn.Module):
    """Predicts K numbers for a whole sequence from the vector of the token that represents it.

    BERT's vector comes from its pooler. ELECTRA, RoBERTa and others have no pooler: this head has a layer for them.
    """

    __call__: Callable[..., Tensor]

    def __init__(
        self,
        hidden_size: int,
        num_labels: int,
        dense: str,
        dropout: float,
        first_dropout: bool = True,
        bias: bool = True,
    ) -> None:
        """Args:
        dense: the activation of a layer before the last one, a name in `ACTIVATIONS`; "": there is none.
        dropout: before each layer; with `dense`, before the first one only with `first_dropout`.
        bias: whether the last layer has one.
        """
        super().__init__()
        self.dropout = Dropout(dropout)
        self.first_dropout = first_dropout
        self.activation = ACTIVATIONS[dense] if dense else None
        self.dense = Linear(hidden_size, hidden_size) if dense else None
        self.output = Linear(hidden_size, num_labels, bias=bias)

    def forward(self, vectors: Tensor) -> Tensor:
        """(B, D) -> (B, K)."""
        if self.dense is not None and self.activation is not None:
            vectors = self.activation(self.dense(self.dropout(vectors) if self.first_dropout else vectors))
        return self.output(self.dropout(vectors))


class MentionHead(nn.Module):
    """Predicts which of several names a pronoun refers to, or none of them.

    Lee et al. 2017 (D17-1018): a score computed from the pronoun, the name and their product, with the same weights for every
    name, against 0 for none. Departures: a mention is the mean of its tokens' vectors; one hidden layer; no mention score,
    because the spans are known to be mentions.
    """

    def __init__(self, hidden_size: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.activation = activation
        self.dropout = Dropout(dropout)
        self.dense = Linear(3 * hidden_size, hidden_size)
        self.output = Linear(hidden_size, 1)

    def forward(self, hidden: Tensor, spans: Tensor) -> Tensor:
        """(N, D), and the first and last positions (B, M + 1, 2) of the pronoun and M names -> (B, M + 1), "none" last."""
        mentions = mean_of_spans(hidden, spans)
        pronoun, names = mentions[:, :1].expand(-1, spans.shape[1] - 1, -1), mentions[:, 1:]
        pairs = self.dropout(torch.cat([pronoun, names, pronoun * names], -1))
        scores = self.output(self.dropout(self.dense(pairs, self.activation))).squeeze(-1)
        return torch.cat([scores, scores.new_zeros(len(scores), 1)], 1)


def mean_of_spans(hidden: Tensor, spans: Tensor) -> Tensor:
    """The mean vector of each span: (N, D), and first and last positions (B, M, 2), inclusive -> (B, M, D)."""
    B, M, _ = spans.shape
    first, last = spans.reshape(B * M, 2, 1).unbind(1)
    positions = torch.arange(len(hidden), device=hidden.device)
    weights = ((positions >= first) & (positions <= last)) / (last - first + 1)  # (B*M, N)
    means: Tensor = weights.to(hidden.dtype) @ hidden
    return means.view(B, M, -1)


class LayerMix(nn.Module):
    """A learned weighted sum of the hidden states of all layers, including the embeddings.

    Peters et al. 2018 (arXiv:1802.05365, equation 1): the weights are a softmax times a factor, gamma. Or plain weights, which
    sum to 1 at first. Initially all layers have the same weight.
    """

    def __init__(self, num_layers: int, softmax: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((num_layers,), 0.0 if softmax else 1 / num_layers))
        self.gamma = nn.Parameter(torch.ones(1)) if softmax else None

    @property
    def weights(self) -> Tensor:
        """(layers,)."""
        return self.weight if self.gamma is None else self.gamma * self.weight.softmax(0)

    def forward(self, states: Sequence[Tensor] | Tensor) -> Tensor:
        """(..., D) of each layer -> (..., D)."""
        return torch.stack([w * state for w, state in zip(self.weights, states, strict=True)]).sum(0)

    @torch.no_grad()
    def set(self, mix: Mix) -> None:
        """Take the weights from a mix of either form. Raises UsageError for a weight that a softmax cannot have."""
        numbers, gamma = list(mix.numbers), mix.gamma
        if self.gamma is None:
            numbers = mix.weights
        else:
            if gamma is None:
                if min(numbers) <= 0:
                    raise UsageError(
                        f"--layers mix: the weight {min(numbers):g} is not positive, as a softmax needs it"
                    )
                numbers, gamma = [math.log(number) for number in numbers], sum(numbers)
            self.gamma.fill_(gamma)
        self.weight.copy_(torch.tensor(numbers))


def mix_in(weights: Mapping[str, Tensor], name: str) -> Mix | None:
    """The mix of the `LayerMix` of this name in the weights of a model, if there is one."""
    if f"{name}.weight" not in weights:
        return None
    gamma = weights.get(f"{name}.gamma")
    return Mix(tuple(weights[f"{name}.weight"].tolist()), None if gamma is None else float(gamma))


class Pooler(nn.Module):
    """BERT's vector for a whole sequence: a layer with tanh on the first token."""

    __call__: Callable[..., Tensor]

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.dense = Linear(hidden_size, hidden_size)

    def forward(self, hidden: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        return torch.tanh(self.dense(hidden[:, 0]))
