"""Neighbours: the same as all cosines sorted, whatever the batch, the block and the order of the file."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlptools.errors import BundleError, UsageError
from nlptools.vectors.expression import Expression, parse
from nlptools.vectors.nearest import EPSILON, neighbors
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


def test_batch_block_and_order_change_nothing(monkeypatch):
    from nlptools.vectors import nearest
    from nlptools.vectors import table as tables

    made = table(3000)
    queries = [f"w{i}" for i in range(0, 3000, 30)] + ["w1 - w2 + w3", "w9 + w8"]
    whole = {method: made.nearest(queries, 5, method=method) for method in ("add", "mul")}
    monkeypatch.setattr(nearest, "_BATCH", 7)
    monkeypatch.setattr(tables, "BLOCK_NUMBERS", 400)
    order = np.argsort(made.matrix @ made["w30"])  # nearer and nearer: every block beats the one before
    other = Vectors([f"w{i}" for i in order], made.matrix[order])
    for method, expected in whole.items():
        for source in (made, other):
            found = source.nearest(queries, 5, method=method)
            assert [names(row) for row in found] == [names(row) for row in expected]
            np.testing.assert_allclose(
                [[s for _, s in r] for r in found], [[s for _, s in r] for r in expected], rtol=1e-4
            )


def test_restrict_limits_answers_and_not_questions():
    made = table()
    [found] = made.nearest(["w399"], 50, restrict=20)
    assert set(names(found)) == {f"w{i}" for i in range(20)}
    [again] = made.nearest(["w399"], 3)  # lengths of only some rows were known
    assert names(again) == names(made.nearest(["w399"], 399)[0][:3])


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
    for bad in ({"k": 0}, {"restrict": -1}, {"method": "max"}):
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
    assert parse("a - b", {"a - b"}.__contains__) == Expression(("a - b",))


@given(st.text(st.sampled_from("ab +-"), max_size=20))
def test_no_line_is_an_error(line):
    assert parse(line).words and parse(line).positive + parse(line).negative
