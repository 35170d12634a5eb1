"""A convolutional language model: gated convolutions over the tokens so far.

Dauphin et al. 2017, "Language modeling with gated convolutional networks" (arXiv:1612.08083): each layer sees its last k
inputs, so that L layers see 1 + L (k - 1) tokens. The first token has zeros before it.
Departures: a residual sum around every layer, scaled by sqrt(1/2), and weights drawn so that variances are kept, as in Gehring et
al. 2017 (arXiv:1705.03122), instead of weight normalization and of bottlenecks. The output is tied to the embedding.

It trains on text in order, the last inputs of each layer carried from batch to batch: they are few, and with them every token
has all of its context, in training and in scoring, however the text is cut. In windows in random order, the first
tokens of each would see zeros instead of the text before them.
Shapes: B batch, T length, D hidden, L layers, V vocabulary, k kernel size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nlptools.configs.architectures.convolution import ConvolutionOptions
from nlptools.configs.checks import check_sizes
from nlptools.layers.convolution import HALF, GatedConvolution, zeroed
from nlptools.layers.dropout import Dropout
from nlptools.layers.output import Projection, padded_embedding
from nlptools.models.contract import Hidden, LanguageModelDefaults

_EMBEDDING_STD = 0.1


@dataclass(frozen=True)
class ConvolutionLMConfig:
    """Sizes of a convolutional language model. Dropouts apply in training only."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    kernel_size: int = 4
    embedding_dropout: float = 0.0
    hidden_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_sizes(self, kernel_size=64)

    @classmethod
    def from_options(cls, options: ConvolutionOptions, vocab_size: int) -> ConvolutionLMConfig:
        """The sizes that a command's options ask for."""
        p = options.dropout
        return cls(vocab_size, options.hidden, options.layers, options.kernel, embedding_dropout=p, hidden_dropout=p)

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        return (self.num_hidden_layers * 2 * self.kernel_size * self.hidden_size + self.vocab_size) * self.hidden_size


class ConvolutionLMState(NamedTuple):
    """The last inputs of each layer."""

    inputs: Tensor  # (L, B, k - 1, D); zeros where nothing came before

    def select(self, rows: Tensor, width: int = 1) -> ConvolutionLMState:
        """See `contract.State`."""
        return ConvolutionLMState(self.inputs.index_select(1, rows))

    def join(self, others: Sequence[ConvolutionLMState]) -> ConvolutionLMState:
        """See `contract.LanguageState`."""
        return ConvolutionLMState(torch.cat([self.inputs, *(other.inputs for other in others)], 1))

    def detach(self) -> ConvolutionLMState:
        """The same state, cut off from its graph."""
        return ConvolutionLMState(self.inputs.detach())


class ConvolutionLM(LanguageModelDefaults, nn.Module):
    """See the module's docstring; fulfils `contract.LanguageModel`."""

    streams = True
    runs_in_16_bits = True  # also on a CPU
    max_context = None

    def __init__(self, config: ConvolutionLMConfig) -> None:
        super().__init__()
        self.config = config
        D, L = config.hidden_size, config.num_hidden_layers
        self.token_embedding = padded_embedding(config.vocab_size, D)
        self.output = Projection(self.token_embedding, config.vocab_size)
        self.convolutions = nn.ModuleList(GatedConvolution(D, config.kernel_size) for _ in range(L))
        self.embedding_dropout = Dropout(config.embedding_dropout)
        self.dropout = Dropout(config.hidden_dropout)

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw the weights so that all layers have outputs of one variance (Gehring et al. 2017, section 3.5)."""
        self.token_embedding.weight.normal_(std=_EMBEDDING_STD)
        for convolution in self.convolutions:
            assert isinstance(convolution, GatedConvolution)
            convolution.initialize(1 - self.config.hidden_dropout)

    def forward(
        self, ids: Tensor, state: ConvolutionLMState | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, ConvolutionLMState | None]:
        """See `contract.LanguageModel`."""
        layers, after = self._layers(ids, state, mask)
        return self.dropout(layers[-1]), None if state is None else after

    def states(self, ids: Tensor) -> Hidden:
        """See `contract.LanguageModel`; without dropout."""
        layers = self._layers(ids)[0]
        return Hidden(layers[-1], tuple(layers))

    def start(self, batch_size: int, capacity: int) -> ConvolutionLMState:
        """See `contract.LanguageModel`."""
        config = self.config
        shape = (config.num_hidden_layers, batch_size, config.kernel_size - 1, config.hidden_size)
        return ConvolutionLMState(self.token_embedding.weight.new_zeros(shape))

    def _layers(
        self, ids: Tensor, state: ConvolutionLMState | None = None, mask: Tensor | None = None
    ) -> tuple[list[Tensor], ConvolutionLMState]:
        """(B, T) ids -> the hidden states of all layers, (B, T, D) each, and the new state."""
        T = ids.shape[1]
        state = self.start(len(ids), 0) if state is None else state
        real = None if mask is None or bool(mask.all()) else mask[..., None].to(self.token_embedding.weight.dtype)
        x = self.embedding_dropout(self.token_embedding(ids))
        layers, inputs = [x], []
        for i, convolution in enumerate(self.convolutions):
            given = torch.cat([state.inputs[i], zeroed(self.dropout(x) if i else x, real)], 1)
            x = (convolution(given) + x) * HALF
            layers.append(x)
            inputs.append(given[:, T:])
        return layers, ConvolutionLMState(torch.stack(inputs))
