"""Principal components by their definition; the methods of other packages with seeds, few rows and odd ones."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools import messages
from nlptools.configs.maps import Project
from nlptools.errors import DataError, Unavailable, UsageError
from nlptools.vectors import rows as table_rows
from nlptools.vectors.maps import reduction
from nlptools.vectors.maps.reduction import pca
from nlptools.vectors.rows import unit


def reduce(given, method="pca", dims=2, **options):
    return reduction.reduce(given, Project(method=method, dims=dims, **options))


def rows(count=60, dimensions=8, seed=0):
    made = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return made * np.arange(dimensions, 0, -1, dtype=np.float32) + 3


def test_by_hand():
    # deviations (-2, 1), (2, -1), (1, 2), (-1, -2): a square of side sqrt(10), stretched twice along (2, -1)
    square = np.array([[-2.0, 1.0], [2, -1], [0.5, 1], [-0.5, -1]], np.float32) + 7
    found = pca(square, 2)
    assert found.coordinates == pytest.approx(np.array([[-1, 0], [1, 0], [0, 0.5], [0, -0.5]]) * np.sqrt(5), abs=1e-6)
    assert found.variance == pytest.approx((0.8, 0.2))


@pytest.mark.parametrize(("count", "dimensions"), [(60, 8), (8, 60), (30, 30)])
def test_the_laws_of_principal_components(count, dimensions):
    given = rows(count, dimensions).astype(np.float64)
    found = pca(given, 3)
    centred = given - given.mean(axis=0)
    variances = np.linalg.svd(centred, compute_uv=False) ** 2
    assert found.variance == pytest.approx(variances[:3] / variances.sum())
    assert (found.coordinates**2).sum(axis=0) == pytest.approx(variances[:3])
    gram = found.coordinates.T @ found.coordinates
    assert np.abs(gram - np.diag(np.diag(gram))).max() < 1e-8 * gram.max(), "components do not correlate"
    assert np.abs(found.coordinates.mean(axis=0)).max() < 1e-9
    loadings = np.linalg.lstsq(found.coordinates, centred, rcond=None)[0]
    assert (loadings[np.arange(3), np.abs(loadings).argmax(axis=1)] > 0).all(), "the largest loading is positive"


def test_more_dimensions_than_rows_are_reduced_in_another_way_to_the_same_components():
    given = rows()
    wide = np.pad(given, ((0, 0), (0, 2 * len(given))))
    assert pca(wide, 3).coordinates == pytest.approx(pca(given, 3).coordinates, abs=1e-5)


def test_blocks_change_nothing(monkeypatch):
    given = rows()
    whole = pca(given, 2).coordinates, unit(given)
    monkeypatch.setattr(table_rows, "BLOCK_NUMBERS", 40)
    assert pca(given, 2).coordinates == pytest.approx(whole[0], abs=1e-5)
    assert unit(given).tobytes() == whole[1].tobytes()


@given(st.integers(2, 12), st.integers(1, 12), st.floats(1e-30, 1e30), st.integers(0, 99))
@settings(max_examples=examples(60), deadline=None)
def test_any_matrix_has_a_map(count, dimensions, size, seed):
    given = (np.random.default_rng(seed).standard_normal((count, dimensions)) * size).astype(np.float32)
    found = reduce(given, "pca", 3)
    assert found.coordinates.shape == (count, 3) and np.isfinite(found.coordinates).all()
    assert 0 < sum(found.variance) <= 1 + 1e-9 and list(found.variance) == sorted(found.variance, reverse=True)
    rank = min(count - 1, dimensions)
    assert not found.coordinates[:, rank:].any(), "no noise where there are no dimensions"


def test_a_line_has_one_component():
    line = np.outer(np.arange(5), [1.0, 2, 3]).astype(np.float32)
    found = pca(line, 2)
    assert found.variance == (pytest.approx(1), 0) and not found.coordinates[:, 1].any()
    assert found.coordinates[:, 0] == pytest.approx((np.arange(5) - 2) * np.sqrt(14), abs=1e-9)


def test_cosine_minds_no_lengths():
    given = rows()
    lengths = np.random.default_rng(1).uniform(0.1, 9, (len(given), 1)).astype(np.float32)
    plain = reduce(given, distance="cosine").coordinates
    assert reduce(given * lengths, distance="cosine").coordinates == pytest.approx(plain, abs=1e-5)
    assert not np.allclose(reduce(given).coordinates, plain)
    assert np.linalg.norm(unit(np.array([[3e38, 3e38], [1e-40, 0], [0, 0]], np.float32)), axis=1) == pytest.approx(
        [1, 1, 0], abs=1e-6
    )


@pytest.mark.parametrize(("count", "dims"), [(2, 3), (3, 2), (3, 3), (4, 3), (5, 3), (6, 2)])
def test_few_words(count, dims):
    pytest.importorskip("sklearn")
    found = reduce(rows(count), "tsne", dims)
    assert found.coordinates.shape == (count, dims) and np.isfinite(found.coordinates).all()
    assert found.variance is None


def test_perplexity_becomes_what_there_are_words_for(capsys):
    pytest.importorskip("sklearn")
    small = reduce(rows(10), "tsne", perplexity=30)
    assert "perplexity 3 instead of 30" in capsys.readouterr().err
    assert (small.coordinates == reduce(rows(10), "tsne", perplexity=3).coordinates).all()
    assert not capsys.readouterr().err
    assert reduce(rows(2), "tsne").coordinates.shape == (2, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"method": "mds"}, "mds"),
        ({"dims": 4}, "dims=4"),
        ({"dims": 1}, "dims=1"),
        ({"perplexity": 0.5}, "perplexity=0.5"),
        ({"umap_neighbors": 1}, "umap_neighbors=1"),
        ({"seed": -1}, "seed=-1"),
        ({"distance": "manhattan"}, "manhattan"),
    ],
)
def test_refused_settings(change, said):
    with pytest.raises(UsageError, match=said):
        reduce(rows(), **change)


def test_refused_data():
    same = np.ones((4, 3), np.float32)
    for bad, distance, said in (
        (rows(1), None, "at least 2 words, found 1"),
        (same, None, "all 4 vectors are the same"),
        (same * [[1], [2], [3], [4]], "cosine", "point the same way"),
    ):
        with pytest.raises(DataError, match=said):
            reduce(bad.astype(np.float32), distance=distance)
    assert reduce((same * [[1], [2], [3], [4]]).astype(np.float32)).variance[0] == pytest.approx(1)
    with pytest.raises(DataError, match="umap needs at least 3"):
        reduce(rows(2), "umap")


@pytest.mark.parametrize(("method", "package"), [("tsne", "scikit-learn"), ("umap", "umap-learn")])
def test_a_package_that_is_not_there(method, package, monkeypatch):
    for name in ("sklearn.manifold", "umap"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(Unavailable, match=package) as caught:
        reduce(rows(), method)
    assert caught.value.hint == "in the checkout of nlptools: pip install '.[viz]'"
    assert messages.settings.repeats == {}
