"""An LSTM language model.

Zaremba et al. 2014, "Recurrent neural network regularization" (arXiv:1409.2329): dropout on the non-recurrent
connections only. Departure: the output matrix is tied to the embedding (Press & Wolf 2017).
Shapes: B batch, T length, D hidden, L layers, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nlptools.configs.checks import check_sizes
from nlptools.configs.lm import TrainLM
from nlptools.layers.dropout import Dropout
from nlptools.layers.output import Projection
from nlptools.models.contract import Hidden


@dataclass(frozen=True)
class LSTMConfig:
    """Sizes of an LSTM language model."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    hidden_dropout: float = 0.0

    def __post_init__(self) -> None:
        check_sizes(self)

    @classmethod
    def from_options(cls, options: TrainLM, vocab_size: int) -> LSTMConfig:
        """The sizes that a command's options ask for."""
        return cls(vocab_size, options.hidden, options.layers, options.dropout)

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        return self.num_hidden_layers * 4 * self.hidden_size**2 + self.vocab_size * self.hidden_size


class LSTMState(NamedTuple):
    """Hidden state and cell of every layer."""

    hidden: Tensor  # (L, B, D)
    cell: Tensor  # (L, B, D)

    def select(self, rows: Tensor, width: int = 1) -> LSTMState:
        """See `contract.State`."""
        return LSTMState(self.hidden.index_select(1, rows), self.cell.index_select(1, rows))

    def detach(self) -> LSTMState:
        """The same state, cut off from its graph (truncated backpropagation)."""
        return LSTMState(self.hidden.detach(), self.cell.detach())


class LSTM(nn.Module):
    """See the module's docstring; fulfils `contract.LanguageModel`."""

    streams = True
    runs_in_16_bits = False  # PyTorch trains nn.LSTM on a CPU in float32 only
    max_context = None

    def __init__(self, config: LSTMConfig) -> None:
        super().__init__()
        self.config = config
        D, L = config.hidden_size, config.num_hidden_layers
        self.token_embedding = nn.Embedding(config.vocab_size, D)
        self.layers = nn.ModuleList(nn.LSTM(D, D, batch_first=True) for _ in range(L))
        self.output = Projection(self.token_embedding, config.vocab_size)
        self.dropout = Dropout(config.hidden_dropout)

    @torch.no_grad()
    def initialize(self) -> None:
        """Uniform weights within 1/sqrt(D), forget gates open (bias 1)."""
        D = self.config.hidden_size
        for parameter in self.parameters():
            parameter.uniform_(-(D**-0.5), D**-0.5)
        for layer in self.layers:
            forget: Any = layer.bias_hh_l0
            forget[D : 2 * D] = 1.0

    def forward(
        self, ids: Tensor, state: LSTMState | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, LSTMState | None]:
        """See `contract.LanguageModel`."""
        x = self.dropout(self.token_embedding(ids))
        if mask is not None and not bool(mask.all()):
            return self._padded(x, self._given(state, x), mask)
        before = self._given(state, x)
        hidden, cell = [], []
        for i, layer in enumerate(self.layers):
            x, (h, c) = layer(x, (before.hidden[i : i + 1], before.cell[i : i + 1]))
            x = self.dropout(x)
            hidden.append(h)
            cell.append(c)
        return x, None if state is None else LSTMState(torch.cat(hidden), torch.cat(cell))

    def states(self, ids: Tensor) -> Hidden:
        """See `contract.LanguageModel`; without dropout."""
        layers = [self.token_embedding(ids)]
        for layer in self.layers:
            layers.append(layer(layers[-1])[0])
        return Hidden(layers[-1], tuple(layers))

    def start(self, batch_size: int, capacity: int) -> LSTMState:
        """See `contract.LanguageModel`."""
        weight = self.token_embedding.weight
        zeros = weight.new_zeros(len(self.layers), batch_size, self.config.hidden_size)
        return LSTMState(zeros, zeros)

    def _given(self, state: LSTMState | None, x: Tensor) -> LSTMState:
        return self.start(x.shape[0], 0) if state is None else state

    def _padded(self, x: Tensor, state: LSTMState, mask: Tensor) -> tuple[Tensor, LSTMState]:
        """Rows padded on the left are rolled to the right end, packed, and rolled back."""
        T = x.shape[1]
        lengths = mask.sum(1)
        columns = torch.arange(T, device=x.device)
        shift = (T - lengths)[:, None]
        to_left = ((columns + shift) % T)[..., None].expand_as(x)
        to_right = ((columns - shift) % T)[..., None].expand_as(x)
        x = x.gather(1, to_left)
        hidden, cell = [], []
        for i, layer in enumerate(self.layers):
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
            packed, (h, c) = layer(packed, (state.hidden[i : i + 1], state.cell[i : i + 1]))
            x, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, total_length=T)
            x = self.dropout(x)
            hidden.append(h)
            cell.append(c)
        return x.gather(1, to_right), LSTMState(torch.cat(hidden), torch.cat(cell))
