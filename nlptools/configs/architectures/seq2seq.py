"""Options of each encoder-decoder."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.architectures.shared import architecture, heads, inner_width, probability
from nlptools.configs.checks import check_patches
from nlptools.configs.seq2seq import SourceImages, TrainSeq2Seq
from nlptools.errors import UsageError


def image_size(text: str) -> tuple[int, int]:
    """The width and the height in a text such as `32` or `40x24`. Raises UsageError."""
    found = re.fullmatch(r"([1-9]\d{0,3})(?:x([1-9]\d{0,3}))?", text)
    if found is None:
        raise UsageError(f"not a size of images: {text!r}, expected something like 32 or 40x24")
    return int(found[1]), int(found[2] or found[1])


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
    source_images: bool = option(
        False,
        "Sources are names of image files (PNG or JPEG), read by the encoder of a Vision Transformer (Dosovitskiy et al. 2021);"
        " --tokenizer is the tokenizer of the targets.",
        excludes=("target_tokenizer", "max_source_length", "sample", "source_lang", "target_lang"),
    )
    image_size: str = option(
        "32",
        "Width and height of the images in pixels, or both as WIDTHxHEIGHT; another size is an error.",
        metavar="N",
        check=image_size,
        needs=("source_images",),
        excludes=("init",),
    )
    patch_size: int = option(
        4,
        "Side of a patch in pixels.",
        low=1,
        high=256,
        metavar="N",
        needs=("source_images",),
        excludes=("init",),
    )
    resize: bool = option(
        False, "Scale images of other sizes to --image-size.", needs=("source_images",), excludes=("init",)
    )

    @property
    def architecture(self) -> str:
        return "seq2seq-vision" if self.source_images else super().architecture

    @property
    def images(self) -> SourceImages | None:
        width, height = image_size(self.image_size)
        return SourceImages(width, height, self.patch_size, self.resize) if self.source_images else None

    def check(self) -> None:
        super().check()
        width, height = image_size(self.image_size)
        check_patches(width, height, self.patch_size, "--image-size has to be a multiple of --patch-size")

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
