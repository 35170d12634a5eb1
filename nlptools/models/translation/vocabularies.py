"""The tokens of both sides of an encoder-decoder, and the options that all encoder-decoders share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict

from nlptools.configs.checks import check_sizes
from nlptools.configs.seq2seq import TrainSeq2Seq
from nlptools.errors import BundleError


class VocabularySizes(TypedDict):
    """The fields of `Vocabularies` that tokenizers determine."""

    source_vocab_size: int
    target_vocab_size: int
    pad: int
    eos: int


class CommonSizes(TypedDict):
    """The sizes that every encoder-decoder has."""

    hidden_size: int
    encoder_layers: int
    decoder_layers: int
    share_embeddings: bool
    dropout: float


@dataclass(frozen=True)
class Vocabularies:
    """The tokens of both sides.

    The last token of the target side may be the padding; the decoder starts from it, and it has no probability.
    """

    source_vocab_size: int
    target_vocab_size: int
    pad: int  # padding of both sides, and the token that the decoder starts from
    eos: int  # end of sentence, of both sides
    # one matrix for source, target and output; else one for target and output
    share_embeddings: bool = field(default=True, kw_only=True)
    dropout: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.share_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise BundleError("shared embeddings need one vocabulary for both sides")
        smaller = min(self.source_vocab_size, self.target_vocab_size)
        for name in ("pad", "eos"):
            value = vars(self)[name]
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < smaller:
                raise BundleError(f"{name} is {value!r}, expected a token of both vocabularies")

    @property
    def num_classes(self) -> int:
        """Tokens that have a probability: all of the target side but a padding at its end."""
        return self.target_vocab_size - (self.pad == self.target_vocab_size - 1)

    @property
    def start_token(self) -> int:
        """The token that the decoder begins with."""
        return self.pad

    @property
    def max_positions(self) -> int | None:
        """Most positions that the model can read on either side; None: no limit."""
        return None

    @property
    def source_length(self) -> int | None:
        """Tokens of every source, where all have the same number, as pictures have; None: sources are texts."""
        return None

    @property
    def ids_per_position(self) -> int:
        """Source tokens that the encoder reads as one position."""
        return 1

    @property
    def embedding_rows(self) -> int:
        """Rows of all embeddings."""
        return self.target_vocab_size + (0 if self.share_embeddings else self.source_vocab_size)

    def least_weights(self) -> int:
        """A lower bound on the number of parameters."""
        return self.embedding_rows


def common_sizes(options: TrainSeq2Seq) -> CommonSizes:
    """The sizes that every encoder-decoder has, from a command's options."""
    return {
        "hidden_size": options.hidden,
        "encoder_layers": options.layers,
        "decoder_layers": options.decoder_layers or options.layers,
        "share_embeddings": options.target_tokenizer is None,
        "dropout": options.dropout,
    }
