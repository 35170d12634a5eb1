"""Texts of pictures: the decoder of a Transformer reads the states of a Vision Transformer.

The encoder is the one of `finetune --scratch vit` (Dosovitskiy et al. 2021, arXiv:2010.11929) without its [class] token, the
decoder the one of `transformer`, as in CPTR (Liu et al. 2021, arXiv:2101.10804). Values of pixels are scaled to -1 to 1.
Shapes: B batch, S ids of a picture and its end, P patches, F numbers of a patch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nlptools.configs.architectures.seq2seq import Seq2SeqTransformerOptions
from nlptools.configs.checks import check_sizes
from nlptools.errors import BundleError
from nlptools.files.images import COLOR, PatchGrid
from nlptools.models.encoders.patches import PatchEncoder, PatchSizes
from nlptools.models.translation.transformer import Transformer, TransformerState
from nlptools.models.translation.transformer_config import TransformerConfig, transformer_sizes
from nlptools.models.translation.vocabularies import VocabularySizes

if TYPE_CHECKING:
    from typing_extensions import Unpack


@dataclass(frozen=True)
class CaptionerConfig(TransformerConfig):
    """Sizes of a Transformer that reads pictures. Source tokens: see `text.pixels`."""

    height: int = field(kw_only=True)
    width: int = field(kw_only=True)
    patch_size: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, height=1 << 14, width=1 << 14, patch_size=1 << 10)
        if self.height % self.patch_size or self.width % self.patch_size:
            raise BundleError(f"{self.height} x {self.width} pixels are not a multiple of patches of {self.patch_size}")

    @classmethod
    def from_options(cls, options: Seq2SeqTransformerOptions, **tokens: Unpack[VocabularySizes]) -> TransformerConfig:
        """See `TransformerConfig`."""
        images = options.images
        assert images is not None
        sizes = transformer_sizes(options)
        sizes["share_embeddings"] = False
        return cls(**tokens, **sizes, height=images.height, width=images.width, patch_size=images.patch)

    @property
    def grid(self) -> PatchGrid:
        """The patches of a picture."""
        return PatchGrid(self.height, self.width, COLOR, self.patch_size)

    @property
    def source_length(self) -> int | None:
        """See `Vocabularies`."""
        return self.grid.count * self.grid.numbers

    @property
    def ids_per_position(self) -> int:
        """See `Vocabularies`."""
        return self.grid.numbers

    @property
    def embedding_rows(self) -> int:
        """See `Vocabularies`; sources have no embeddings."""
        return self.target_vocab_size + self.grid.count + self.grid.numbers


class Captioner(Transformer):
    """See the module's docstring; fulfils `contract.EncoderDecoder`. Its attention is to patches, not to source tokens."""

    attends = False
    config: CaptionerConfig

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        del self.source_embedding, self.encoder
        sizes = PatchSizes(
            config.grid,
            config.hidden_size,
            config.encoder_layers,
            config.encoder_heads,
            config.encoder_intermediate_size,
            config.dropout,
            config.attention_dropout,
            config.activation_dropout,
        )
        self.image_encoder = PatchEncoder(sizes, class_token=False)
        self.encoder_norm = None  # it has its own

    def encode(self, ids: Tensor, mask: Tensor | None = None, capacity: int | None = None) -> TransformerState:
        """See `contract.EncoderDecoder`. No picture is padded; rows of a batch without pictures are black."""
        return self.memory(self.image_encoder(self._pixels(ids)), None, capacity)

    def _pixels(self, ids: Tensor) -> Tensor:
        """(B, S) -> (B, P, F), from -1 to 1."""
        grid, (pad, eos) = self.config.grid, (self.config.pad, self.config.eos)
        values = ids - (ids > pad).long() - (ids > eos).long()
        out = torch.zeros(
            len(ids), grid.count * grid.numbers, dtype=self.image_encoder.patches.weight.dtype, device=ids.device
        )
        length = min(ids.shape[1] - 1, out.shape[1])  # without the end
        out[:, :length] = values[:, :length] / 127.5 - 1
        return out.view(len(ids), grid.count, grid.numbers)
