"""Maps beside those of scikit-learn and umap-learn; projector directories as TensorBoard reads them."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from conftest import environment

from nlptools.configs.maps import Project
from nlptools.vectors.maps import points, projector, reduction
from nlptools.vectors.maps.reduction import pca
from nlptools.vectors.rows import unit

pytestmark = pytest.mark.reference


def reduce(given, method="pca", dims=2, **options):
    return reduction.reduce(given, Project(method=method, dims=dims, **options))


def rows(count, dimensions, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, dimensions)) @ rng.standard_normal((dimensions, dimensions)) + 5).astype(
        np.float32
    )


@pytest.mark.parametrize(("count", "dimensions"), [(500, 20), (20, 500), (40, 40), (3000, 100)])
def test_principal_components(count, dimensions):
    decomposition = pytest.importorskip("sklearn.decomposition")
    given = rows(count, dimensions)
    theirs = decomposition.PCA(3, svd_solver="full")
    expected = theirs.fit_transform(given.astype(np.float64))
    found = pca(given, 3)
    signs = np.sign((found.coordinates * expected).sum(axis=0))
    assert found.coordinates == pytest.approx(expected * signs, rel=1e-6, abs=1e-6 * np.abs(expected).max())
    assert found.variance == pytest.approx(theirs.explained_variance_ratio_)


def test_tsne_is_called_with_the_seed():
    manifold = pytest.importorskip("sklearn.manifold")
    given = rows(60, 10)
    found = reduce(given, "tsne", perplexity=8, seed=3)
    assert found.coordinates.tobytes() == reduce(given, "tsne", perplexity=8, seed=3).coordinates.tobytes()
    assert not np.allclose(found.coordinates, reduce(given, "tsne", perplexity=8, seed=4).coordinates)
    scaled = unit(given)
    theirs = manifold.TSNE(2, perplexity=8, init=reduction._start(scaled, 2, 3), random_state=3).fit_transform(scaled)
    assert (found.coordinates == theirs).all()
    trusted = manifold.trustworthiness(given, found.coordinates, n_neighbors=5, metric="cosine")
    assert trusted > 0.85 and trusted > manifold.trustworthiness(
        given, pca(scaled, 2).coordinates, n_neighbors=5, metric="cosine"
    )


def umap_class():
    pytest.importorskip("pynndescent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("umap").UMAP


def test_umap_is_called_with_the_seed():
    make, given = umap_class(), rows(14, 10)
    found = reduce(given, "umap", umap_neighbors=4, seed=3)
    assert not np.allclose(found.coordinates, reduce(given, "umap", umap_neighbors=4, seed=4).coordinates)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = make(n_neighbors=4, random_state=3, n_jobs=1).fit_transform(unit(given))
    assert (found.coordinates == theirs).all()
    for count, dims in ((3, 2), (5, 3)):
        few = reduce(rows(count, 8), "umap", dims).coordinates
        assert few.shape == (count, dims) and np.isfinite(few).all(), (count, dims)


def test_tensorboard_reads_the_directory(tmp_path):
    pytest.importorskip("tensorboard")
    given = rows(4, 5)
    made = points.Points(["new york", "a\tb", "\u3000", "\u05e9"], given, ["x", "y", "", "x"])
    projector.write(made, str(tmp_path / "p"))
    code = (
        "import json, sys\n"
        "from google.protobuf import text_format\n"
        "from tensorboard.plugins.projector import projector_plugin as plugin\n"
        "from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig\n"
        "config = text_format.Parse(open('projector_config.pbtxt').read(), ProjectorConfig())\n"
        "[one] = config.embeddings\n"
        "values = plugin._read_tensor_tsv_file(one.tensor_path)\n"
        "print(json.dumps([one.tensor_path, one.metadata_path, values.tolist()]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], cwd=tmp_path / "p", env=environment(), capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    import json

    tensors, metadata, values = json.loads(done.stdout.decode().strip().split("\n")[-1])
    assert (tensors, metadata) == ("tensors.tsv", "metadata.tsv")
    assert (np.array(values, np.float32) == given).all(), "nine digits are the same float32"
    lines = Path(tmp_path / "p" / metadata).read_text(encoding="utf-8").split("\n")
    assert lines == ["word\tgroup", "new york\tx", "a\\tb\ty", "(U+3000)\t", "\u05e9\tx", ""]
