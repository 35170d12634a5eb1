"""Dimensionality reduction: principal components, t-SNE, UMAP.

PCA (Pearson 1901) is computed here: the singular vectors of the centered rows, or, if there are more rows than dimensions,
the eigenvectors of their covariance, which are the same and take one pass over blocks of rows. The largest loading of each
component is positive, so that maps do not flip from one machine to another. t-SNE (van der Maaten and Hinton 2008) is
scikit-learn's, UMAP (McInnes et al. 2018) umap-learn's; both have seeds, and t-SNE starts from the principal components with
a little noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

import numpy as np

from nlptools import messages
from nlptools.arrays import Array
from nlptools.configs.maps import DISTANCES, METHODS, Project
from nlptools.errors import DataError, Unavailable, UsageError
from nlptools.vectors.rows import blocks_of, scaled, unit

_NOISE = 1e-13  # share of the variance below which a component is rounding error


class Reduced(NamedTuple):
    """Coordinates (N, dims), float64, and the share of the variance along each axis, for PCA only."""

    coordinates: Array
    variance: tuple[float, ...] | None


def reduce(rows: Array, settings: Project, ends: Array | None = None) -> Reduced:
    """The rows (N, D) in 2 or 3 dimensions.

    Args:
        ends: own axes, each from one row to the next (2 A, D), instead of the method and its dimensions.
        settings: `method`, `dims`, `distance`, `perplexity` (with few rows it is reduced to (N - 1) / 3, with a note),
            `umap_neighbors` (reduced to N - 1 if there are fewer rows), `seed` and `spherize` are used.

    Raises:
        UsageError: no such method or distance, other dimensions than 2 or 3, numbers out of bounds.
        DataError: fewer than two rows (UMAP: three), or all rows are the same.
        Unavailable: the package of the method is not installed.
    """
    method, dims, perplexity = settings.method, settings.dims, settings.perplexity
    umap_neighbors, seed = settings.umap_neighbors, settings.seed
    distance = settings.distance or ("euclidean" if method == "pca" else "cosine")
    if method not in METHODS or distance not in DISTANCES:
        raise UsageError(f"method={method!r}, distance={distance!r}: expected one of {METHODS}, of {DISTANCES}")
    if dims not in (2, 3) or perplexity < 1 or umap_neighbors < 2 or not 0 <= seed < 2**32:
        raise UsageError(
            f"dims={dims}, perplexity={perplexity:g}, umap_neighbors={umap_neighbors}, seed={seed}: expected 2 or 3, at "
            "least 1, at least 2, from 0 to 2**32 - 1"
        )
    least = 3 if method == "umap" else 2
    if len(rows) < least:
        raise DataError(f"a map by {method} needs at least {least} words, found {len(rows)}")
    if all((rows[start:end] == rows[0]).all() for start, end in blocks_of(rows)):
        raise DataError(f"all {len(rows):,} vectors are the same: there is nothing to map")
    if settings.spherize:
        mean = rows.mean(axis=0, dtype=np.float64)
        rows, ends = unit(rows - mean), None if ends is None else unit(ends - mean)
    if distance == "cosine":
        rows, ends = unit(rows), None if ends is None else unit(ends)
        if all(np.abs(rows[start:end] - rows[0]).max() < 1e-6 for start, end in blocks_of(rows)):
            raise DataError(
                f"all {len(rows):,} vectors point the same way: their cosines cannot be mapped",
                hint="--distance euclidean uses their lengths",
            )
    if ends is not None:
        return Reduced(_along(rows, ends), None)
    if method == "pca":
        return pca(rows, dims)
    coordinates = _tsne(rows, dims, perplexity, seed) if method == "tsne" else _umap(rows, dims, umap_neighbors, seed)
    if not np.isfinite(coordinates).all():
        raise DataError(f"{method} finds no finite coordinates for these vectors")
    return Reduced(coordinates, None)


def _along(rows: Array, ends: Array) -> Array:
    """Coordinates (N, A), float64, of rows along axes, from `ends[2 a]` to `ends[2 a + 1]`. Raises DataError."""
    directions = ends[1::2].astype(np.float64) - ends[::2]
    if not directions.any(axis=1).all():
        raise DataError("the two words of an axis have vectors that point the same way")
    return np.concatenate([rows[start:end] @ scaled(directions).T for start, end in blocks_of(rows)])


# -- principal components ---------------------------------------------------------------------------------------------


def pca(rows: Array, dims: int) -> Reduced:
    """Rows (N, D) along their first `dims` principal components; zeros if there are fewer components."""
    mean = rows.mean(axis=0, dtype=np.float64)
    axes, shares = (_by_covariance if len(rows) > rows.shape[1] else _by_rows)(rows, mean)
    axes, shares = axes[:dims], shares[:dims]
    axes = axes[shares > _NOISE]
    largest = np.abs(axes).argmax(axis=1)
    axes = axes * np.where(axes[np.arange(len(axes)), largest] < 0, -1.0, 1.0)[:, None]
    coordinates = np.zeros((len(rows), dims))
    for start, end in blocks_of(rows):
        coordinates[start:end, : len(axes)] = (rows[start:end] - mean) @ axes.T
    variance = [float(share) if share > _NOISE else 0.0 for share in shares]
    return Reduced(coordinates, tuple(variance + [0.0] * (dims - len(variance))))


def _by_covariance(rows: Array, mean: Array) -> tuple[Array, Array]:
    """Components (D, D), the largest first, and their shares of the variance."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for start, end in blocks_of(rows):
        part = rows[start:end] - mean
        total += part.T @ part
    values, vectors = np.linalg.eigh(total)
    return vectors.T[::-1], np.maximum(values[::-1], 0) / values.clip(min=0).sum()


