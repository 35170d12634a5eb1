"""A recurrent encoder-decoder, with attention or without.

Bahdanau, Cho & Bengio 2015 (arXiv:1409.0473): the last hidden state asks, and the context is fed to the cell; words come
from a projection of hidden state, context and last word. Luong, Pham & Manning 2015 (arXiv:1508.04025): the new hidden
state asks (general score), words come from tanh(W [context; hidden]), which input feeding gives to the next step.
Without attention (Cho et al. 2014, arXiv:1406.1078; the decoder of Sutskever et al. 2014, arXiv:1409.3215, reads the context
at the start only): the context of all steps is one vector, the last hidden state of the encoder in each direction; words come
from hidden state, context and last word, as in the baseline of Bahdanau et al.
Departures: the output matrix is tied to the target embedding (Press & Wolf 2017), and the last projection has its
size; its non-linearity is tanh, not maxout; the decoder starts from tanh of a linear map of the mean of the encoder's
outputs (without attention, of its last states), cells included; with several decoder layers the top one asks; dropout on
non-recurrent connections alone (Zaremba et al. 2014). The encoder's second direction reads rows reversed each within its
length, instead of packed ones: PyTorch's kernel for these needs five times as long to train on a CPU.
Shapes: B sources, R rows of the decoder, S source length, T target length, E embedding, D hidden, C = D or 2 D of the
encoder's outputs, L decoder layers, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from nlptools.configs.architectures.seq2seq import Seq2SeqRNNOptions
from nlptools.configs.checks import check_sizes
from nlptools.errors import BundleError
from nlptools.layers.cache import all_in_order
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import Linear
from nlptools.layers.output import Projection
from nlptools.layers.recurrent import Cell, CellSteps
from nlptools.layers.source_attention import AttentionSteps, FixedContext, SourceAttention
from nlptools.models.contract import CrossAttentionDefaults
from nlptools.models.translation.vocabularies import Vocabularies, VocabularySizes, common_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class RecurrentTranslatorConfig(Vocabularies):
    """Sizes of a recurrent encoder-decoder (Bahdanau et al. 2015; Luong et al. 2015; without attention Cho et al. 2014)."""

    hidden_size: int
    embedding_size: int
    encoder_layers: int = 1
    decoder_layers: int = 1
    cell: str = "lstm"  # or gru
    attention: str = "bahdanau"  # or luong, none
    input_feeding: bool = True  # Luong's: the attentional hidden state is part of the next input
    bidirectional: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, encoder_layers=64, decoder_layers=64)
        if self.cell not in ("lstm", "gru"):
            raise BundleError(f"cell is {self.cell!r}, expected lstm or gru")
        if self.attention not in ("bahdanau", "luong", "none"):
            raise BundleError(f"attention is {self.attention!r}, expected bahdanau, luong or none")

    @classmethod
    def from_options(cls, options: Seq2SeqRNNOptions, **tokens: Unpack[VocabularySizes]) -> RecurrentTranslatorConfig:
        """The sizes that a command's options ask for."""
        return cls(
            **tokens,
            **common_sizes(options),
            embedding_size=options.embedding or options.hidden,
            cell=options.cell,
            attention=options.attention,
        )

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        layers = self.encoder_layers + self.decoder_layers
        return layers * self.hidden_size**2 + self.embedding_rows * self.embedding_size


class RecurrentMemory(NamedTuple):
    """The source as the decoder reads it; without attention S = 1."""

    outputs: Tensor  # (B, S, C) of the encoder; without attention (B, 1, C), its last states
    keys: Tensor  # (B, S, D) their projections for attention; (B, 1, 0)
    mask: Tensor | None  # (B, S), True = real; None: all are


@dataclass
class RecurrentTranslatorState:
    """Hidden states of the decoder's rows, `width` rows for each source; fulfils `contract.SourceState`."""

    source: RecurrentMemory
    hidden: Tensor  # (L, R, D)
    cell: Tensor  # (L, R, D); of a GRU (L, R, 0)
    feed: Tensor  # (R, D) Luong's attentional hidden state; (R, 0) where it is not fed
    width: int = 1
    keeps_attention: bool = False
    attention: Tensor | None = None  # (R, T, S)

    def select(self, rows: Tensor, width: int = 1) -> RecurrentTranslatorState:
        """See `contract.State`."""
        inputs = rows[::width] // self.width
        source = self.source
        if not all_in_order(inputs, len(source.keys)):
            source = RecurrentMemory(*(None if part is None else part.index_select(0, inputs) for part in source))  # type: ignore[arg-type]
        return RecurrentTranslatorState(
            source,
            self.hidden.index_select(1, rows),
            self.cell.index_select(1, rows),
            self.feed.index_select(0, rows),
            width,
            self.keeps_attention,
        )


