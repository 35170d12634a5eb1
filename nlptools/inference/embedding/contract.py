"""The contract of `embed`: turning lines into vectors with any kind of model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np


class Units(NamedTuple):
    """The tokens or words of one line, and their vectors."""

    names: list[str]
    vectors: np.ndarray  # (n, D), or with --layers all (n, layers, D); float32


class Embedder(Protocol):
    """Turns lines into vectors, a window of lines at a time; results are in the order of the lines."""

    @property
    def dimensions(self) -> int:
        """D, the width of the resulting vectors."""

    def prepare(self, lines: Sequence[str]) -> Any:
        """Preprocessing of the lines that may run in another thread, such as tokenization; None if there is none."""

    def embed(self, lines: Sequence[str], prepared: Any = None) -> np.ndarray:
        """One vector per line, including empty lines: (N, D), float32. `prepared` is the result of `prepare`."""

    def embed_units(self, lines: Sequence[str], prepared: Any = None) -> list[Units]:
        """The tokens or words of each line (see the settings) with their vectors."""

    def finish(self) -> None:
        """Called after the last line: report how much was cut or unknown."""
