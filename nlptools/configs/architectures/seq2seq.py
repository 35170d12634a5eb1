"""Options of each encoder-decoder."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.architectures.shared import architecture, heads, inner_width, probability
from nlptools.configs.seq2seq import TrainSeq2Seq


def _embedding() -> int:
    width: int = option(0, "Width of the embeddings; 0: --hidden.", metavar="N")
    return width


@dataclass(frozen=True)
class Seq2SeqTransformerOptions(TrainSeq2Seq):
    """Transformer in the layout of MarianMT, or of Pegasus with --norm pre (Vaswani et al. 2017)"""

    arch: str = architecture("transformer")
    heads: int = heads()
    intermediate: int = inner_width("four times --hidden")
    norm: str = option(
        "post", "Layer norm after each sublayer (MarianMT), or before it (Pegasus).", choices=("post", "pre")
    )
    attention_dropout: float = probability("Dropout of the attention weights.", 0.0)
    activation_dropout: float = probability("Dropout inside the feed-forward layers.", 0.0)

    @property
    def has_dropout(self) -> bool:
        return max(self.dropout, self.attention_dropout, self.activation_dropout) > 0


@dataclass(frozen=True)
class Seq2SeqRNNOptions(TrainSeq2Seq):
    """Recurrent network, with attention (Bahdanau et al. 2015, Luong et al. 2015) or without (Cho et al. 2014)"""

    arch: str = architecture("rnn")
    embedding: int = _embedding()
    cell: str = option("lstm", "Recurrent cell.", choices=("lstm", "gru"))
    attention: str = option(
        "bahdanau",
        "Attention; none: the decoder reads the source as one vector, the last state of the encoder.",
        choices=("bahdanau", "luong", "none"),
    )


@dataclass(frozen=True)
class Seq2SeqConvolutionOptions(TrainSeq2Seq):
    """Convolutions with attention in each layer (Gehring et al. 2017)"""

    arch: str = architecture("convolution")
    embedding: int = _embedding()
