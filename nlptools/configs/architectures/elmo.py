"""Options of ELMo."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from nlptools.configs import option
from nlptools.configs.architectures.shared import adaptive, architecture
from nlptools.configs.lm import TrainLM
from nlptools.errors import UsageError

_WIDEST, _MOST = 50, 1 << 16


def character_filters(text: str) -> tuple[tuple[int, int], ...]:
    """(width, number) of each convolution in a text such as `1:32,2:64`. Raises UsageError."""
    parts = text.split(",") if re.fullmatch(r"\d{1,5}:\d{1,5}(,\d{1,5}:\d{1,5})*", text) else []
    pairs = tuple((int(width), int(number)) for width, number in (part.split(":") for part in parts))
    if not pairs or not all(1 <= width <= _WIDEST and 1 <= number <= _MOST for width, number in pairs):
        raise UsageError(f"not filters: {text!r}, expected something like 1:32,2:64, with widths up to {_WIDEST}")
    return pairs


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
    filters: str = option(
        "1:32,2:32,3:64,4:128,5:256,6:512,7:1024",
        "Convolutions over the characters of a word, as WIDTH:NUMBER: the number of filters of each width. Fewer train faster.",
        metavar="WIDTH:NUMBER,...",
        check=character_filters,
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
