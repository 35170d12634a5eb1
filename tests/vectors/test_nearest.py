"""Neighbours: the same as all cosines sorted, whatever the batch, the block and the order of the file."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import BundleError, UsageError
from nlptools.vectors.expression import Expression, parse
from nlptools.vectors.nearest import EPSILON, Best, nearest_to, neighbors
from nlptools.vectors.table import Vectors


def table(count=400, dimensions=12, seed=0):
    rows = np.random.default_rng(seed).standard_normal((count, dimensions), dtype=np.float32)
    return Vectors([f"w{i}" for i in range(count)], rows)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def names(found):
    return [word for word, _ in found]


@pytest.mark.parametrize("k", [1, 7, 1000])
def test_all_cosines_sorted(k):
    made = table()
    cosines = unit(made.matrix.astype(np.float64))
    cosines = cosines @ cosines.T
    for i, found in zip(range(0, 400, 41), made.nearest([f"w{i}" for i in range(0, 400, 41)], k), strict=True):
        order = [j for j in np.argsort(-cosines[i], kind="stable") if j != i][:k]
        assert names(found) == [f"w{j}" for j in order]
        assert [s for _, s in found] == pytest.approx(cosines[i][order], abs=1e-5)


def test_add_and_mul_by_definition():
    made, i, j, l = table(), 3, 5, 8
    cosines = unit(made.matrix.astype(np.float64))
    query = unit(cosines[i] - cosines[j] + cosines[l])
    shifted = (cosines @ cosines.T + 1) / 2
    expected = {"add": cosines @ query, "mul": shifted[i] * shifted[l] / (shifted[j] + EPSILON)}
    for method, scores in expected.items():
        [found] = made.nearest(["w3 - w5 + w8"], 6, method=method)
        order = [n for n in np.argsort(-scores) if n not in (i, j, l)][:6]
        assert names(found) == [f"w{n}" for n in order]
        assert [s for _, s in found] == pytest.approx(scores[order], rel=1e-4)


@pytest.mark.parametrize("method", ["add", "mul"])
def test_batch_block_and_order_change_nothing(monkeypatch, method):
    from nlptools.vectors import nearest
    from nlptools.vectors import table as tables

    made = table(3000)
    queries = [f"w{i}" for i in range(0, 3000, 30)] + ["w1 - w2 + w3", "w9 + w8", "zzz", "w1 - w2 - w3 + w4"]
    whole = neighbors(made, queries, 5, method=method)
    assert [neighbors(made, [query], 5, method=method)[0] for query in queries] == whole  # to the last digit
    monkeypatch.setattr(nearest, "BATCH", 7)
    monkeypatch.setattr(tables, "BLOCK_NUMBERS", 400)
    monkeypatch.setattr(nearest, "AGAIN", 90)
    monkeypatch.setattr(nearest, "WAITING", 0)
    order = np.argsort(made.matrix @ made["w30"])  # nearer and nearer: every block beats the one before
    other = Vectors([f"w{i}" for i in order], made.matrix[order])
    for source in (made, other):
        assert neighbors(source, queries, 5, method=method) == whole


def test_of_equal_words_the_first_wins(monkeypatch):
    from nlptools.vectors import nearest

    monkeypatch.setattr(nearest, "ROWS", (7, 7))
    rows = np.eye(4, 6, dtype=np.float32)[np.arange(300) % 4]  # cosines that have no rounding
    made = Vectors([f"w{i}" for i in range(300)], rows)
    for query in (2, 299):
        expected = [i for i in range(300) if i % 4 == query % 4 and i != query]
        for k in (1, 5, 60, 74):
            assert names(made.nearest([f"w{query}"], k)[0]) == [f"w{i}" for i in expected[:k]]


@given(st.integers(1, 90), st.integers(1, 40), st.integers(1, 6), st.integers(0, 5))
def test_the_best_are_the_first_of_all_sorted(k, width, queries, most):
    scores = np.random.default_rng(k * width).integers(0, most + 1, (queries, 80)).astype(np.float32)
    best = Best(queries, k)
    for start in range(0, 80, width):
        best.add(scores[:, start : start + width].copy(), start)
    found, found_scores, places = best.result()
    for query in range(queries):
        order = np.lexsort((np.arange(80), -scores[query]))[:k]
        assert places[found == query].tolist() == order.tolist()
        assert (found_scores[found == query] == scores[query][order]).all()


def test_all_neighbours_of_many_words(monkeypatch):
    from nlptools.vectors import nearest

    made = table(90)
    expected = made.nearest(made.words.list(), 10**9)
    assert {len(row) for row in expected} == {89}
    monkeypatch.setattr(nearest, "KEPT", 200)  # two queries at a time
    assert made.nearest(made.words.list(), 10**9) == expected


def test_restrict_limits_answers_and_not_questions():
    made = table()
    [found] = made.nearest(["w399"], 50, restrict=20)
    assert set(names(found)) == {f"w{i}" for i in range(20)}
    [again] = made.nearest(["w399"], 3)  # lengths of only some rows were known
    assert names(again) == names(made.nearest(["w399"], 399)[0][:3])


def test_distances_and_dot_products_by_definition(monkeypatch):
    from nlptools.vectors import nearest

    monkeypatch.setattr(nearest, "ROWS", (50, 50))
    rows = 1000 + np.random.default_rng(1).standard_normal((300, 6), dtype=np.float32)  # far from 0, near each other
    made = Vectors([f"w{i}" for i in range(300)], rows)
    exact = rows.astype(np.float64)
    queries = {"w3": exact[3], "w3 - w5 + w8": exact[3] - exact[5] + exact[8]}
    for metric, scores in (
        ("euclidean", lambda query: np.linalg.norm(exact - query, axis=1)),
        ("dot", lambda query: -(exact @ query)),
    ):
        found = made.nearest(list(queries), 9, metric=metric)
        for (line, query), answer in zip(queries.items(), found, strict=True):
            used = {int(word[1:]) for word in line.split() if word[0] == "w"}
            expected = scores(query)
            order = [n for n in np.argsort(expected) if n not in used][:9]
            assert names(answer) == [f"w{n}" for n in order], (metric, line)
            assert [abs(s) for _, s in answer] == pytest.approx(np.abs(expected[order]), rel=1e-6)
        [by_row] = nearest_to(made, rows[3:4], 10, metric=metric)
        assert names(by_row) == [f"w{n}" for n in np.argsort(scores(exact[3]))[:10]]


def test_unknown_words_zero_vectors_and_repeated_words():
    made = Vectors(["a", "zero", "b", "a", "b"], np.array([[1, 0], [0, 0], [1, 1], [0, 1], [0, 1]], np.float32))
    found = neighbors(made, ["a", "x", "a - y + y", "zero"], 9)
    assert names(found[0].neighbors) == ["b", "zero"]
    assert found[1] == (None, ("x",)) and found[2] == (None, ("y",))
    assert found[3].neighbors is not None and all(score == 0 for _, score in found[3].neighbors)
    assert made.nearest([]) == []
    with pytest.raises(KeyError):
        made["x"]


def test_bad_arguments():
    for bad in ({"k": 0}, {"restrict": -1}, {"method": "max"}, {"metric": "l1"}, {"method": "mul", "metric": "dot"}):
        with pytest.raises(UsageError):
            table().nearest(["w1"], **bad)
    with pytest.raises(BundleError, match="words"):
        Vectors(["a"], np.zeros((2, 2), np.float32))
    with pytest.raises(BundleError, match="too long"):
        Vectors(["a", "b"], np.full((2, 2), 3e38, np.float32)).nearest(["a"])


# -- expressions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("king", Expression(("king",))),
        ("king - man + woman", Expression(("king", "woman"), ("man",))),
        ("mother-in-law - woman", Expression(("mother-in-law",), ("woman",))),
        ("- man + king", Expression(("king",), ("man",))),
        ("new york - usa + south korea", Expression(("new york", "south korea"), ("usa",))),
        ("c++", Expression(("c++",))),
        ("king -", Expression(("king -",))),
        ("a + - b", Expression(("a + - b",))),
        ("-", Expression(("-",))),
        ("+ +", Expression(("+ +",))),
        ("new york", Expression(("new york",))),
    ],
)
def test_expressions(line, expected):
    assert parse(line) == expected


def test_a_line_in_the_vocabulary_is_a_word():
    made = Vectors(["a", "a - b", "b", "c"], np.array([[1, 0], [0, 1], [1, 1], [-1, -1]], np.float32))
    assert names(made.nearest(["a - b"], 3)[0]) == ["b", "a", "c"]


@given(st.text(st.sampled_from("ab +-"), max_size=20))
def test_no_line_is_an_error(line):
    assert parse(line).words and parse(line).positive + parse(line).negative


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 6))
def test_nearest_to_vectors_is_the_definition(seed: int, k: int, restrict: int) -> None:
    rng = np.random.default_rng(seed)
    rows, queries = rng.standard_normal((9, 4), dtype=np.float32), rng.standard_normal((3, 4), dtype=np.float32)
    table = Vectors([str(i) for i in range(9)], rows)
    found = nearest_to(table, queries, k, restrict=restrict)
    inside = rows[: restrict or None].astype(np.float64)
    for query, answer in zip(queries.astype(np.float64), found, strict=True):
        cosines = inside @ query / np.linalg.norm(inside, axis=1) / np.linalg.norm(query)
        order = np.argsort(-cosines, kind="stable")[:k]
        assert [word for word, _ in answer] == [str(i) for i in order]
        assert np.allclose([score for _, score in answer], cosines[order], atol=1e-6)
    assert nearest_to(table, np.zeros((1, 4), np.float32), 2)[0] == [("0", 0.0), ("1", 0.0)]
    with pytest.raises(UsageError, match="queries have 3 dimensions, the vectors 4"):
        nearest_to(table, np.zeros((1, 3), np.float32))
