"""The Transformer as an encoder-decoder.

Vaswani et al. 2017, "Attention is all you need" (arXiv:1706.03762): sinusoidal positions, embeddings scaled by sqrt(D)
and shared between source, target and output. Norm after each sublayer as there (a MarianMT model), or before it with a
norm at the end of each stack (Pegasus).
Departures: the decoder begins with the padding token, which has a zero embedding and is never predicted; embeddings
have their rows padded to a multiple of 64 in memory, for aligned matrix products.
Shapes: B batch, S source length, T target length, D hidden, V vocabulary, W hypotheses per source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from nlptools.configs.architectures.seq2seq import Seq2SeqTransformerOptions
from nlptools.configs.checks import check_heads
from nlptools.errors import BundleError, UsageError
from nlptools.layers.attention import SourceMemory
from nlptools.layers.cache import Cache
from nlptools.layers.dropout import Dropout
from nlptools.layers.linear import check_activation
from nlptools.layers.norms import LayerNorm
from nlptools.layers.output import Projection, padded_embedding
from nlptools.layers.positions import Sinusoids
from nlptools.layers.transformer import Block, weighted_by
from nlptools.models.translation.vocabularies import Vocabularies, common_sizes

_NEVER = -1e4  # logit of the padding; its exponential is zero, and 16 bits can hold it


@dataclass(frozen=True)
class TransformerConfig(Vocabularies):
    """Sizes of an encoder-decoder Transformer (Vaswani et al. 2017). Dropouts apply in training only."""

    hidden_size: int
    encoder_layers: int
    decoder_layers: int
    encoder_heads: int
    decoder_heads: int
    encoder_intermediate_size: int
    decoder_intermediate_size: int
    norm: str = "post"  # before or after each sublayer
    activation: str = "relu"
    scale_embedding: bool = True
    max_position_embeddings: int = 512  # for other programs; positions are computed, without a limit
    layer_norm_eps: float = 1e-5
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for heads in (self.encoder_heads, self.decoder_heads):
            check_heads(self.hidden_size, heads)
        check_activation(self.activation)
        if self.hidden_size % 2:
            raise BundleError(f"hidden size {self.hidden_size} is odd: no room for sines and cosines")
        if self.norm not in ("post", "pre"):
            raise BundleError(f"norm is {self.norm!r}, expected post or pre")

    @classmethod
    def from_options(cls, options: Seq2SeqTransformerOptions, **tokens: Any) -> TransformerConfig:
        """The sizes that a command's options ask for. Raises UsageError for sizes that do not fit together."""
        if options.hidden % options.heads or options.hidden % 2:
            raise UsageError(f"--hidden {options.hidden} is not an even multiple of --heads {options.heads}")
        inner = options.intermediate or 4 * options.hidden
        return cls(
            **tokens,
            **common_sizes(options),
            encoder_heads=options.heads,
            decoder_heads=options.heads,
            encoder_intermediate_size=inner,
            decoder_intermediate_size=inner,
            norm=options.norm,
            attention_dropout=options.attention_dropout,
            activation_dropout=options.activation_dropout,
        )

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        D, layers = self.hidden_size, self.encoder_layers + self.decoder_layers
        inner = self.encoder_layers * self.encoder_intermediate_size
        inner += self.decoder_layers * self.decoder_intermediate_size
        return (4 * layers + 4 * self.decoder_layers) * D**2 + 2 * inner * D + self.embedding_rows * D


