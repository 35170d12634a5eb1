"""A convolutional encoder-decoder with attention in every decoder layer (ConvS2S).

Gehring et al. 2017, "Convolutional sequence to sequence learning" (arXiv:1705.03122): learned positions, blocks of
convolution and gated linear unit, residual sums scaled by sqrt(1/2), weights drawn so that variances are kept.
Departures: no weight normalization; with weights drawn as in the paper and AdamW, stacks of 8 and 8 layers train without.
The gradient of the encoder is not divided by the number of attentions: Adam does not see the scale of a gradient. The
output matrix is the target embedding (Press & Wolf 2017). A sum over the source is scaled by the square root of the row's
own length, padding left out. The first target token has a zero embedding before it, plus its position.
The same keys and values serve all layers and are computed once per source, with all factors in them.
Shapes: B sources, R target rows (B * width), T target length, S source length, E embedding, D hidden, V vocabulary, k kernel
size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlptools.configs.architectures.seq2seq import Seq2SeqConvolutionOptions
from nlptools.configs.checks import check_sizes
from nlptools.errors import BundleError, DataError
from nlptools.layers.cache import all_in_order
from nlptools.layers.convolution import HALF, GatedConvolution, zeroed
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import Linear
from nlptools.layers.output import Projection, padded_embedding
from nlptools.models.contract import CrossAttentionDefaults
from nlptools.models.translation.vocabularies import Vocabularies, VocabularySizes, common_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack


_EMBEDDING_STD = 0.1


@dataclass(frozen=True)
class ConvolutionTranslatorConfig(Vocabularies):
    """Sizes of a convolutional encoder-decoder (Gehring et al. 2017, ConvS2S)."""

    hidden_size: int
    embedding_size: int
    encoder_layers: int
    decoder_layers: int
    kernel_size: int = 3
    max_position_embeddings: int = 1024  # learned, so longer sequences cannot be read

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, kernel_size=63, max_position_embeddings=1 << 20)
        if self.kernel_size % 2 == 0:
            raise BundleError(f"kernel size {self.kernel_size} is even: an encoder needs a middle")

    @property
    def max_positions(self) -> int | None:
        """See `Vocabularies`."""
        return self.max_position_embeddings

    @classmethod
    def from_options(
        cls, options: Seq2SeqConvolutionOptions, **tokens: Unpack[VocabularySizes]
    ) -> ConvolutionTranslatorConfig:
        """The sizes that a command's options ask for."""
        return cls(**tokens, **common_sizes(options), embedding_size=options.embedding or options.hidden)

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        layers = self.encoder_layers + self.decoder_layers
        return layers * self.hidden_size**2 + self.embedding_rows * self.embedding_size


class ConvolutionalMemory(NamedTuple):
    """The source as the decoder attends to it."""

    keys: Tensor  # (B, S, E)
    values: Tensor  # (B, S, E)
    bias: Tensor  # (B, 1, S): 0, and -inf on padding


class ConvolutionState:
    """The last inputs of each decoder layer, and the sources; see `contract.SourceState`."""

    def __init__(self, source: ConvolutionalMemory, inputs: list[Tensor], width: int = 1) -> None:
        self.source = source
        self.inputs = inputs  # of each layer the last k - 1, (R, k - 1, D); zeros where nothing came before
        self.width = width  # rows of one source, which are neighbors
        self.size = 0  # places filled
        self.keeps_attention = False
        self.attention: Tensor | None = None  # (R, T, S)

    def select(self, rows: Tensor, width: int = 1) -> ConvolutionState:
        """See `contract.State`."""
        sources = rows[::width] // self.width
        source = self.source
        if not all_in_order(sources, len(source.keys)):
            source = ConvolutionalMemory(*(tensor.index_select(0, sources) for tensor in source))
        chosen = ConvolutionState(source, [inputs.index_select(0, rows) for inputs in self.inputs], width)
        chosen.size = self.size
        chosen.keeps_attention = self.keeps_attention
        return chosen


class EncoderLayer(nn.Module):
    """A gated convolution around each place, and a residual sum."""

    def __init__(self, config: ConvolutionTranslatorConfig) -> None:
        super().__init__()
        self.convolution = GatedConvolution(config.hidden_size, config.kernel_size)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """(B, S, D) -> (B, S, D). `real` (B, S, 1) is 0 on padding; None: there is none."""
        around = self.convolution.kernel_size // 2
        given = zeroed(self.dropout(x), real)
        out: Tensor = self.convolution(F.pad(given, (0, 0, around, around)))
        return (out + x).mul_(HALF)


