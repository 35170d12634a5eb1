"""Vectors in int8, a scale per row, and what that costs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nlptools.vectors.bundle_format import Quantized
from nlptools.vectors.nearest import neighbors
from nlptools.vectors.table import ArrayRows, Vectors

_SAMPLE = 200  # words whose neighbours are compared


class Loss(NamedTuple):
    """How far int8 vectors are from what they were made of.

    Attributes:
        cosine: mean cosine of a vector and its int8 form, over all words whose vector is not zero.
        overlap: mean share of the 10 nearest words that stay among the 10 nearest, over `words` words.
        words: how many words were looked at for it, evenly spread over the vocabulary.
    """

    cosine: float
    overlap: float
    words: int


def quantize(vectors: Vectors) -> Quantized:
    """Rows rounded to -127..127, the largest number of each row being 127 times its scale. Raises BundleError."""
    rows = np.empty((len(vectors), vectors.dimensions), np.int8)
    scales = np.empty(len(vectors), np.float32)
    for start, block in vectors.blocks():
        largest = np.abs(block).max(axis=1, initial=0)
        part = (largest / np.float32(127)).astype(np.float32)
        part[part == 0] = 1
        scales[start : start + len(block)] = part
        rows[start : start + len(block)] = np.rint(block / part[:, None])
    return Quantized(rows, scales)


def measure(vectors: Vectors, quantized: Quantized, k: int = 10) -> Loss:
    """The loss of `quantized`, which was made of `vectors`."""
    after = Vectors(vectors.words, ArrayRows(*quantized), path=vectors.path)
    total, counted = 0.0, 0
    for start, block in vectors.blocks():
        other = after.rows.read(start, start + len(block)).astype(np.float64)
        exact = block.astype(np.float64)
        lengths = np.linalg.norm(exact, axis=1) * np.linalg.norm(other, axis=1)
        products = np.einsum("ij,ij->i", exact, other)
        total += float((products[lengths > 0] / lengths[lengths > 0]).sum())
        counted += int((lengths > 0).sum())
    places = np.unique(np.linspace(0, max(0, len(vectors) - 1), min(_SAMPLE, len(vectors))).astype(np.int64))
    sample = [vectors.words[int(place)] for place in places]
    shares = []
    for one, two in zip(neighbors(vectors, sample, k), neighbors(after, sample, k), strict=True):
        if one.neighbors and two.neighbors:
            names = {word for word, _ in one.neighbors}
            shares.append(len(names & {word for word, _ in two.neighbors}) / len(names))
    return Loss(total / counted if counted else 1.0, float(np.mean(shares)) if shares else 1.0, len(shares))
