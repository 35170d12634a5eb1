"""What turns lines into vectors: the contract of `embed`, whatever kind of model is behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np


class Units(NamedTuple):
    """The tokens or words of one line, and what each became."""

    names: list[str]
    vectors: np.ndarray  # (n, D), float32


class Embedder(Protocol):
    """Lines to vectors, a window of lines at a time; results come in the order of the lines."""

    @property
    def dimensions(self) -> int:
        """D, the width of the vectors that come out."""

    def prepare(self, lines: Sequence[str]) -> Any:
        """What can be done for these lines beforehand and in another thread: their ids, say; None where nothing can."""

    def embed(self, lines: Sequence[str], prepared: Any = None) -> np.ndarray:
        """One vector for each line, an empty one too: (N, D), float32. `prepared` is what `prepare` gave for them."""

    def embed_units(self, lines: Sequence[str], prepared: Any = None) -> list[Units]:
        """The tokens or words of each line, as the settings say, with their vectors."""

    def finish(self) -> None:
        """After the last line: say what was cut or unknown."""
