"""A feed-forward language model: the next token, given the embeddings of the last few.

Bengio et al. 2003, "A neural probabilistic language model" (JMLR 3): the embeddings of the last n - 1 tokens, concatenated, a
hidden layer with tanh, and optionally direct connections past it. With more than one layer it is the modern form of Sun & Iyyer
2021, "Revisiting simple neural probabilistic language models" (arXiv:2104.03474): the first layer is linear, residual layers with
norms follow, and the mean of the embeddings before those n - 1 tokens is one more input.
Departures: the output is tied to the embedding in both forms, so direct connections end in the hidden state, not in the
vocabulary; the far context is one plain mean; where there are no tokens yet, embeddings are zero.

The first layer is a causal convolution: all positions of a batch are computed at once. Text is read in order, the last tokens
carried from batch to batch, so that every token has all of its context in training and in scoring.
Shapes: B batch, T length, D hidden, V vocabulary, k local tokens, F far tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nlptools.configs.architectures.feedforward import FeedForwardOptions
from nlptools.configs.checks import check_sizes
from nlptools.errors import BundleError
from nlptools.layers.convolution import windows
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import Linear, check_activation
from nlptools.layers.output import Projection, padded_embedding
from nlptools.layers.transformer import FeedForward
from nlptools.models.contract import Hidden, LanguageModelDefaults

_EMBEDDING_STD = 0.05


@dataclass(frozen=True)
class FeedForwardLMConfig:
    """Sizes of a feed-forward language model. Dropouts apply in training only."""

    vocab_size: int
    hidden_size: int  # also of the embeddings
    num_hidden_layers: int
    local_tokens: int = 4  # k; their embeddings are concatenated
    far_tokens: int = 0  # F, before the local ones; their embeddings are averaged
    direct: bool = False  # direct connections past the hidden layer
    intermediate_size: int = 0  # of the layers after the first; 0: four times the hidden size
    activation: str = "gelu_new"
    layer_norm_eps: float = 1e-5
    embedding_dropout: float = 0.0
    hidden_dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.intermediate_size == 0:
            object.__setattr__(self, "intermediate_size", 4 * self.hidden_size)
        check_sizes(self, local_tokens=1 << 10)
        check_activation(self.activation)
        if type(self.far_tokens) is not int or not 0 <= self.far_tokens <= 1 << 16:
            raise BundleError(f"far_tokens is {self.far_tokens!r}, expected a whole number from 0 to {1 << 16}")
        if self.direct and self.num_hidden_layers > 1:
            raise BundleError(f"direct connections with {self.num_hidden_layers} layers, expected one layer")

    @classmethod
    def from_options(cls, options: FeedForwardOptions, vocab_size: int) -> FeedForwardLMConfig:
        """The sizes that a command's options ask for. Raises UsageError for sizes that do not fit together."""
        return cls(
            vocab_size,
            options.hidden,
            options.layers,
            options.order - 1,
            options.far,
            options.direct,
            embedding_dropout=options.dropout,
            hidden_dropout=options.dropout,
        )

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        later = (self.num_hidden_layers - 1) * 2 * self.intermediate_size
        return (self.local_tokens * self.hidden_size + later + self.vocab_size) * self.hidden_size


class FeedForwardLMState(NamedTuple):
    """The last tokens."""

    ids: Tensor  # (B, k - 1 + F) int64; -1 where there is none

    def select(self, rows: Tensor, width: int = 1) -> FeedForwardLMState:
        """See `contract.State`."""
        return FeedForwardLMState(self.ids.index_select(0, rows))

    def join(self, others: Sequence[FeedForwardLMState]) -> FeedForwardLMState:
        """See `contract.LanguageState`."""
        return FeedForwardLMState(torch.cat([self.ids, *(other.ids for other in others)]))

    def detach(self) -> FeedForwardLMState:
        """A copy of the state: ids have no graph."""
        return FeedForwardLMState(self.ids.contiguous())


