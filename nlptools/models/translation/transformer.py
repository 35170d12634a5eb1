"""The Transformer as an encoder-decoder.

Vaswani et al. 2017, "Attention is all you need" (arXiv:1706.03762): sinusoidal positions, embeddings scaled by sqrt(D)
and shared between source, target and output. Norm after each sublayer as there (a MarianMT model), or before it with a
norm at the end of each stack (Pegasus). `TransformerConfig` lists what else differs between published families: BART (Lewis et
al. 2020, arXiv:1910.13461), T5 (Raffel et al. 2020, arXiv:1910.10683), M2M-100 (Fan et al. 2021, arXiv:2010.11125).
Departures: the decoder begins with the padding token, which has a zero embedding and is never predicted; embeddings
have their rows padded to a multiple of 64 in memory, for aligned matrix products.
Shapes: B batch, S source length, T target length, D hidden, V vocabulary, W hypotheses per source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import torch
from torch import Tensor, nn

from nlptools.layers.attention import SourceMemory
from nlptools.layers.cache import Cache, KeyValues
from nlptools.layers.dropout import Dropout
from nlptools.layers.module_lists import Modules
from nlptools.layers.norms import NORMS
from nlptools.layers.output import Projection, padded_embedding
from nlptools.layers.positions import FairseqSinusoids, LearnedPositions, Positions, Sinusoids
from nlptools.layers.relations import bucket_scores
from nlptools.layers.traced_steps import Optionals, TracedSteps
from nlptools.layers.transformer import Block, weighted_by
from nlptools.models.translation.transformer_config import TransformerConfig as TransformerConfig

_NEVER = -1e4  # logit of the padding; its exponential is zero, and 16 bits can hold it
_POSITIONS: dict[str, type[Positions]] = {
    "sinusoidal": Sinusoids,
    "fairseq": FairseqSinusoids,
    "learned": LearnedPositions,
    "relative": Positions,
}


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

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.start_token, self.max_context = config.start_token, config.max_positions
        D, pad = config.hidden_size, config.pad
        frozen = None if config.start_token == pad and config.layout else pad
        self.token_embedding = padded_embedding(config.target_vocab_size, D, frozen)
        if not config.share_embeddings:
            self.source_embedding = padded_embedding(config.source_vocab_size, D, pad)
        matrix: nn.Embedding | nn.Linear = self.token_embedding
        if not config.tie_word_embeddings:
            matrix = self.output_matrix = nn.Linear(D, self.token_embedding.num_embeddings, bias=False)
        self.output_bias: Tensor
        self.register_buffer("output_bias", torch.zeros(config.target_vocab_size))
        self.output = Projection(matrix, config.num_classes, bias=self._bias)
        self.encoder_positions, self.decoder_positions = (_positions(config) for _ in range(2))
        self.dropout = Dropout(config.dropout)
        self.encoder = Modules(_block(config, decoder=False) for _ in range(config.encoder_layers))
        self.decoder = Modules(_block(config, decoder=True) for _ in range(config.decoder_layers))
        self.encoder_embedding_norm, self.decoder_embedding_norm = _norms(config, config.embedding_norm)
        self.encoder_norm, self.decoder_norm = _norms(config, config.norm == "pre")
        self.encoder_buckets = _buckets(config, config.encoder_heads)
        self.decoder_buckets = _buckets(config, config.decoder_heads)
        self.traced_steps = TracedSteps()
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
        return self.memory(self.encoder_states(ids, mask)[-1], mask, capacity)

    def memory(self, x: Tensor, mask: Tensor | None, capacity: int | None) -> TransformerState:
        """The state before the first target token, given the encoder's result (B, S, D) and its mask (B, 1, 1, S)."""
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
        if self.decoder_buckets is not None:
            mask = self._past_scores(self.decoder_buckets, mask, past, T)
        x, hidden = self._target(ids, past, T), None
        if cache is not None and not state.keeps_attention and not self.token_embedding.weight.requires_grad:
            inputs, masks = (x, state.source.mask, *state.source.layers), [mask] * len(self.decoder)
            hidden = self.traced_steps.run(self, self._step, inputs, masks, cache.layers)
        if hidden is None:
            hidden = self._decoded(x, mask, None if cache is None else cache.layers, state)
        if state.keeps_attention and state.attention is not None:
            state.attention = state.attention.view(rows, T, -1)
        return hidden.view(rows, T, -1), state

    def _step(self, inputs: Optionals, masks: Optionals, caches: Sequence[KeyValues]) -> Tensor:
        """See `layers.traced_steps`."""
        x, source_mask, *layers = inputs
        assert x is not None
        source = SourceMemory([layer for layer in layers if layer is not None], source_mask)
        return self._decoded(x, masks[0], caches, TransformerState(source, None))

    def _decoded(
        self, x: Tensor, mask: Tensor | None, caches: Sequence[KeyValues] | None, state: TransformerState
    ) -> Tensor:
        """(G, W * T, D) -> the same: the blocks of the decoder; `state` gets their attention if it keeps it."""
        for i, block in enumerate(self.decoder):
            cache = None if caches is None else caches[i]
            weights: list[Tensor] | None = [] if state.keeps_attention and i == self._alignment_layer else None
            x = block(x, cache, mask, source=state.source, layer=i, weights=weights)
            if weights:
                state.attention = weights[0]
        x = self._ended(x, self.decoder_norm)
        return x * self.config.hidden_size**-0.5 if self.config.scale_output else x

    def encoder_states(self, ids: Tensor, mask: Tensor | None = None) -> list[Tensor]:
        """(B, S) source ids -> what each block of the encoder gets, and the result, each (B, S, D). `mask` (B, 1, 1, S), True =
        real.
        """
        states = [self._source(ids)]
        attend = self._source_scores(mask, ids)
        for block in self.encoder:
            states.append(block(states[-1], mask=attend))
        states[-1] = self._ended(states[-1], self.encoder_norm)
        return states

    @property
    def attention_sizes(self) -> Mapping[str, tuple[int, int]]:
        """See `contract.AttendsToSource`."""
        decoder = len(self.decoder), self.config.decoder_heads
        return {
            "cross": decoder,
            "encoder": (self.config.encoder_layers, self.config.encoder_heads),
            "decoder": decoder,
        }

    def attention_weights(self, part: str, source: Tensor, target: Tensor) -> Iterator[Tensor]:
        """See `contract.AttendsToSource`."""
        if part == "encoder":
            return self._encoder_attention(source)
        return islice(self._decoder_attention(source, target), int(part == "cross"), None, 2)

    def _encoder_attention(self, source: Tensor) -> Iterator[Tensor]:
        x, attend = self._source(source), self._source_scores(None, source)
        for block in self.encoder:
            x = yield from block.observed(x, weighted_by(attend))

    def _decoder_attention(self, source: Tensor, target: Tensor) -> Iterator[Tensor]:
        """The weights of self-attention and of cross-attention in turn."""
        memory, T, mask = self.encode(source).source, target.shape[1], None
        if self.decoder_buckets is not None:
            mask = self._past_scores(self.decoder_buckets, None, 0, T)
        x = self._target(target, 0, T)
        for i, block in enumerate(self.decoder):
            x = yield from block.observed(x, weighted_by(mask), memory, i)

    def _source(self, ids: Tensor) -> Tensor:
        """(B, S) -> (B, S, D): what goes into the first block of the encoder."""
        embedding = self.token_embedding if self.config.share_embeddings else self.source_embedding
        vectors = self.encoder_positions.rows(*self._places(0, ids.shape[1]), embedding.weight)
        return self._embedded(embedding(ids), vectors, self.encoder_embedding_norm)

    def _target(self, ids: Tensor, begin: int, T: int) -> Tensor:
        """(B, W * T) -> (B, W * T, D): what goes into the first block of the decoder, T tokens from `begin` on for each of W
        hypotheses.
        """
        vectors = self.decoder_positions.rows(*self._places(begin, T), self.token_embedding.weight)
        return self._embedded(self.token_embedding(ids), vectors, self.decoder_embedding_norm)

    def _places(self, begin: int, length: int) -> tuple[int, int]:
        begin += self.config.position_offset
        return begin, begin + length

    def _source_scores(self, mask: Tensor | None, ids: Tensor) -> Tensor | None:
        """What self-attention of the encoder takes for a mask: with relative positions numbers, see `layers.attention.Mask`."""
        if self.encoder_buckets is None:
            return mask
        places = torch.arange(ids.shape[1], device=ids.device)
        distances = places - places[:, None]
        return bucket_scores(self.encoder_buckets, distances, self.config.farthest_distance, mask, causal=False)

    def _past_scores(self, table: nn.Embedding, mask: Tensor | None, past: int, T: int) -> Tensor:
        """As `_source_scores` for the decoder, (G or 1, H, W * T, S); `mask` and numbers of tokens as of its cache."""
        if mask is None:
            places = torch.arange(past + T, device=table.weight.device)
            distances = places - places[past:, None]
            mask = (distances <= 0)[None, None]
        else:  # a key is as far away as there are tokens of the hypothesis after it
            counts = mask[:, 0].cumsum(-1)
            distances = counts - counts[..., -1:]
        return bucket_scores(table, distances, self.config.farthest_distance, mask, causal=True)

    def _ended(self, x: Tensor, norm: nn.Module | None) -> Tensor:
        """The end of a stack."""
        x = x if norm is None else norm(x)
        return self.dropout(x) if self.config.dropout_at_end else x

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
        vectors: Tensor | None = self.encoder_positions.rows(*self._places(0, length), self.token_embedding.weight)
        return vectors

    def _embedded(self, x: Tensor, vectors: Tensor | None, norm: nn.Module | None) -> Tensor:
        """(B, W * T, D) embeddings, and (T, D) vectors of positions -> (B, W * T, D)."""
        scale = self.config.hidden_size**0.5 if self.config.scale_embedding else 1.0
        x = x * scale if vectors is None else torch.add(vectors, x, alpha=scale)
        return self.dropout(x if norm is None else norm(x))


def _forget_bias(module: Transformer, _: object) -> None:
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
        norm=config.norm_class,
        feed_forward=config.feed_forward,
        feed_forward_bias=config.bias,
        attention_options={"bias": config.bias, "head_size": config.head_size, "scaled": config.scale_attention},
    )


def _positions(config: TransformerConfig) -> Positions:
    length = config.max_position_embeddings + config.position_offset
    return _POSITIONS[config.positions](length, config.hidden_size)


def _norms(config: TransformerConfig, present: bool) -> tuple[nn.Module | None, nn.Module | None]:
    """A norm for the encoder and one for the decoder."""
    new = NORMS[config.norm_class]
    D, eps = config.hidden_size, config.layer_norm_eps
    return (new(D, eps), new(D, eps)) if present else (None, None)


def _buckets(config: TransformerConfig, heads: int) -> nn.Embedding | None:
    """The numbers of relative positions: (buckets, H)."""
    return nn.Embedding(config.relative_buckets, heads) if config.positions == "relative" else None
