"""Product quantization: parts of vectors by centroids, and what is refused of directories that hold them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.configs.vectors import Convert
from nlptools.errors import BundleError, UsageError
from nlptools.vectors import product_quantization as pq
from nlptools.vectors import quantization
from nlptools.vectors.files import formats
from nlptools.vectors.table import Vectors


def table(count=700, dimensions=10, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    rows *= np.random.default_rng(seed + 1).uniform(0.1, 20, (count, 1)).astype(np.float32)
    return Vectors([f"w{i}" for i in range(count)], rows)


def decoded(product):
    return pq.ProductRows(product).take(slice(0, len(product.codes)))


@given(st.integers(1, 50), st.integers(1, 50))
def test_parts_cover_all_dimensions(dimensions, parts):
    if parts > dimensions:
        return
    found = pq.bounds(dimensions, parts)
    assert len(found) == parts and [n for first, last in found for n in range(first, last)] == list(range(dimensions))
    sizes = [last - first for first, last in found]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


def test_a_row_by_hand():
    centroids = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    product = pq.Product(np.array([[0, 1], [1, 0]], np.uint8), centroids, np.array([1, 10], np.float32))
    rows = pq.ProductRows(product)
    assert rows.shape == (2, 3)
    assert rows.take(slice(0, 2)).tolist() == [[1, 2, 6], [40, 50, 30]]
    assert rows.take([1, 1, 0]).tolist() == [[40, 50, 30], [40, 50, 30], [1, 2, 6]]


@given(st.integers(1, 60), st.integers(1, 6), st.integers(0, 99))
@settings(max_examples=examples(40))
def test_every_row_gets_its_nearest_centroid(count, dimensions, seed):
    rng = np.random.default_rng(seed)
    rows, centroids = rng.standard_normal((300, dimensions)), rng.standard_normal((count, dimensions))
    found = pq.nearest(rows.astype(np.float32), centroids.astype(np.float32))
    distances = ((rows[:, None] - centroids) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances[np.arange(300), found], distances.min(axis=1), atol=1e-5)


def test_few_vectors_are_exact():
    made = table(200)
    for parts in (1, 3, 10):
        product = pq.quantize(made, parts)
        assert product.codes.shape == (200, parts) and product.centroids.shape == (200, 10)
        differences = np.linalg.norm(decoded(product) - made.matrix, axis=1)
        assert (differences <= 1e-3 * np.linalg.norm(made.matrix, axis=1)).all()


def test_lengths_are_exact_and_more_parts_are_better():
    made = table()
    losses = []
    for parts in (1, 2, 3, 5, 10):
        product = pq.quantize(made, parts)
        lengths = np.linalg.norm(decoded(product), axis=1)
        np.testing.assert_allclose(lengths, np.linalg.norm(made.matrix, axis=1), rtol=1e-5)
        losses.append(quantization.measure(made, product))
    assert [loss.error for loss in losses] == sorted((loss.error for loss in losses), reverse=True)
    assert [loss.cosine for loss in losses] == sorted(loss.cosine for loss in losses)
    assert losses[0].overlap < losses[-1].overlap and losses[-1].cosine > 0.999


def test_centroids_are_means_of_their_rows():
    rows = np.random.default_rng(0).standard_normal((2000, 2)).astype(np.float32)
    found = pq.kmeans(rows, 16, np.random.default_rng(1), rounds=500)
    owner = pq.nearest(rows, found)
    means = np.array([rows[owner == i].mean(axis=0) for i in range(16)])
    np.testing.assert_allclose(found, means, atol=1e-6)


def test_a_centroid_without_rows_moves():
    """Two groups and two centroids that both begin in the same one: what is drawn twice must part."""
    rows = np.array([[0.0]] * 50 + [[9.0]] * 3, np.float32)
    for seed in range(20):
        found = pq.kmeans(rows, 2, np.random.default_rng(seed))
        assert sorted(found[:, 0].tolist()) == [0, 9]


def test_a_seed_gives_the_same_codes_and_scale_changes_none():
    made = table()
    one, again, other = (pq.quantize(made, 4, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not np.array_equal(one.codes, other.codes)
    longer = pq.quantize(Vectors(made.words, made.matrix * np.float32(4)), 4, 1)
    assert np.array_equal(longer.codes, one.codes)
    np.testing.assert_allclose(longer.scales, one.scales * 4, rtol=1e-6)


def test_zeros_and_equal_rows():
    made = Vectors(["zero", "a", "b"], np.array([[0, 0, 0], [1, 2, 3], [1, 2, 3]], np.float32))
    np.testing.assert_allclose(decoded(pq.quantize(made, 2)), made.matrix, atol=1e-6)
    loss = quantization.measure(made, pq.quantize(made, 2))
    assert loss.error == pytest.approx(0, abs=1e-6) and loss.cosine == pytest.approx(1) and loss.words == 3
    broken = made.matrix.copy()
    broken[1, 1] = np.inf
    with pytest.raises(BundleError, match="word 2 is not finite"):
        pq.quantize(Vectors(["zero", "a", "b"], broken), 2)


def test_loss_by_hand():
    made = Vectors(["a", "b", "zero"], np.array([[3, 4], [0, 2], [0, 0]], np.float32))
    rows = pq.Product(
        np.array([[0], [1], [0]], np.uint8), np.array([[5, 0], [0, 2]], np.float32), np.ones(3, np.float32)
    )
    loss = quantization.measure(made, rows)
    assert loss.cosine == pytest.approx((0.6 + 1) / 2) and loss.error == pytest.approx(np.sqrt(20) / 5 / 2)


# -- directories ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    formats.save(table(), str(tmp_path / "a.npy"))
    formats.convert(str(tmp_path / "a.npy"), str(tmp_path / "v"), Convert(quantize="pq", subvectors=3))
    return tmp_path / "v"


def test_a_directory_is_what_was_made(folder):
    found = formats.load(folder)
    assert isinstance(found.rows, pq.ProductRows)
    np.testing.assert_array_equal(found.matrix, decoded(pq.quantize(table(), 3)))
    assert found.words.list() == table().words.list()
    assert (folder / "vectors.npy").stat().st_size == 128 + 3 * 700
    chosen = formats.first_words(found, 5)
    np.testing.assert_array_equal(chosen.matrix, found.matrix[:5])


def replace(folder, name, array):
    """Put another array into a directory whose manifest knows its size: what a forger would do."""
    np.save(folder / name, array)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name]["size"] = (folder / name).stat().st_size
    (folder / "manifest.json").write_text(json.dumps(manifest))


BAD = {
    "too few scales": ("scales.npy", lambda a: a[:-1]),
    "an infinite scale": ("scales.npy", lambda a: np.where(np.arange(len(a)) == 3, np.inf, a)),
    "whole numbers as scales": ("scales.npy", lambda a: a.astype(int)),
    "codes of two bytes": ("vectors.npy", lambda a: a.astype(np.uint16)),
    "codes with a sign": ("vectors.npy", lambda a: a.astype(np.int8)),
    "more parts than dimensions": ("vectors.npy", lambda a: np.repeat(a, 4, axis=1)),
    "too few codes": ("vectors.npy", lambda a: a[:-1]),
    "too many centroids": ("centroids.npy", lambda a: np.concatenate([a, a])),
    "a centroid that is none": ("centroids.npy", lambda a: a * np.nan),
    "one dimension of centroids": ("centroids.npy", lambda a: a[:, 0]),
    "no columns": ("centroids.npy", lambda a: a[:, :0]),
}


@pytest.mark.parametrize("kind", BAD)
def test_arrays_that_do_not_fit(folder, kind):
    name, change = BAD[kind]
    replace(folder, name, change(np.load(folder / name)))
    with pytest.raises(BundleError):
        formats.load(folder)


def test_a_code_without_centroid(folder):
    replace(folder, "centroids.npy", np.load(folder / "centroids.npy")[:100])
    found = formats.load(folder)
    with pytest.raises(BundleError, match=r"vectors\.npy: a code is \d+, and there are 100 centroids"):
        found.nearest(["w1"])


def test_other_quantization_and_missing_files(folder):
    config = json.loads((folder / "config.json").read_text())
    data = (folder / "config.json").read_bytes()
    for kind in ("pq4", 3, None, ["pq"], "int8", "none"):
        (folder / "config.json").write_text(json.dumps({**config, "quantized": kind}).ljust(len(data)))
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["files"]["config.json"]["size"] = (folder / "config.json").stat().st_size
        (folder / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(BundleError):
            formats.load(folder)
    (folder / "config.json").write_bytes(data)
    (folder / "centroids.npy").unlink()
    with pytest.raises(BundleError, match="not there"):
        formats.load(folder)


def test_options(tmp_path):
    formats.save(table(3), str(tmp_path / "a.npy"))
    with pytest.raises(UsageError, match="10 dimensions"):
        formats.convert(str(tmp_path / "a.npy"), str(tmp_path / "v"), Convert(quantize="pq", subvectors=11))
    formats.convert(str(tmp_path / "a.npy"), str(tmp_path / "v"), Convert(quantize="pq"))
    assert np.load(tmp_path / "v/vectors.npy").shape == (3, 5), "a byte for two numbers"
