"""Options of convolutional language models."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.architectures.shared import architecture
from nlptools.configs.lm import TrainLM


@dataclass(frozen=True)
class ConvolutionOptions(TrainLM):
    """Gated convolutions (Dauphin et al. 2017)"""

    arch: str = architecture("convolution")
    kernel: int = option(
        4, "Kernel size in tokens; N layers of kernel K see N(K-1)+1 tokens.", low=1, high=64, metavar="K"
    )
