"""Recurrent language models: plain networks (Elman 1990; Mikolov et al. 2010), LSTMs and GRUs.

Zaremba et al. 2014, "Recurrent neural network regularization" (arXiv:1409.2329): dropout on the non-recurrent
connections only. By default the output matrix is tied to the embedding (Press & Wolf 2017, arXiv:1608.05859).
Merity et al. 2018, "Regularizing and optimizing LSTM language models" (AWD-LSTM, arXiv:1708.02182): dropout of the same
elements at all steps, of whole words, and of weights between hidden states; penalties on activations and on their change.
Inside, tensors are time-major. Shapes: B batch, T length, E embedding, D hidden, L layers, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from nlptools.compute.kernels.recurrent import GATES
from nlptools.configs.architectures.recurrent import RecurrentOptions
from nlptools.configs.architectures.shared import adaptive_cutoffs
from nlptools.configs.checks import check_sizes, checked_cutoffs
from nlptools.errors import BundleError
from nlptools.layers.adaptive_softmax import AdaptiveSoftmax
from nlptools.layers.dropout import Dropout, LockedDropout, WordDropout
from nlptools.layers.output import OutputHead, Projection
from nlptools.layers.recurrent import RecurrentLayer
from nlptools.models.contract import Hidden, LanguageModelDefaults


@dataclass(frozen=True)
class RecurrentConfig:
    """Sizes and regularization of a recurrent language model. Dropouts and penalties apply in training only."""

    cell: ClassVar[str]  # rnn, lstm or gru

    vocab_size: int
    hidden_size: int  # of the last layer
    num_hidden_layers: int
    hidden_dropout: float = 0.0  # of the outputs; default of the next two
    input_dropout: float | None = None  # of the embeddings
    layer_dropout: float | None = None  # between layers
    locked_dropout: bool = False  # the same elements at all steps
    word_dropout: float = 0.0  # of whole words
    weight_dropout: float = 0.0  # of weights between hidden states
    activation_penalty: float | int = 0.0  # times the mean square of the outputs after dropout
    change_penalty: float | int = 0.0  # times the mean square of their change from step to step, before dropout
    embedding_size: int = 0  # 0: as the hidden size
    intermediate_size: int = 0  # of all layers but the last; 0: as the hidden size
    tied: bool = True  # the output matrix is the embedding
    output_bias: bool = False
    adaptive_cutoffs: tuple[int, ...] = ()  # first tokens of the clusters of an adaptive softmax
    first_state: bool = False  # the state before the first token is learned
    initializer_range: float = 0.0  # 0: 1/sqrt(hidden size)

    def __post_init__(self) -> None:
        for name in ("embedding_size", "intermediate_size"):
            if vars(self)[name] == 0:
                object.__setattr__(self, name, self.hidden_size)
        check_sizes(self)
        for name in ("input_dropout", "layer_dropout", "activation_penalty", "change_penalty"):
            value, most = vars(self)[name], 1.0 if name.endswith("dropout") else 1e6
            optional = name.endswith("dropout") and value is None
            if not optional and (type(value) not in (int, float) or not 0 <= value <= most):
                raise BundleError(f"{name} is {value!r}, expected a number from 0 to {most:g}")
        object.__setattr__(self, "adaptive_cutoffs", self._checked_cutoffs())
        if self.tied and self.embedding_size != self.hidden_size:
            raise BundleError(
                f"tied embeddings of size {self.embedding_size}, expected the size of the outputs, {self.hidden_size}"
            )

    def _checked_cutoffs(self) -> tuple[int, ...]:
        cutoffs = checked_cutoffs(self.adaptive_cutoffs, self.vocab_size)
        if cutoffs and self.tied:
            raise BundleError("an adaptive softmax has its own matrices: tied must be false")
        return cutoffs

    @classmethod
    def from_options(cls, options: RecurrentOptions, vocab_size: int) -> RecurrentConfig:
        """The sizes that a command's options ask for. Raises UsageError for sizes that do not fit together."""
        limits = adaptive_cutoffs(options.adaptive, vocab_size)
        tied = not (options.untied or limits)
        embedding = options.embedding or options.hidden
        return cls(
            vocab_size,
            embedding if tied else options.hidden,
            options.layers,
            options.dropout,
            **{name: getattr(options, name) for name in _SAME_NAMES},
            embedding_size=embedding,
            intermediate_size=options.hidden,
            tied=tied,
            output_bias=options.output_bias or not tied,
            adaptive_cutoffs=limits,
            initializer_range=options.initial_range,
        )

    @property
    def layer_sizes(self) -> list[int]:
        """Units of each layer."""
        return [self.intermediate_size] * (self.num_hidden_layers - 1) + [self.hidden_size]

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        gates = GATES[self.cell]
        return sum(gates * size**2 for size in self.layer_sizes) + self.vocab_size * self.embedding_size


