"""The tokens or words of a line, and their vectors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Units(NamedTuple):
    """The tokens or words of one line, and their vectors."""

    names: list[str]
    vectors: np.ndarray  # (n, D), or with --layers all (n, layers, D); float32