class TransformerState:
    """The keys and values of the decoder, and of the source."""

    def __init__(self, source: SourceMemory, cache: Cache | None) -> None:
        self.source = source
        self.cache = cache  # None: serves for one call
        self.keeps_attention = False
        self.attention: Tensor | None = None  # (B * W, T, S) of the last call

    def select(self, rows: Tensor, width: int = 1) -> TransformerState:
        """See `contract.State`."""
        assert self.cache is not None
        source = self.source.select(rows[::width] // self.cache.width)
        chosen = TransformerState(source, self.cache.select(rows, width))
        chosen.keeps_attention = self.keeps_attention
        return chosen


class Transformer(nn.Module):
    """See the module's docstring; fulfils `contract.EncoderDecoder`."""

    runs_in_16_bits = attends = True
    max_context = None

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.start_token = config.pad
        D = config.hidden_size
        self.token_embedding = padded_embedding(config.target_vocab_size, D, config.pad)
        if not config.share_embeddings:
            self.source_embedding = padded_embedding(config.source_vocab_size, D, config.pad)
        self.output_bias: Tensor
        self.register_buffer("output_bias", torch.zeros(config.target_vocab_size))
        self.output = Projection(self.token_embedding, config.num_classes, bias=self._bias)
        self.positions = Sinusoids(0, D)
        self.dropout = Dropout(config.dropout)
        self.encoder: Any = nn.ModuleList(_block(config, decoder=False) for _ in range(config.encoder_layers))
        self.decoder: Any = nn.ModuleList(_block(config, decoder=True) for _ in range(config.decoder_layers))
        if config.norm == "pre":
            self.encoder_norm = LayerNorm(D, config.layer_norm_eps)
            self.decoder_norm = LayerNorm(D, config.layer_norm_eps)
        self._biased: bool | None = None  # whether any logit has a bias; None: not known since weights were loaded
        self.register_load_state_dict_post_hook(_forget_bias)  # type: ignore[no-untyped-call]

    @torch.no_grad()
    def initialize(self) -> None:
        """Xavier's uniform weights (Glorot & Bengio 2010), embeddings normal with std 1/sqrt(D)."""
        D, pad = self.config.hidden_size, self.config.pad
        for name, parameter in self.named_parameters():
            if name.endswith("embedding.weight"):
                parameter.normal_(std=D**-0.5)
                parameter[pad].zero_()
                parameter[self.config.target_vocab_size if "token" in name else self.config.source_vocab_size :].zero_()
            elif parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            else:
                parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)
        self.output_bias.zero_()
        self.output_bias[pad] = _NEVER

    def encode(self, ids: Tensor, mask: Tensor | None = None, capacity: int | None = None) -> TransformerState:
        """See `contract.EncoderDecoder`."""
        mask = None if mask is None or bool(mask.all()) else mask[:, None, None]  # (B, 1, 1, S)
        x = self._source(ids)
        for block in self.encoder:
            x = block(x, mask=mask)
        if self.config.norm == "pre":
            x = self.encoder_norm(x)
        layers = [block.cross_attention.project(x, decoding=capacity is not None) for block in self.decoder]
        # on a CPU in float32: the small products of a beam's step take half as long as in 16 bits
        exact = torch.float32 if x.device.type == "cpu" else None
        cache = None if capacity is None else Cache.of(len(layers), capacity, exact)
        return TransformerState(SourceMemory(layers, mask), cache)

    def forward(self, ids: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """See `contract.EncoderDecoder`."""
        cache, (rows, T) = state.cache, ids.shape
        past, mask = 0, None
        if cache is not None:
            # the hypotheses of a source are queries to it, side by side
            past, ids = cache.length, ids.view(rows // cache.width, cache.width * T)
            mask = cache.extend(T)
        x = self._embedded(self.token_embedding, ids, past, T)
        for i, block in enumerate(self.decoder):
            layer = None if cache is None else cache.layers[i]
            weights: list[Tensor] | None = [] if state.keeps_attention and i == self._alignment_layer else None
            x = block(x, layer, mask, source=state.source, layer=i, weights=weights)
            if weights:
                state.attention = weights[0].view(rows, T, -1)
        x = self.decoder_norm(x) if self.config.norm == "pre" else x
        return x.view(rows, T, -1), state

    @property
    def attention_sizes(self) -> Mapping[str, tuple[int, int]]:
        """See `contract.AttendsToSource`."""
        decoder = len(self.decoder), self.config.decoder_heads
        return {"cross": decoder, "encoder": (len(self.encoder), self.config.encoder_heads), "decoder": decoder}

    def attention_weights(self, part: str, source: Tensor, target: Tensor) -> Iterator[Tensor]:
        """See `contract.AttendsToSource`."""
        if part == "encoder":
            return self._encoder_attention(source)
        return islice(self._decoder_attention(source, target), int(part == "cross"), None, 2)

    def _encoder_attention(self, source: Tensor) -> Iterator[Tensor]:
        x = self._source(source)
        for block in self.encoder:
            x = yield from block.observed(x, weighted_by())

    def _decoder_attention(self, source: Tensor, target: Tensor) -> Iterator[Tensor]:
        """The weights of self-attention and of cross-attention in turn."""
        memory = self.encode(source).source
        x = self._embedded(self.token_embedding, target, 0, target.shape[1])
        for i, block in enumerate(self.decoder):
            x = yield from block.observed(x, weighted_by(), memory, i)

    def _source(self, ids: Tensor) -> Tensor:
        """(B, S) -> (B, S, D): what goes into the first block of the encoder."""
        embedding = self.token_embedding if self.config.share_embeddings else self.source_embedding
        return self._embedded(embedding, ids, 0, ids.shape[1])

    def _bias(self) -> Tensor | None:
        """The bias of the logits, unless it is zero for all tokens that have a probability."""
        if self._biased is None:
            self._biased = bool(self.output_bias[: self.config.num_classes].any())
        return self.output_bias if self._biased else None

    @property
    def _alignment_layer(self) -> int:
        """The last layer but one: its attention aligns words best (Garg et al. 2019, arXiv:1909.02074)."""
        return max(0, len(self.decoder) - 2)

    def position_vectors(self, length: int) -> Tensor | None:
        """See `contract.Positioned`."""
        return self.positions.first(length)

    def _embedded(self, embedding: nn.Embedding, ids: Tensor, begin: int, T: int) -> Tensor:
        """(B, W * T) -> (B, W * T, D): embeddings and positions, T of them from `begin` on for each hypothesis."""
        x = embedding(ids)
        positions = self.positions.rows(begin, begin + T, x)
        scale = self.config.hidden_size**0.5 if self.config.scale_embedding else 1.0
        return self.dropout(torch.add(positions, x, alpha=scale))


def _forget_bias(module: Any, _: Any) -> None:
    module._biased = None


def _block(config: TransformerConfig, decoder: bool) -> Block:
    return Block(
        config.hidden_size,
        config.decoder_heads if decoder else config.encoder_heads,
        config.decoder_intermediate_size if decoder else config.encoder_intermediate_size,
        activation=config.activation,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.activation_dropout,
        eps=config.layer_norm_eps,
        pre_norm=config.norm == "pre",
        causal=decoder,
        cross=decoder,
    )