def _by_rows(rows: Array, mean: Array) -> tuple[Array, Array]:
    """As `_by_covariance`, for at most as many rows as dimensions: components (N, D)."""
    _, values, vectors = np.linalg.svd(rows - mean, full_matrices=False)
    return vectors, values**2 / (values**2).sum()


# -- other packages ---------------------------------------------------------------------------------------------------


class _Estimator(Protocol):
    def fit_transform(self, rows: Array) -> Array: ...


def check_method(method: str) -> None:
    """Raise Unavailable if the package of `method` is not installed, before any work is done."""
    if method != "pca":
        _estimator(method)


def _estimator(method: str) -> Callable[..., _Estimator]:
    """The class that computes a method."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # umap warns that TensorFlow, which is not needed here, is missing
            if method == "tsne":
                from sklearn.manifold import TSNE as estimator
            else:
                from umap import UMAP as estimator
    except ImportError:
        package = "scikit-learn" if method == "tsne" else "umap-learn"
        raise Unavailable(f"--method {method} needs the {package} package", extra="viz") from None
    return cast(Callable[..., _Estimator], estimator)


def _start(rows: Array, dims: int, seed: int) -> Array:
    """Initial places for other methods: principal components at the small scale that t-SNE expects.

    With one percent of noise, since words at the same place, or all in a plane, would never separate.
    """
    first = pca(rows, dims).coordinates
    noise = np.random.default_rng(seed).standard_normal(first.shape)
    return np.asarray((first / first[:, 0].std() + 0.01 * noise) * 1e-4, np.float32)


def _tsne(rows: Array, dims: int, perplexity: float, seed: int) -> Array:
    most = max(1.0, (len(rows) - 1) / 3)
    if perplexity > most:
        messages.note(f"t-SNE: perplexity {most:g} instead of {perplexity:g}: there are only {len(rows)} words")
    make = _estimator("tsne")
    model = make(dims, perplexity=min(perplexity, most), init=_start(rows, dims, seed), random_state=seed)
    return np.asarray(_quietly(model, rows), np.float64)


def _umap(rows: Array, dims: int, neighbors: int, seed: int) -> Array:
    make = _estimator("umap")
    start: str | Array = "spectral" if len(rows) > dims + 2 else _start(rows, dims, seed)
    near = min(neighbors, len(rows) - 1)
    model = make(n_components=dims, n_neighbors=near, init=start, random_state=seed, n_jobs=1)
    return np.asarray(_quietly(model, rows), np.float64)


def _quietly(model: _Estimator, rows: Array) -> Array:
    """Fit, with warnings of the package as messages of ours."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        coordinates = model.fit_transform(np.asarray(rows, np.float32))
    for warning in caught:
        if not issubclass(warning.category, (DeprecationWarning, FutureWarning, ImportWarning)):
            messages.detail(f"{type(model).__name__}: {' '.join(str(warning.message).split())[:200]}")
    return coordinates