class ResidualLayer(nn.Module):
    """A feed-forward layer between a norm and a residual sum."""

    def __init__(self, config: FeedForwardLMConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.feed_forward = FeedForward(config.hidden_size, config.intermediate_size, config.activation)
        self.dropout = Dropout(config.hidden_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return self.dropout.add(x, self.feed_forward(self.norm(x)))


class FeedForwardLM(LanguageModelDefaults, nn.Module):
    """See the module's docstring; fulfils `contract.LanguageModel`."""

    streams = True
    runs_in_16_bits = True  # also on a CPU
    max_context = None

    def __init__(self, config: FeedForwardLMConfig) -> None:
        super().__init__()
        self.config = config
        D = config.hidden_size
        self.token_embedding = padded_embedding(config.vocab_size, D)
        self.output_bias = nn.Parameter(torch.empty(config.vocab_size))
        self.output = Projection(self.token_embedding, config.vocab_size, bias=self._bias)
        self.local = Linear(config.local_tokens * D, D)
        self.far = Linear(D, D, bias=False) if config.far_tokens else None
        self.direct = Linear(config.local_tokens * D, D, bias=False) if config.direct else None
        self.layers = nn.ModuleList(ResidualLayer(config) for _ in range(config.num_hidden_layers - 1))
        self.norm = nn.LayerNorm(D, config.layer_norm_eps) if len(self.layers) else None
        self.embedding_dropout = Dropout(config.embedding_dropout)
        self.dropout = Dropout(config.hidden_dropout)

    @torch.no_grad()
    def initialize(self) -> None:
        """Normal weights that keep variances, divided by the root of the number of residual layers in these; biases 0."""
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
            elif name == "token_embedding.weight":
                parameter.normal_(std=_EMBEDDING_STD)
            else:
                shrink = len(self.layers) ** 0.5 if name.endswith("down.weight") else 1.0
                parameter.normal_(std=parameter.shape[1] ** -0.5 / shrink)

    def forward(
        self, ids: Tensor, state: FeedForwardLMState | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, FeedForwardLMState | None]:
        """See `contract.LanguageModel`."""
        layers, after = self._layers(ids, state, mask)
        return self.dropout(layers[-1]), None if state is None else after

    def states(self, ids: Tensor) -> Hidden:
        """See `contract.LanguageModel`; without dropout."""
        layers = self._layers(ids)[0]
        return Hidden(layers[-1], tuple(layers))

    def start(self, batch_size: int, capacity: int) -> FeedForwardLMState:
        """See `contract.LanguageModel`."""
        shape = (batch_size, self.config.local_tokens - 1 + self.config.far_tokens)
        return FeedForwardLMState(torch.full(shape, -1, device=self.token_embedding.weight.device))

    def layer_of(self, name: str) -> int:
        """See `contract.Layered`; the first layer is not in the list of the others."""
        if name.startswith("layers."):
            return 1 + super().layer_of(name)
        return 1 if name.startswith(("local.", "far.", "direct.")) else super().layer_of(name)

    def _bias(self) -> Tensor:
        return self.output_bias

    def _layers(
        self, ids: Tensor, state: FeedForwardLMState | None = None, mask: Tensor | None = None
    ) -> tuple[list[Tensor], FeedForwardLMState]:
        """(B, T) ids -> the hidden states of all layers, (B, T, D) each, and the new state."""
        T, F = ids.shape[1], self.config.far_tokens
        state = self.start(len(ids), 0) if state is None else state
        if mask is not None:
            ids = ids.masked_fill(~mask, -1)
        ids = torch.cat([state.ids, ids], 1)
        real = (ids >= 0)[..., None]
        x = self.embedding_dropout(self.token_embedding(ids.clamp(min=0)) * real)
        side_by_side = windows(x[:, F:], self.config.local_tokens)  # (B, T, k D)
        hidden = self.local(side_by_side)
        if self.far is not None:
            hidden = self.far.add_to(hidden, self._far_means(x, real, T))
        if self.norm is None:
            hidden = hidden.tanh()
            if self.direct is not None:
                hidden = self.direct.add_to(hidden, side_by_side)
        layers = [x[:, x.shape[1] - T :], hidden]
        for layer in self.layers:
            layers.append(layer(layers[-1]))
        if self.norm is not None:
            layers[-1] = self.norm(layers[-1])
        return layers, FeedForwardLMState(ids[:, T:])

    def _far_means(self, x: Tensor, real: Tensor, length: int) -> Tensor:
        """(B, F + k - 1 + T, D) embeddings, and which are `real` -> means of the F before the local ones, (B, T, D)."""
        F = self.config.far_tokens
        far = x[:, : F + length - 1].float()
        counts = nn.functional.pad(real[:, : F + length - 1].float().cumsum(1), (0, 0, 1, 0))
        sums = nn.functional.pad(far.cumsum(1), (0, 0, 1, 0))
        count = (counts[:, F:] - counts[:, :length]).clamp(min=1)
        return ((sums[:, F:] - sums[:, :length]) / count).to(x.dtype)
