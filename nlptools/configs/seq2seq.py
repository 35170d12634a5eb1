"""Settings of encoder-decoders: sizes of the three architectures, and training."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs.checks import check_shares, check_sizes
from nlptools.errors import BundleError


@dataclass(frozen=True)
class Vocabularies:
    """What the three architectures have in common: the tokens of both sides.

    The last token of the target side may be the padding; it is what the decoder starts from and has no probability.
    """

    source_vocab_size: int
    target_vocab_size: int
    pad: int  # padding of both sides, and what the decoder starts from
    eos: int  # end of sentence, of both sides

    def __post_init__(self) -> None:
        check_sizes(self, source_vocab_size=1 << 22, target_vocab_size=1 << 22)
        smaller = min(self.source_vocab_size, self.target_vocab_size)
        for name in ("pad", "eos"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < smaller:
                raise BundleError(f"{name} is {value!r}, expected a token of both vocabularies")

    @property
    def num_classes(self) -> int:
        """Tokens that have a probability: all of the target side but a padding at its end."""
        return self.target_vocab_size - (self.pad == self.target_vocab_size - 1)


@dataclass(frozen=True)
class TransformerConfig(Vocabularies):
    """Sizes of an encoder-decoder Transformer (Vaswani et al. 2017). Dropouts are those of training."""

    hidden_size: int
    encoder_layers: int
    decoder_layers: int
    encoder_heads: int
    decoder_heads: int
    encoder_intermediate_size: int
    decoder_intermediate_size: int
    norm: str = "post"  # before or after each sublayer
    activation: str = "relu"
    share_embeddings: bool = True  # one matrix for source, target and output; else one for target and output
    scale_embedding: bool = True
    max_position_embeddings: int = 512  # what is promised to others; positions are computed and have no end
    layer_norm_eps: float = 1e-5
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(
            self,
            hidden_size=1 << 16,
            encoder_layers=1024,
            decoder_layers=1024,
            encoder_heads=1024,
            decoder_heads=1024,
            encoder_intermediate_size=1 << 18,
            decoder_intermediate_size=1 << 18,
            max_position_embeddings=1 << 22,
        )
        check_shares(self, "layer_norm_eps", "dropout", "attention_dropout", "activation_dropout")
        for heads in (self.encoder_heads, self.decoder_heads):
            if self.hidden_size % heads:
                raise BundleError(f"hidden size {self.hidden_size} is not a multiple of the {heads} attention heads")
        if self.hidden_size % 2:
            raise BundleError(f"hidden size {self.hidden_size} is odd: no room for sines and cosines")
        if self.norm not in ("post", "pre"):
            raise BundleError(f"norm is {self.norm!r}, expected post or pre")
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise BundleError("shared embeddings need one vocabulary for both sides")


@dataclass(frozen=True)
class RecurrentConfig(Vocabularies):
    """Sizes of a recurrent encoder-decoder with attention (Bahdanau et al. 2015; Luong et al. 2015)."""

    hidden_size: int
    embedding_size: int
    encoder_layers: int = 1
    decoder_layers: int = 1
    cell: str = "lstm"  # or gru
    attention: str = "bahdanau"  # or luong
    input_feeding: bool = True  # Luong's: the attentional hidden state is part of the next input
    bidirectional: bool = True
    share_embeddings: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, hidden_size=1 << 16, embedding_size=1 << 16, encoder_layers=64, decoder_layers=64)
        check_shares(self, "dropout")
        if self.cell not in ("lstm", "gru"):
            raise BundleError(f"cell is {self.cell!r}, expected lstm or gru")
        if self.attention not in ("bahdanau", "luong"):
            raise BundleError(f"attention is {self.attention!r}, expected bahdanau or luong")
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise BundleError("shared embeddings need one vocabulary for both sides")


@dataclass(frozen=True)
class ConvolutionConfig(Vocabularies):
    """Sizes of a convolutional encoder-decoder (Gehring et al. 2017, ConvS2S)."""

    hidden_size: int
    embedding_size: int
    encoder_layers: int
    decoder_layers: int
    kernel_size: int = 3
    max_position_embeddings: int = 1024  # learned: longer sequences cannot be read
    share_embeddings: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(
            self,
            hidden_size=1 << 16,
            embedding_size=1 << 16,
            encoder_layers=1024,
            decoder_layers=1024,
            kernel_size=63,
            max_position_embeddings=1 << 20,
        )
        check_shares(self, "dropout")
        if self.kernel_size % 2 == 0:
            raise BundleError(f"kernel size {self.kernel_size} is even: an encoder needs a middle")
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise BundleError("shared embeddings need one vocabulary for both sides")
