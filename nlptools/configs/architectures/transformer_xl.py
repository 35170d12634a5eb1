"""Options of Transformer-XL."""

from __future__ import annotations

from dataclasses import dataclass

from nlptools.configs import option
from nlptools.configs.architectures.shared import adaptive, architecture, heads, inner_width, probability
from nlptools.configs.lm import TrainLM


@dataclass(frozen=True)
class TransformerXLOptions(TrainLM):
    """Transformer with a memory of earlier segments (Dai et al. 2019)"""

    arch: str = architecture("transformer-xl")
    heads: int = heads()
    intermediate: int = inner_width("four times --hidden")
    memory_length: int | None = option(
        None,
        "Positions of earlier segments that each layer remembers in training; default: --context. In use, each position sees"
        " as many positions as the last position of a training segment.",
        low=0,
        high=1 << 20,
        metavar="N",
    )
    clamp_length: int = option(0, "Treat longer distances as this one; 0: no limit.", high=1 << 20, metavar="N")
    same_length: bool = option(
        False, "Each position sees exactly --memory-length earlier positions, in training and in use."
    )
    pre_norm: bool = option(
        False, "Layer norms before each sublayer, which learns faster; otherwise after it, as published."
    )
    biases_per_layer: bool = option(False, "Separate query biases per layer; otherwise the layers share them.")
    attention_dropout: float | None = probability("Dropout of the attention weights; default: --dropout.", None)
    adaptive: str | None = adaptive()

    @property
    def needs_frequencies(self) -> str | None:
        return None if self.adaptive is None else "--adaptive"
