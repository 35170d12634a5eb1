"""The rotation beside scipy's, and CSLS as its authors define it."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.vectors.alignment import procrustes

pytestmark = pytest.mark.reference


@pytest.mark.parametrize(("pairs", "dimensions"), [(50, 8), (1000, 30), (30, 30)])
def test_the_rotation_is_that_of_scipy(pairs, dimensions):
    linalg = pytest.importorskip("scipy.linalg")
    one, other = np.random.default_rng(pairs).standard_normal((2, pairs, dimensions))
    np.testing.assert_allclose(procrustes(one, other), linalg.orthogonal_procrustes(one, other)[0], atol=1e-9)


def test_translations_of_gensim():
    """gensim's TranslationMatrix solves least squares without a constraint; where a rotation is exact both find it."""
    translation = pytest.importorskip("gensim.models.translation_matrix")
    keyed = pytest.importorskip("gensim.models.keyedvectors")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((80, 12)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    turn = np.linalg.qr(rng.standard_normal((12, 12)))[0]
    words = [f"w{i}" for i in range(80)]
    tables = []
    for matrix in (rows, (rows @ turn).astype(np.float32)):
        table = keyed.KeyedVectors(12)
        table.add_vectors(words, matrix)
        tables.append(table)
    theirs = translation.TranslationMatrix(*tables, word_pairs=[(word, word) for word in words])
    np.testing.assert_allclose(procrustes(rows, rows @ turn), theirs.translation_matrix, atol=1e-4)
