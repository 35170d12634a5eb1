"""Sizes of bidirectional encoders: BERT and ELECTRA."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs.checks import check_shares, check_sizes
from nlptools.errors import BundleError

FAMILIES = ("bert", "electra")


@dataclass(frozen=True)
class EncoderConfig:
    """Sizes of a BERT (Devlin et al. 2019) or of an ELECTRA (Clark et al. 2020). Dropouts are those of training."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    family: str = "bert"
    embedding_size: int = 0  # of the embeddings, projected to the hidden size where it differs; 0: the hidden size
    max_position_embeddings: int = 512
    type_vocab_size: int = 2  # segments that a token can belong to
    activation: str = "gelu"
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    hidden_dropout: float = 0.1
    attention_dropout: float = 0.1
    pad: int = 0

    def __post_init__(self) -> None:
        if self.embedding_size == 0:
            object.__setattr__(self, "embedding_size", self.hidden_size)
        check_sizes(
            self,
            vocab_size=1 << 22,
            hidden_size=1 << 16,
            num_hidden_layers=1024,
            num_attention_heads=1024,
            intermediate_size=1 << 18,
            embedding_size=1 << 16,
            max_position_embeddings=1 << 22,
            type_vocab_size=1 << 10,
        )
        check_shares(self, "layer_norm_eps", "initializer_range", "hidden_dropout", "attention_dropout")
        if self.hidden_size % self.num_attention_heads:
            raise BundleError(
                f"hidden size {self.hidden_size} is not a multiple of the {self.num_attention_heads} attention heads"
            )
        if self.family not in FAMILIES:
            raise BundleError(f"family is {self.family!r}, expected one of {', '.join(FAMILIES)}")
        if self.family == "bert" and self.embedding_size != self.hidden_size:
            raise BundleError("a BERT's embeddings are as wide as its hidden states")
        if not isinstance(self.pad, int) or isinstance(self.pad, bool) or not 0 <= self.pad < self.vocab_size:
            raise BundleError(f"pad is {self.pad!r}, expected a token of the vocabulary")
