"""The Vision Transformer: labels of pictures by the encoder block of texts.

Dosovitskiy et al. 2021, "An image is worth 16x16 words" (arXiv:2010.11929): the last state of a [class] token before the patches
is classified; with windows (Liu et al. 2021, arXiv:2103.14030), the mean of the states of the patches. Pixels are standardized
by the mean and the standard deviation of each channel of the training data.
Shapes: B batch, P patches, F numbers of a patch, C channels, D hidden, K labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nlptools.configs.checks import check_sizes
from nlptools.errors import BundleError
from nlptools.files.images import PatchGrid
from nlptools.layers.initial import draw_as_bert
from nlptools.layers.linear import Linear
from nlptools.models import registry
from nlptools.models.encoders.patches import PatchEncoder, PatchSizes


@dataclass(frozen=True)
class VisionConfig:
    """Sizes of a Vision Transformer.

    Attributes:
        vocab_size: P, the number of patches.
        height, width, channels: of pictures.
        patch_size: of the sides of a patch, in pixels.
        window: see `PatchSizes`.
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
    window: int = 0

    def __post_init__(self) -> None:
        limits = {"height": 1 << 14, "width": 1 << 14, "channels": 3, "patch_size": 1 << 10, "num_labels": 1 << 20}
        check_sizes(self, vocab_size=1 << 20, **limits)
        if self.height % self.patch_size or self.width % self.patch_size:
            raise BundleError(f"{self.height} x {self.width} pixels are not a multiple of patches of {self.patch_size}")
        if type(self.window) is not int or not 0 <= self.window <= 1 << 8:
            raise BundleError(f"window is {self.window!r:.80}, expected a whole number from 0 to {1 << 8}")
        if self.window and any(side % self.window for side in self.grid.sides):
            raise BundleError(f"windows of {self.window} x {self.window} do not divide the patches")
        if self.vocab_size != self.grid.count:
            raise BundleError(f"vocab_size is {self.vocab_size}, which is not the number of patches")
        if self.hidden_size % self.num_attention_heads:
            raise BundleError(f"{self.num_attention_heads} heads do not divide {self.hidden_size}")

    @property
    def grid(self) -> PatchGrid:
        """The patches of a picture."""
        return PatchGrid(self.height, self.width, self.channels, self.patch_size)

    def least_weights(self) -> int:
        """The number of weights of the positions, the patches and the blocks' linear maps."""
        D, positions = self.hidden_size, 0 if self.window else self.vocab_size
        return D * (positions + self.grid.numbers + self.num_labels) + 12 * D * D * self.num_hidden_layers


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
        D, layers = config.hidden_size, config.num_hidden_layers
        sizes = PatchSizes(
            config.grid, D, layers, config.num_attention_heads, 4 * D, config.dropout, window=config.window
        )
        self.encoder = PatchEncoder(sizes, class_token=not config.window)
        self.output = Linear(D, config.num_labels)
        self.register_buffer("mean", torch.zeros(config.channels))
        self.register_buffer("scale", torch.ones(config.channels))

    def initialize(self) -> None:
        """Draw the weights: with BERT's deviation of 0.02, a small model would learn for many epochs to tell patches apart."""
        std = self.config.hidden_size**-0.5
        draw_as_bert(self, std)
        if self.encoder.class_token is not None:
            nn.init.normal_(self.encoder.class_token, std=std)

    @torch.no_grad()
    def standardize(self, mean: Tensor, scale: Tensor) -> None:
        """Take the mean (C,) and the standard deviation (C,) of each channel; of a constant channel only the mean."""
        self.mean.copy_(mean)
        self.scale.copy_(scale.where(scale > 0, torch.ones_like(scale)))

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, P, F) from 0 to 1 -> logits (B, K)."""
        B, P, F = pixels.shape
        standard = (pixels.view(B, P, -1, self.config.channels) - self.mean) / self.scale
        states = self.encoder(standard.view(B, P, F))
        logits: Tensor = self.output(states.mean(1) if self.config.window else states[:, 0])
        return logits
