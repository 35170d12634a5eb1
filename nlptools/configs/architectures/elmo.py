"""Options of ELMo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nlptools.configs import option
from nlptools.configs.architectures.shared import adaptive, architecture
from nlptools.configs.lm import TrainLM


@dataclass(frozen=True)
class ElmoOptions(TrainLM):
    """LSTMs in both directions over words that are read as characters (Peters et al. 2018)"""

    arch: str = architecture("elmo")
    cells: int = option(
        0,
        "Cells of each LSTM; its output is projected to --hidden. 0: eight times --hidden.",
        high=1 << 16,
        metavar="N",
    )
    highways: int = option(1, "Highway layers above the character convolutions.", high=64, metavar="N")
    layer_norm: bool = option(False, "Normalize the output of each LSTM.")
    sampled: int = option(
        0,
        "Sampled softmax: in training, compare each word with N words drawn by frequency instead of all words. Expects a"
        " vocabulary in the order of frequency. Validation uses all words.",
        metavar="N",
        excludes=("adaptive",),
    )
    adaptive: str | None = adaptive()
    # not options here: words are read as characters, and lines separately
    vectors: ClassVar[None] = None  # type: ignore[misc]
    freeze_embeddings: ClassVar[bool] = False  # type: ignore[misc]
    carry: ClassVar[bool] = False  # type: ignore[misc]

    @property
    def needs_frequencies(self) -> str | None:
        return "--sampled" if self.sampled else None if self.adaptive is None else "--adaptive"
