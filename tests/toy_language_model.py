"""The one file that a new architecture takes: an Elman network (Elman 1990), as a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from nlptools.configs import option
from nlptools.configs.architectures.shared import architecture
from nlptools.configs.lm import TrainLM
from nlptools.layers.linear import Linear
from nlptools.layers.output import Projection
from nlptools.models.contract import Hidden, LanguageModelDefaults


@dataclass(frozen=True)
class ToyOptions(TrainLM):
    """Recurrent network with one layer (Elman 1990)"""

    arch: str = architecture("toy")
    spread: float = option(0.05, "Standard deviation of the initial weights.", low=0, metavar="X")


@dataclass(frozen=True)
class ToyConfig:
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int = 1
    hidden_dropout: float = 0.0
    initializer_range: float = 0.05

    @classmethod
    def from_options(cls, options: ToyOptions, vocab_size: int) -> ToyConfig:
        return cls(vocab_size, options.hidden, hidden_dropout=options.dropout, initializer_range=options.spread)

    def least_weights(self) -> int:
        return (self.vocab_size + 2 * self.hidden_size) * self.hidden_size


class ToyState(NamedTuple):
    memory: Tensor  # (B, D)

    def select(self, rows: Tensor, width: int = 1) -> ToyState:
        return ToyState(self.memory[rows])

    def join(self, others: Sequence[ToyState]) -> ToyState:
        return ToyState(torch.cat([self.memory, *(other.memory for other in others)]))

    def detach(self) -> ToyState:
        return ToyState(self.memory.detach())


class Toy(LanguageModelDefaults, nn.Module):
    max_context, runs_in_16_bits, streams = None, True, True

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.cell = Linear(2 * config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.output = Projection(self.token_embedding, config.vocab_size)

    def initialize(self) -> None:
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=self.config.initializer_range)

    def forward(
        self, ids: Tensor, state: ToyState | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, ToyState | None]:
        memory, hidden = (state or self.start(len(ids), 0)).memory, []
        for t, x in enumerate(self.dropout(self.token_embedding(ids)).unbind(1)):
            new = torch.tanh(self.cell(torch.cat([x, memory], 1)))
            memory = new if mask is None else torch.where(mask[:, t, None], new, memory)
            hidden.append(memory)
        return torch.stack(hidden, 1), None if state is None else ToyState(memory)

    def start(self, batch_size: int, capacity: int) -> ToyState:
        return ToyState(self.token_embedding.weight.new_zeros(batch_size, self.config.hidden_size))

    def states(self, ids: Tensor) -> Hidden:
        last, _ = self(ids)
        return Hidden(last, (self.token_embedding(ids), last))