_SAME_NAMES = ("input_dropout", "layer_dropout", "locked_dropout", "word_dropout", "weight_dropout",
               "activation_penalty", "change_penalty", "first_state")  # fmt: skip


class RNNConfig(RecurrentConfig):
    """Sizes of a plain recurrent network."""

    cell = "rnn"


class LSTMConfig(RecurrentConfig):
    """Sizes of an LSTM."""

    cell = "lstm"


class GRUConfig(RecurrentConfig):
    """Sizes of a GRU."""

    cell = "gru"


class RecurrentState(NamedTuple):
    """Hidden state and cell of every layer, narrow layers filled up with zeros. Only LSTMs have cells, in float32."""

    hidden: Tensor  # (L, B, D)
    cell: Tensor  # (L, B, D), or (L, B, 0)

    def select(self, rows: Tensor, width: int = 1) -> RecurrentState:
        """See `contract.State`."""
        return RecurrentState(self.hidden.index_select(1, rows), self.cell.index_select(1, rows))

    def join(self, others: Sequence[RecurrentState]) -> RecurrentState:
        """See `contract.LanguageState`."""
        hidden, cells = zip(self, *others, strict=True)
        return RecurrentState(torch.cat(hidden, 1), torch.cat(cells, 1))

    def detach(self) -> RecurrentState:
        """The same state, cut off from its graph (truncated backpropagation)."""
        return RecurrentState(self.hidden.detach(), self.cell.detach())


