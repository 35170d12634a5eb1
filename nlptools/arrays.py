"""Types of NumPy arrays, and the places of elements in rows that are stored flat."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # of any type of numbers
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


def places_in_rows(lengths: Array) -> Longs:
    """The place of each element in its row, from 0, for rows of these lengths (N,) that follow each other: (M,)."""
    places: Longs = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return places
