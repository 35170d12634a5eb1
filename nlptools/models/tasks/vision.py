"""The Vision Transformer: labels of pictures by the encoder block of texts.

Dosovitskiy et al. 2021, "An image is worth 16x16 words" (arXiv:2010.11929): patches are tokens, embedded by a linear map, after a
[class] token whose last state is classified; learned positions, pre-norm blocks. Pixels are standardized by the mean and the
standard deviation of each channel of the training data.
Shapes: B batch, P patches, F numbers of a patch, C channels, D hidden, K labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nlptools.configs.checks import check_sizes
from nlptools.errors import BundleError
from nlptools.layers.dropout import Dropout
from nlptools.layers.initial import draw_as_bert
from nlptools.layers.linear import Linear
from nlptools.layers.transformer import Block
from nlptools.models import registry


@dataclass(frozen=True)
class VisionConfig:
    """Sizes of a Vision Transformer.

    Attributes:
        vocab_size: P, the number of patches.
        height, width, channels: of pictures.
        patch_size: of the sides of a patch, in pixels.
    """

    vocab_size: int
    num_labels: int
    height: int
    width: int
    channels: int
    patch_size: int
    hidden_size: int = 64
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    dropout: float = 0.1

    def __post_init__(self) -> None:
        limits = {"height": 1 << 14, "width": 1 << 14, "channels": 3, "patch_size": 1 << 10, "num_labels": 1 << 20}
        check_sizes(self, vocab_size=1 << 20, **limits)
        if self.height % self.patch_size or self.width % self.patch_size:
            raise BundleError(f"{self.height} x {self.width} pixels are not a multiple of patches of {self.patch_size}")
        if self.vocab_size != (self.height // self.patch_size) * (self.width // self.patch_size):
            raise BundleError(f"vocab_size is {self.vocab_size}, which is not the number of patches")
        if self.hidden_size % self.num_attention_heads:
            raise BundleError(f"{self.num_attention_heads} heads do not divide {self.hidden_size}")

    @property
    def numbers(self) -> int:
        """F."""
        return self.patch_size**2 * self.channels

    def least_weights(self) -> int:
        """The number of weights of the positions, the patches and the blocks' linear maps."""
        D = self.hidden_size
        return D * (self.vocab_size + self.numbers + self.num_labels) + 12 * D * D * self.num_hidden_layers


class VisionTransformer(nn.Module):
    """See the module's docstring.

    Attributes:
        mean, scale: (C,) of the channels.
    """

    runs_in_16_bits = False
    family = registry.IMAGE_CLASSIFIER
    heads = ("sequence",)
    mean: Tensor
    scale: Tensor

    def __init__(self, config: VisionConfig) -> None:
        super().__init__()
        self.config, self.num_labels = config, config.num_labels
        D = config.hidden_size
        self.patches = Linear(config.numbers, D)
        self.class_token = nn.Parameter(torch.zeros(D))
        self.positions = nn.Embedding(config.vocab_size + 1, D)
        self.blocks: Any = nn.ModuleList(
            Block(D, config.num_attention_heads, 4 * D, activation="gelu", dropout=config.dropout, causal=False)
            for _ in range(config.num_hidden_layers)
        )
        self.norm = nn.LayerNorm(D)
        self.output = Linear(D, config.num_labels)
        self.dropout = Dropout(config.dropout)
        self.register_buffer("mean", torch.zeros(config.channels))
        self.register_buffer("scale", torch.ones(config.channels))

    def initialize(self) -> None:
        """Draw the weights: with BERT's deviation of 0.02, a small model would learn for many epochs to tell patches apart."""
        std = self.config.hidden_size**-0.5
        draw_as_bert(self, std)
        nn.init.normal_(self.class_token, std=std)

    @torch.no_grad()
    def standardize(self, mean: Tensor, scale: Tensor) -> None:
        """Take the mean (C,) and the standard deviation (C,) of each channel; of a constant channel only the mean."""
        self.mean.copy_(mean)
        self.scale.copy_(scale.where(scale > 0, torch.ones_like(scale)))

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, P, F) from 0 to 1 -> logits (B, K)."""
        B, P, F = pixels.shape
        standard = (pixels.view(B, P, -1, self.config.channels) - self.mean) / self.scale
        x = self.patches(standard.view(B, P, F))
        x = torch.cat([self.class_token.expand(B, 1, -1), x], 1) + self.positions.weight
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.output(self.norm(x[:, 0]))
        return logits