class RecurrentLM(LanguageModelDefaults, nn.Module):
    """See the module's docstring; fulfils `contract.LanguageModel`."""

    streams = True
    runs_in_16_bits = True  # also on a CPU
    max_context = None

    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        self.config = config
        V, E, D = config.vocab_size, config.embedding_size, config.hidden_size
        self.token_embedding = nn.Embedding(V, E)
        fed = [E, *config.layer_sizes]
        self.layers = nn.ModuleList(
            RecurrentLayer(config.cell, fed[i], fed[i + 1], config.weight_dropout)
            for i in range(config.num_hidden_layers)
        )
        self.width = max(config.layer_sizes)
        self.cell_width = self.width if config.cell == "lstm" else 0
        if config.first_state:
            self.first_hidden = nn.Parameter(torch.empty(len(self.layers), self.width))
            self.first_cell = nn.Parameter(torch.empty(len(self.layers), self.cell_width)) if self.cell_width else None
        self.output: OutputHead
        if config.adaptive_cutoffs:
            self.output = AdaptiveSoftmax(D, V, config.adaptive_cutoffs)
        else:
            self.output_matrix = None if config.tied else nn.Linear(D, V, bias=False)
            self.output_bias = nn.Parameter(torch.empty(V)) if config.output_bias else None
            self.output = Projection(self.output_matrix or self.token_embedding, V, bias=self._output_bias)
        self._add_dropouts(config)

    def _add_dropouts(self, config: RecurrentConfig) -> None:
        kind = LockedDropout if config.locked_dropout else Dropout

        def of(p: float | None) -> Dropout:
            return kind(config.hidden_dropout if p is None else p)

        self.word_dropout = WordDropout(config.word_dropout)
        self.input_dropout = of(config.input_dropout)
        self.layer_dropout = of(config.layer_dropout)
        self.dropout = of(None)

    def _output_bias(self) -> Tensor | None:
        return self.output_bias

    @torch.no_grad()
    def initialize(self) -> None:
        """Uniform weights: within `initializer_range`; or within 1/sqrt(D), with forget gates open (bias 1)."""
        D, limit = self.config.hidden_size, self.config.initializer_range
        for parameter in self.parameters():
            parameter.uniform_(-(limit or D**-0.5), limit or D**-0.5)
        if self.config.cell == "lstm" and not limit:
            for layer, size in zip(self.layers, self.config.layer_sizes, strict=True):
                layer.bias_hh_l0[size : 2 * size] = 1.0  # type: ignore[operator]

    def forward(
        self, ids: Tensor, state: RecurrentState | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, RecurrentState | None]:
        """See `contract.LanguageModel`."""
        before = self.start(len(ids), 0) if state is None else state
        mask_TB = None if mask is None or bool(mask.all()) else mask.t()
        x = self.input_dropout(self.word_dropout.embed(ids.t(), self.token_embedding))
        raw, hidden, cells = x, [], []
        for i, (layer, size) in enumerate(zip(self.layers, self.config.layer_sizes, strict=True)):
            h, c = before.hidden[i, :, :size], before.cell[i, :, :size]
            raw, h, c = layer(x, h, c) if mask_TB is None else layer.padded(x, h, c, mask_TB)  # type: ignore[operator]
            x = (self.dropout if i + 1 == len(self.layers) else self.layer_dropout)(raw)
            hidden.append(_widened(h, self.width))
            cells.append(_widened(c, self.cell_width))
        if self.training:
            self.penalty = self._penalty(x, raw)
        return x.transpose(0, 1), None if state is None else RecurrentState(torch.stack(hidden), torch.stack(cells))

    def states(self, ids: Tensor) -> Hidden:
        """See `contract.LanguageModel`; without dropout."""
        layers, start = [self.token_embedding(ids.t())], self.start(len(ids), 0)
        for i, (layer, size) in enumerate(zip(self.layers, self.config.layer_sizes, strict=True)):
            layers.append(layer(layers[-1], start.hidden[i, :, :size], start.cell[i, :, :size])[0])
        rows = tuple(layer.transpose(0, 1) for layer in layers)
        return Hidden(rows[-1], rows)

    def start(self, batch_size: int, capacity: int) -> RecurrentState:
        """See `contract.LanguageModel`."""
        L, weight = len(self.layers), self.token_embedding.weight
        wide = torch.promote_types(weight.dtype, torch.float32)
        if self.config.first_state:
            hidden = self.first_hidden[:, None].expand(-1, batch_size, -1)
            if self.first_cell is not None:
                return RecurrentState(hidden, self.first_cell[:, None].expand(-1, batch_size, -1).to(wide))
        else:
            hidden = weight.new_zeros(L, batch_size, self.width)
        return RecurrentState(hidden, weight.new_zeros(L, batch_size, self.cell_width, dtype=wide))

    def _penalty(self, dropped_TBD: Tensor, raw_TBD: Tensor) -> Tensor | None:
        """Merity et al. 2017, "Revisiting activation regularization for language RNNs" (arXiv:1708.01009)."""
        config, total = self.config, None
        if config.activation_penalty:
            total = config.activation_penalty * dropped_TBD.float().square().mean()
        if config.change_penalty and len(raw_TBD) > 1:
            change = config.change_penalty * raw_TBD.float().diff(dim=0).square().mean()
            total = change if total is None else total + change
        return total


def _widened(x_BD: Tensor, width: int) -> Tensor:
    """(B, D) -> (B, width), filled up with zeros."""
    return x_BD if x_BD.shape[1] == width else nn.functional.pad(x_BD, (0, width - x_BD.shape[1]))