class RecurrentTranslator(CrossAttentionDefaults, nn.Module):
    """See the module's docstring; fulfils `contract.EncoderDecoder`."""

    runs_in_16_bits = False  # PyTorch trains recurrent layers on a CPU in float32 only
    max_context: int | None = None

    def __init__(self, config: RecurrentTranslatorConfig) -> None:
        super().__init__()
        self.config = config
        self.start_token = config.pad
        E, D, L = config.embedding_size, config.hidden_size, config.decoder_layers
        C = D * (1 + config.bidirectional)
        self.attends = config.attention != "none"
        luong = config.attention == "luong"
        self.feeds = config.input_feeding and luong
        self.target_embedding = nn.Embedding(config.target_vocab_size, E, padding_idx=config.pad)
        self.source_embedding = None
        if not config.share_embeddings:
            self.source_embedding = nn.Embedding(config.source_vocab_size, E, padding_idx=config.pad)
        self.output = Projection(self.target_embedding, config.num_classes)
        self.dropout = Dropout(config.dropout)
        self.encoder = RecurrentEncoder(config)
        self.attention = SourceAttention(config.attention, D, C) if self.attends else None
        self.bridge = Linear(C, L * D * (2 if config.cell == "lstm" else 1))
        self.embedded = Linear(E, (4 if config.cell == "lstm" else 3) * D)
        fed = D * self.feeds if luong else C
        self.cells = nn.ModuleList(Cell(config.cell, D if i else fed, D, bias=i > 0) for i in range(L))
        self.combined = Linear(C + D, D) if luong else None
        self.readout = Linear(D if luong else D + C + E, E)

    @torch.no_grad()
    def initialize(self) -> None:
        """Embeddings of length 1 on average, orthogonal recurrent matrices, others Xavier, forget gates open (bias 1)."""
        config = self.config
        for name, parameter in self.named_parameters():
            if "bias" in name:
                parameter.zero_()
            elif "embedding" in name:
                parameter.normal_(std=config.embedding_size**-0.5)
                parameter[config.pad] = 0.0
            elif name == "attention.energy":
                parameter.uniform_(-(3**0.5), 3**0.5).mul_(config.hidden_size**-0.5)
            elif "weight_hh" in name or (name.startswith("cells") and name.endswith("hidden.weight")):
                for gate in torch.split(parameter, config.hidden_size):
                    nn.init.orthogonal_(gate)
            else:
                nn.init.xavier_uniform_(parameter)
        if config.cell == "lstm":
            D = config.hidden_size
            for name, parameter in self.named_parameters():
                # the gates' order is input, forget, ... both here and in PyTorch; layers there have two biases
                if "bias_hh" in name or name == "embedded.bias" or (name.startswith("cells") and "bias" in name):
                    parameter[D : 2 * D] = 1.0

    def encode(self, ids: Tensor, mask: Tensor | None = None, capacity: int | None = None) -> RecurrentTranslatorState:
        """See `contract.EncoderDecoder`."""
        if mask is not None and bool(mask.all()):
            mask = None
        config = self.config
        embedding = self.source_embedding or self.target_embedding
        outputs = self.encoder(self.dropout(embedding(ids)), mask)
        if self.attention is None:
            summary = self.encoder.last(outputs, mask)
            memory = RecurrentMemory(summary[:, None], outputs.new_empty(len(ids), 1, 0), None)
        else:
            summary = outputs.mean(1) if mask is None else outputs.sum(1) / mask.sum(1, keepdim=True)
            memory = RecurrentMemory(outputs, self.attention.keys(outputs), mask)
        states = self.bridge(summary).tanh().view(len(ids), -1, config.decoder_layers, config.hidden_size)
        states = states.permute(1, 2, 0, 3)  # (hidden and cell, L, B, D)
        cell = states[1] if config.cell == "lstm" else outputs.new_empty(*states.shape[1:3], 0)
        feed = outputs.new_zeros(len(ids), config.hidden_size * self.feeds)
        return RecurrentTranslatorState(memory, states[0], cell, feed)

    def forward(self, ids: Tensor, state: RecurrentTranslatorState) -> tuple[Tensor, RecurrentTranslatorState]:
        """See `contract.EncoderDecoder`; the hidden that is returned has the embedding's size."""
        config = self.config
        x = self.target_embedding(ids)
        if config.pad < config.num_classes:  # a padding that is a word of the output has a row that moves
            x = x * (ids != config.pad)[..., None]
        x = self.dropout(x)
        bases, attend = self._bases(x, state.source, len(ids))
        loop = _Loop(self, attend, state)
        for base in bases.unbind(0):
            loop.step(base)
        tops = torch.stack(loop.tops, 1)  # (R, T, D)
        if loop.contexts:
            contexts, weights = torch.stack(loop.contexts, 1), torch.stack(loop.weights, 1)
        else:  # nothing in the loop waits for attention: all positions at once
            contexts, weights = (out.view(*ids.shape, -1) for out in attend(tops.flatten(0, 1)))
        hidden = self._read(x, tops, contexts, torch.stack(loop.feeds, 1) if self.feeds else None)
        return hidden, RecurrentTranslatorState(
            state.source,
            torch.stack(loop.hidden),
            torch.stack(loop.cell),
            loop.feed,
            state.width,
            state.keeps_attention,
            weights.detach().float() if state.keeps_attention and self.attends else None,
        )

    def _bases(self, x: Tensor, source: RecurrentMemory, rows: int) -> tuple[Tensor, AttentionSteps | FixedContext]:
        """Embeddings (R, T, E) -> what the gates are computed from besides the loop's states (T, R, G); the contexts."""
        bases = self.embedded(x.transpose(0, 1))
        if self.attention is not None:
            return bases, AttentionSteps(self.attention, *source)
        fixed = FixedContext(source.outputs[:, 0])
        return bases + self.cells[0].fed(fixed.of(rows)), fixed  # type: ignore[operator]

    def _read(self, x: Tensor, tops: Tensor, contexts: Tensor, attentional: Tensor | None) -> Tensor:
        """Embeddings, hidden states, contexts, perhaps Luong's attentional states, all (R, T, ...) -> (R, T, E)."""
        if self.combined is None:
            return self.readout(self.dropout(torch.cat([tops, contexts, x], -1))).tanh()
        if attentional is None:
            attentional = self.combined(torch.cat([contexts, tops], -1)).tanh()
        return self.readout(self.dropout(attentional))