class DecoderLayer(nn.Module):
    """A gated convolution over each place and those before it, attention to the source, and residual sums."""

    def __init__(self, config: ConvolutionTranslatorConfig) -> None:
        super().__init__()
        self.convolution = GatedConvolution(config.hidden_size, config.kernel_size)
        self.query = Linear(config.hidden_size, config.embedding_size)
        self.output = Linear(config.embedding_size, config.hidden_size)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Tensor, before: Tensor, embedded: Tensor, source: ConvolutionalMemory
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x (R, T, D), its last inputs (R, k-1, D), embedded tokens (R, T, E) -> x, last inputs, attention (R, T, S)."""
        R, T, E = embedded.shape
        B = len(source.keys)
        given = torch.cat([before, self.dropout(x)], 1)
        out: Tensor = self.convolution(given)
        query = (self.query(out) + embedded).mul_(HALF)
        # the rows of a source are queries to the same keys: one product for all of them
        scores = torch.baddbmm(source.bias, query.view(B, -1, E), source.keys.transpose(1, 2))  # (B, width * T, S)
        weights = torch.softmax(scores, -1)
        attended = torch.bmm(weights, source.values).view(R, T, E)
        out = (self.output(attended) + out).mul_(HALF)
        return (out + x).mul_(HALF), given[:, T:], weights.view(R, T, -1)


class ConvolutionTranslator(CrossAttentionDefaults, nn.Module):
    """See the module's docstring; fulfils `contract.EncoderDecoder`."""

    runs_in_16_bits = True  # also on a CPU
    attends = True

    def __init__(self, config: ConvolutionTranslatorConfig) -> None:
        super().__init__()
        self.config = config
        self.max_context = config.max_position_embeddings
        self.start_token = config.pad
        D, E = config.hidden_size, config.embedding_size
        self.target_embedding = padded_embedding(config.target_vocab_size, E, config.pad)
        self.source_embedding = (
            None if config.share_embeddings else padded_embedding(config.source_vocab_size, E, config.pad)
        )
        # where the padding has a probability, its row stays zero, as the start of a target has to be
        frozen = config.pad if config.pad < config.num_classes else None
        self.output = Projection(self.target_embedding, config.num_classes, frozen_row=frozen)
        self.source_positions = nn.Embedding(config.max_position_embeddings, E)
        self.target_positions = nn.Embedding(config.max_position_embeddings, E)
        self.encoder_input = Linear(E, D)
        self.encoder_layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.encoder_output = Linear(D, E)
        self.decoder_input = Linear(E, D)
        self.decoder_layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        self.decoder_output = Linear(D, E)
        self.dropout = Dropout(config.dropout)

    @torch.no_grad()
    def initialize(self) -> None:
        """Draw the weights as the paper does (section 3.5); the output of dropout has more variance."""
        for module in self.modules():
            if isinstance(module, nn.Embedding):
                module.weight.normal_(std=_EMBEDDING_STD)
                if module.padding_idx is not None:
                    module.weight[module.padding_idx] = 0
            elif isinstance(module, Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
                nn.init.zeros_(module.bias)
        kept = 1 - self.config.dropout
        for linear in (self.encoder_input, self.decoder_input):
            linear.weight.mul_(kept**0.5)
        for layer in (*self.encoder_layers, *self.decoder_layers):
            layer.convolution.initialize(kept)

    def encode(self, ids: Tensor, mask: Tensor | None = None, capacity: int | None = None) -> ConvolutionState:
        """See `contract.EncoderDecoder`. Raises DataError for a source longer than `max_context`."""
        B, S = ids.shape
        if mask is not None and bool(mask.all()):
            mask = None
        if self.max_context < S:
            self._check(S if mask is None else int(mask.sum(1).max()), "source tokens")
        positions = torch.arange(S, device=ids.device).clamp_(max=self.max_context - 1)
        table = self.target_embedding if self.source_embedding is None else self.source_embedding
        embedded = self.dropout(table(ids) + self.source_positions(positions))
        real = None if mask is None else mask[..., None].to(embedded.dtype)
        x = self.encoder_input(embedded)
        for layer in self.encoder_layers:
            x = layer(x, real)
        keys = self.encoder_output(x)
        # a mean over n has less variance than each of them: the paper multiplies it by sqrt(n)
        counts = torch.full((1, 1, 1), S, device=ids.device) if mask is None else mask.sum(1)[:, None, None]
        values = (keys + embedded) * (HALF * counts.float().sqrt()).to(keys.dtype)
        bias = keys.new_zeros(B, 1, S)
        if mask is not None:
            bias.masked_fill_(~mask[:, None], -torch.inf)
        nothing = x.new_zeros(B, self.config.kernel_size - 1, self.config.hidden_size)
        return ConvolutionState(ConvolutionalMemory(keys, values, bias), [nothing] * len(self.decoder_layers))

    def forward(self, ids: Tensor, state: ConvolutionState) -> tuple[Tensor, ConvolutionState]:
        """See `contract.EncoderDecoder`; hidden is (R, T, E). Raises DataError beyond `max_context` target positions."""
        past, T = state.size, ids.shape[1]
        self._check(past + T, "target tokens")
        positions = torch.arange(past, past + T, device=ids.device)
        embedded = self.dropout(self.target_embedding(ids) + self.target_positions(positions))
        x = self.decoder_input(embedded)
        attention = []
        for i, layer in enumerate(self.decoder_layers):
            x, state.inputs[i], weights = layer(x, state.inputs[i], embedded, state.source)
            if state.keeps_attention:
                attention.append(weights.detach().float())
        state.size = past + T
        state.attention = _mean(attention) if attention else None
        return self.dropout(self.decoder_output(x)), state

    def position_vectors(self, length: int) -> Tensor | None:
        """See `contract.Positioned`."""
        return self.source_positions.weight[:length]

    def _check(self, length: int, what: str) -> None:
        if length > self.max_context:
            raise DataError(f"{length} {what} are more than the model's limit of {self.max_context}")


def _mean(weights: list[Tensor]) -> Tensor:
    """The mean over layers, with sums of 1 also where 16 bits have rounded."""
    total = torch.stack(weights).mean(0)
    return total / total.sum(-1, keepdim=True)
