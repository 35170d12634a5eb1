"""Which words are on a map, and what is told about those that are not."""

from __future__ import annotations

import numpy as np
import pytest

import nlptools
from nlptools.errors import BundleError, DataError, InputError, UsageError
from nlptools.vectors import csls
from nlptools.vectors.maps.mapping import kind_of
from nlptools.vectors.maps.points import Entry, choose, choose_rows, read, read_arrows, read_words
from nlptools.vectors.table import Vectors


def table(count=40, dimensions=6, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, dimensions), dtype=np.float32)
    return Vectors([f"w{i}" for i in range(count)], rows)


def test_first_words_chosen_words_and_words_of_arrows(capsys):
    made = table()
    assert choose(made).words == made.words.list() and choose(made, count=3).words == ["w0", "w1", "w2"]
    chosen = choose(made, [Entry("w7", "a"), Entry("nowhere"), Entry("w2"), Entry("w7", "b"), Entry("w9")], 2)
    assert chosen.words == ["w7", "w2"] and chosen.groups == ["a", ""]
    assert (chosen.rows == made.rows.take([7, 2])).all()
    said = capsys.readouterr().err
    assert "1 repeated words" in said and "1 of 3 words have no vector: nowhere" in said
    with_arrows = choose(made, count=2, arrows=[("w1", "w8"), ("w0", "none"), ("w8", "w5")])
    assert with_arrows.words == ["w0", "w1", "w8", "w5"] and with_arrows.arrows == [(1, 2), (2, 3)]
    assert (with_arrows.rows == made.rows.take([0, 1, 8, 5])).all() and with_arrows.groups == []
    assert "1 of 3 arrows" in capsys.readouterr().err
    assert choose(made, [], arrows=[("w1", "w8")]).words == ["w1", "w8"]


def test_words_that_subwords_give_a_vector():
    from nlptools.vectors.subwords import Subwords

    rng = np.random.default_rng(0)
    own, buckets = (rng.standard_normal((n, 8), dtype=np.float32) for n in (2, 500))
    kept = Subwords(3, 6, buckets, own)
    made = Vectors(["international", "cat"], kept.vectors(["international", "cat"], [0, 1]), subwords=kept)
    found = choose(made, [Entry("internationally"), Entry("cat")])
    assert found.words == ["internationally", "cat"] and (found.rows[0] == kept.compose("internationally")).all()


def test_rows_of_a_matrix_have_numbers_or_names():
    matrix = np.arange(12).reshape(4, 3) ** 2
    assert choose_rows(matrix, count=3).words == ["0", "1", "2"]
    names = [Entry("a", "x"), Entry("b", "y"), Entry("a", "z"), Entry("c", "t")]
    found = choose_rows(matrix, names, 2, arrows=[("a", "c")])
    assert found.words == ["a", "b", "c"] and found.groups == ["x", "y", "t"] and found.arrows == [(0, 2)]
    assert found.rows.dtype == np.float32 and (found.rows == matrix[[0, 1, 3]]).all()
    with pytest.raises(DataError, match="4 rows, 3 words"):
        choose_rows(matrix, names[:3])


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_what_is_not_finite_is_refused(value):
    matrix = np.ones((40, 3))
    matrix[33, 1] = value
    with pytest.raises(BundleError, match="word 34 is not finite"):
        choose_rows(matrix)
    assert choose_rows(matrix, count=33).rows.shape == (33, 3), "what is not shown is not looked at"


@pytest.mark.parametrize("k", [1, 10, 39, 100])
def test_nearest_are_all_cosines_sorted(k, monkeypatch):
    made = choose(table())
    made.rows[5] = 0
    made.rows[7] = made.rows[6] * 3
    monkeypatch.setattr(csls, "ROWS", 7)
    monkeypatch.setattr(csls, "COLUMNS", 11)
    places, cosines = made.nearest(k)
    lengths = np.linalg.norm(made.rows.astype(np.float64), axis=1, keepdims=True)
    unit = made.rows / np.where(lengths > 0, lengths, 1)
    full = unit @ unit.T
    np.fill_diagonal(full, -np.inf)
    k = min(k, 39)
    assert places.shape == cosines.shape == (40, k)
    assert cosines == pytest.approx(np.clip(-np.sort(-full, axis=1)[:, :k], -1, 1), abs=1e-5)
    assert np.take_along_axis(full, places, 1) == pytest.approx(cosines, abs=1e-5)
    assert all(i not in row and len(set(row)) == k for i, row in enumerate(places.tolist()))
    assert places[6, 0] == 7 and places[7, 0] == 6