class RecurrentEncoder(nn.Module):
    """Layers of LSTM or GRU, in one or both directions."""

    def __init__(self, config: RecurrentTranslatorConfig) -> None:
        super().__init__()
        kind: type[nn.LSTM] | type[nn.GRU] = nn.LSTM if config.cell == "lstm" else nn.GRU
        D, directions = config.hidden_size, 1 + config.bidirectional
        sizes = [config.embedding_size] + [D * directions] * (config.encoder_layers - 1)
        self.forwards = nn.ModuleList(kind(size, D, batch_first=True) for size in sizes)
        self.backwards = nn.ModuleList(kind(size, D, batch_first=True) for size in sizes if config.bidirectional)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, S, E), and (B, S) with True = real, padded on the right -> (B, S, C), 0 at padding."""
        S = x.shape[1]
        places = torch.arange(S - 1, -1, -1, device=x.device)[None]
        if mask is not None:
            lengths = mask.sum(1, keepdim=True)
            places = (places - (S - lengths)) % S  # the padding, in any order, stays at the end
        for i, ahead in enumerate(self.forwards):
            if i:
                x = self.dropout(x)
            out, _ = ahead(x)
            if self.backwards:
                back, _ = self.backwards[i](_arrange(x, places))
                out = torch.cat([out, _arrange(back, places)], -1)
            x = out
        return x if mask is None else x * mask[..., None]

    def last(self, outputs: Tensor, mask: Tensor | None) -> Tensor:
        """The outputs (B, S, C) of `forward` -> the last hidden state of each direction (B, C)."""
        D = outputs.shape[-1] // (1 + bool(self.backwards))
        rows = torch.arange(len(outputs), device=outputs.device)
        end = -1 if mask is None else mask.sum(1) - 1
        return torch.cat([outputs[rows, end, :D], outputs[:, 0, D:]], -1)


def _arrange(x: Tensor, places: Tensor) -> Tensor:
    """x (B, S, D) in the order of `places` (B or 1, S), which is its own inverse."""
    return x.gather(1, places[..., None].expand(x.shape))


class _Loop:
    """The decoder's way through the target, one position at a time."""

    def __init__(
        self, model: RecurrentTranslator, attend: AttentionSteps | FixedContext, state: RecurrentTranslatorState
    ) -> None:
        self.attend = attend
        self.asks_first = model.attends and model.combined is None  # Bahdanau's
        self.feeding = model.feeds
        self.dropout = model.dropout
        self.cells = [CellSteps(cell) for cell in model.cells]  # type: ignore[arg-type]
        self.combined = model.combined if self.feeding else None
        self.hidden, self.cell, self.feed = list(state.hidden), list(state.cell), state.feed
        self.tops: list[Tensor] = []
        self.contexts: list[Tensor] = []  # of each position; empty when attention can wait for all of them
        self.weights: list[Tensor] = []
        self.feeds: list[Tensor] = []

    def step(self, base: Tensor) -> None:
        """One position. `base` (R, G): the contribution of the embedding to the gates."""
        x = None
        if self.asks_first:
            x = self._look(self.hidden[-1])
        elif self.feeding:
            x = self.feed
        for i, cell in enumerate(self.cells):
            if i and x is not None:
                x = self.dropout(x)
            x, self.cell[i] = cell(None if i else base, x, self.hidden[i], self.cell[i])
            self.hidden[i] = x
        self.tops.append(self.hidden[-1])
        if self.combined is not None:
            context = self._look(self.hidden[-1])
            self.feed = self.combined(torch.cat([context, self.hidden[-1]], -1)).tanh()
            self.feeds.append(self.feed)

    def _look(self, hidden: Tensor) -> Tensor:
        context, weights = self.attend(hidden)
        self.contexts.append(context)
        self.weights.append(weights)
        return context
