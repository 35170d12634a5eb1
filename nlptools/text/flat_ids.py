"""Lists of token ids as one flat array with lengths, the form in which corpora store them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np


def flat_ids(rows: Sequence[Sequence[int]], dtype: type[np.integer[Any]] = np.int64) -> tuple[np.ndarray, np.ndarray]:
    """All ids, flat, of type `dtype`, and the length of each row (int64)."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return np.fromiter(chain.from_iterable(rows), dtype, int(lengths.sum())), lengths


def id_type(size: int) -> np.dtype[Any]:
    """The smallest type that ids are stored in: uint16 for a vocabulary of up to 65,536 tokens, else uint32."""
    return np.dtype("uint16" if size <= 1 << 16 else "uint32")
