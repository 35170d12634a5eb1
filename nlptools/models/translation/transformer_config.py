"""The sizes of an encoder-decoder Transformer, and the choices by which published families differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nlptools.configs.architectures.seq2seq import Seq2SeqTransformerOptions
from nlptools.configs.checks import check_heads
from nlptools.errors import BundleError, UsageError
from nlptools.layers.linear import check_activation
from nlptools.layers.norms import NORMS
from nlptools.layers.transformer import FEED_FORWARDS
from nlptools.models.translation.vocabularies import CommonSizes, Vocabularies, VocabularySizes, common_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack


POSITIONS = ("sinusoidal", "fairseq", "learned", "relative")


class TransformerSizes(CommonSizes):
    """The fields of `TransformerConfig` that options determine."""

    encoder_heads: int
    decoder_heads: int
    encoder_intermediate_size: int
    decoder_intermediate_size: int
    norm: str
    attention_dropout: float
    activation_dropout: float


def transformer_sizes(options: Seq2SeqTransformerOptions) -> TransformerSizes:
    """The sizes that a command's options ask for. Raises UsageError for sizes that do not fit together."""
    if options.hidden % options.heads or options.hidden % 2:
        raise UsageError(f"--hidden {options.hidden} is not an even multiple of --heads {options.heads}")
    inner = options.intermediate or 4 * options.hidden
    return {
        **common_sizes(options),
        "encoder_heads": options.heads,
        "decoder_heads": options.heads,
        "encoder_intermediate_size": inner,
        "decoder_intermediate_size": inner,
        "norm": options.norm,
        "attention_dropout": options.attention_dropout,
        "activation_dropout": options.activation_dropout,
    }


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
    max_position_embeddings: int = 512  # a limit of learned positions alone; else for other programs
    layer_norm_eps: float = 1e-5
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    layout: str = ""  # model_type of a published family; "": Marian or Pegasus, as `norm` says, or ours
    start: int | None = None  # the token that the decoder begins with; None: the padding
    positions: str = "sinusoidal"  # "fairseq": as `positions.FairseqSinusoids`; "relative": numbers added to attention
    position_offset: int = 0  # the number of the first position
    embedding_norm: bool = False  # a norm after embeddings and positions
    norm_class: str = "layer"  # a name in `layers.transformer.NORMS`
    feed_forward: str = "plain"  # a name in `layers.transformer.FEED_FORWARDS`
    bias: bool = True  # of linear maps
    head_size: int = 0  # 0: the hidden size over the number of heads
    scale_attention: bool = True  # products of queries and keys are divided by sqrt(K)
    relative_buckets: int = 32
    farthest_distance: int = 128  # of relative positions: those beyond share a bucket
    tie_word_embeddings: bool = True  # the output matrix is the embedding of the target
    scale_output: bool = False  # the decoder's states are divided by sqrt(D) before the output matrix
    dropout_at_end: bool = False  # after the last norm of each stack

    def __post_init__(self) -> None:
        super().__post_init__()
        for heads in (self.encoder_heads, self.decoder_heads):
            check_heads(self.head_size * heads or self.hidden_size, heads)
        check_activation(self.activation)
        if self.positions in ("sinusoidal", "fairseq") and self.hidden_size % 2:
            raise BundleError(f"hidden size {self.hidden_size} is odd: no room for sines and cosines")
        for name, known in (
            ("norm", ("post", "pre")),
            ("positions", POSITIONS),
            ("norm_class", tuple(NORMS)),
            ("feed_forward", tuple(FEED_FORWARDS)),
        ):
            if vars(self)[name] not in known:
                raise BundleError(
                    f"{name} is {vars(self)[name]!r:.80}, expected {', '.join(known[:-1])} or {known[-1]}"
                )
        start = self.start_token
        if not isinstance(start, int) or isinstance(start, bool) or not 0 <= start < self.target_vocab_size:
            raise BundleError(f"the start token of the decoder is {start!r:.80}, expected a token of the target")
        buckets, farthest = self.relative_buckets, self.farthest_distance
        if buckets < 4 or buckets % 4 or farthest <= buckets // 2:
            raise BundleError(f"{buckets} buckets of distances up to {farthest} are not supported")

    @classmethod
    def from_options(cls, options: Seq2SeqTransformerOptions, **tokens: Unpack[VocabularySizes]) -> TransformerConfig:
        """The sizes that a command's options ask for. Raises UsageError for sizes that do not fit together."""
        return cls(**tokens, **transformer_sizes(options))

    @property
    def start_token(self) -> int:
        """See `Vocabularies`."""
        return self.pad if self.start is None else self.start

    @property
    def max_positions(self) -> int | None:
        """See `Vocabularies`."""
        return self.max_position_embeddings if self.positions == "learned" else None

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        D = self.hidden_size
        inner = self.encoder_layers * self.encoder_intermediate_size
        inner += self.decoder_layers * self.decoder_intermediate_size
        attention = self.encoder_layers * (self.head_size * self.encoder_heads or D)
        attention += 2 * self.decoder_layers * (self.head_size * self.decoder_heads or D)
        return 4 * attention * D + 2 * inner * D + self.embedding_rows * D