def test_files_of_words_and_arrows(tmp_path):
    (tmp_path / "words").write_bytes("\ufeffking\troyal\r\n\nnew york\na\\tb\tx\n\u2028\n".encode())
    assert read_words(str(tmp_path / "words")) == [
        Entry("king", "royal"), Entry("new york"), Entry("a\tb", "x"), Entry("\u2028")
    ]  # fmt: skip
    (tmp_path / "pairs").write_text("king queen\n\nnew york\tparis\n")
    assert read_arrows(str(tmp_path / "pairs")) == [("king", "queen"), ("new york", "paris")]
    assert read_arrows("king:queen,new york:paris") == [("king", "queen"), ("new york", "paris")]
    for text, line in (("a\tb\tc\n", 1), ("a\n\tb\n", 2), ("a\n\\n\n", 2)):
        (tmp_path / "words").write_text(text)
        with pytest.raises(DataError, match=f"words:{line}: expected a word"):
            read_words(str(tmp_path / "words"))
    (tmp_path / "words").write_text("\n\n")
    with pytest.raises(DataError, match="no words in this file"):
        read_words(str(tmp_path / "words"))
    for text in ("a b c\n", "a\n", "a  b\n", "a\t\n"):
        (tmp_path / "pairs").write_text("x y\n" + text)
        with pytest.raises(DataError, match="pairs:2: expected two words"):
            read_arrows(str(tmp_path / "pairs"))
    for text, kind in (("nowhere.txt", InputError), ("a:b,c", UsageError), ("a:", UsageError), ("a:b:c", UsageError)):
        with pytest.raises(kind):
            read_arrows(text)


def test_kinds_of_maps_by_name(tmp_path):
    expected = {"-": ".tsv", "/dev/null": ".tsv",
                "a.tsv": ".tsv", "a.tsv.gz": ".tsv", "A.PNG": ".png", "x.y.svg": ".svg", "m.html": ".html",
                "dir": "directory", "dir.d/": "directory", str(tmp_path): "directory"}  # fmt: skip
    assert {name: kind_of(name) for name in expected} == expected
    for name in ("a.pdf", "a.txt", "a.jpg"):
        with pytest.raises(UsageError, match=r"ends in \.tsv"):
            kind_of(name)


def test_the_library_function(tmp_path):
    made = table()
    found = nlptools.project(made, ["w3", "w1", "w2"], dims=3, groups=["a", "b", "a"], arrows=[("w1", "w9")])
    assert found.words == ["w3", "w1", "w2", "w9"] and found.coordinates.shape == (4, 3)
    assert found.points.groups == ["a", "b", "a", ""] and found.points.arrows == [(1, 3)]
    assert sum(found.variance) == pytest.approx(1) and found.axes[0].startswith("PC 1 (")
    found.save(tmp_path / "m.tsv")
    rows = [line.split("\t") for line in (tmp_path / "m.tsv").read_text().splitlines()]
    assert [row[0] for row in rows] == found.words
    assert np.array([row[1:] for row in rows], float) == pytest.approx(found.coordinates, rel=1e-5, abs=1e-8)
    whole = nlptools.project(made.matrix, [f"w{i}" for i in range(40)])
    assert (whole.coordinates == nlptools.project(made).coordinates).all()
    np.save(tmp_path / "m.npy", made.matrix)
    from_file = nlptools.project(tmp_path / "m.npy", count=40)
    assert (from_file.coordinates == whole.coordinates).all() and from_file.words[:2] == ["0", "1"]
    assert from_file.title == "m.npy" and read(str(tmp_path / "m.npy"), count=2).words == ["0", "1"]
    with pytest.raises(UsageError, match="groups"):
        nlptools.project(made, ["w1", "w2"], groups=["a"])
    with pytest.raises(UsageError, match="name that ends in"):
        whole.save(tmp_path / "folder")
    for bad in (np.ones(4), np.array([["a", "b"]]), np.ones((3, 0))):
        with pytest.raises(UsageError, match="expected a matrix"):
            nlptools.project(bad)
