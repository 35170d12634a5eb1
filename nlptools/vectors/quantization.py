"""Quantization of vectors, to int8 with a scale per row or to codes of product quantization, and its loss."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nlptools.errors import UsageError
from nlptools.vectors import product_quantization
from nlptools.vectors.files.directory import Quantized
from nlptools.vectors.nearest import neighbors
from nlptools.vectors.product_quantization import Product, ProductRows
from nlptools.vectors.rows import ArrayRows
from nlptools.vectors.table import Vectors

_SAMPLE = 200  # words of the sample for the overlap of neighbors


class Loss(NamedTuple):
    """How much quantized vectors differ from the originals.

    Attributes:
        error: mean length of the difference divided by the length of the vector, over all words with a nonzero vector.
        cosine: mean cosine of a vector and its quantized form, over the same words.
        overlap: mean share of the 10 nearest words that stay among the 10 nearest, over `words` words.
        words: the size of that sample, evenly spread over the vocabulary.
    """

    error: float
    cosine: float
    overlap: float
    words: int

    def summary(self, kind: str) -> str:
        """A line for people; `kind` is "int8" or "pq"."""
        return (
            f"{kind}: mean relative error {self.error:.6f}, mean cosine to the float32 vectors {self.cosine:.6f}, "
            f"overlap of the 10 nearest words {self.overlap:.4f} (of {self.words} words)"
        )


def quantized(vectors: Vectors, kind: str, parts: int = 0, seed: int = 1) -> Quantized | Product:
    """The vectors as `kind`, "int8" or "pq" with `parts` parts (0: one for every two dimensions).

    Raises:
        UsageError: more parts than dimensions.
        BundleError: a vector is not finite.
    """
    if kind == "int8":
        return quantize(vectors)
    if parts > vectors.dimensions:
        raise UsageError(f"--subvectors {parts}: the vectors have {vectors.dimensions:,} dimensions")
    return product_quantization.quantize(vectors, parts or (vectors.dimensions + 1) // 2, seed)


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


def measure(vectors: Vectors, quantized: Quantized | Product, k: int = 10) -> Loss:
    """The loss of `quantized` compared with `vectors`."""
    rows = ProductRows(quantized) if isinstance(quantized, Product) else ArrayRows(*quantized)
    after = Vectors(vectors.words, rows, path=vectors.path)
    errors, cosines, counted = 0.0, 0.0, 0
    for start, block in vectors.blocks():
        other = after.rows.take(slice(start, start + len(block))).astype(np.float64)
        exact = block.astype(np.float64)
        lengths, other_lengths = np.linalg.norm(exact, axis=1), np.linalg.norm(other, axis=1)
        some = (lengths > 0) & (other_lengths > 0)
        products = np.einsum("ij,ij->i", exact, other)[some]
        cosines += float((products / lengths[some] / other_lengths[some]).sum())
        errors += float((np.linalg.norm(exact - other, axis=1)[some] / lengths[some]).sum())
        counted += int(some.sum())
    places = np.unique(np.linspace(0, max(0, len(vectors) - 1), min(_SAMPLE, len(vectors))).astype(np.int64))
    sample = [vectors.words[int(place)] for place in places]
    shares = []
    for one, two in zip(neighbors(vectors, sample, k), neighbors(after, sample, k), strict=True):
        if one.neighbors and two.neighbors:
            names = {word for word, _ in one.neighbors}
            shares.append(len(names & {word for word, _ in two.neighbors}) / len(names))
    means = (errors / counted, cosines / counted) if counted else (0.0, 1.0)
    return Loss(*means, float(np.mean(shares)) if shares else 1.0, len(shares))
