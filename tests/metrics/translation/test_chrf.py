"""chrF: counts and scores worked out by hand, laws, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from nlptools.errors import DataError, UsageError
from nlptools.metrics.translation.chrf import Chrf


def test_counts_by_hand():
    metric = Chrf(char_order=2, word_order=1)
    assert metric.columns[:3] == ("char1_hypothesis", "char1_reference", "char1_match")
    assert metric.columns[6:] == ("word1_hypothesis", "word1_reference", "word1_match")
    # abcb and abb.: a b b; ab, of ab bc cb and ab bb b.; the word ab, of ab cb and ab b .
    assert metric.statistics(["ab cb"], [["ab b."]]).tolist() == [[4, 4, 3, 3, 3, 1, 2, 3, 1]]
    assert Chrf(2, whitespace=True).statistics(["ab cb"], [["ab b."]]).tolist() == [[5, 5, 4, 4, 4, 2]]


def test_score_by_hand():
    # precisions 3/4 and 1/3, recalls 3/4 and 1/3: their means are equal, and so is any F of them
    assert Chrf(2).score(np.array([4, 4, 3, 3, 3, 1])).score == pytest.approx(100 * (3 / 4 + 1 / 3) / 2)
    # precision 1, recall 1/2, beta 2: 5 p r / (4 p + r)
    assert Chrf(1).score(np.array([2, 4, 2])).score == pytest.approx(100 * 2.5 / 4.5)
    assert Chrf(1, beta=1).score(np.array([2, 4, 2])).score == pytest.approx(100 * 1 / 1.5)


def test_an_order_without_n_grams_is_left_out_unless_smoothed():
    table = Chrf().statistics(["abc"], [["abc"]])
    assert Chrf().score(table[0]).score == 100.0
    assert Chrf(eps_smoothing=True).score(table[0]).score == pytest.approx(50.0)


@pytest.mark.parametrize(("hypothesis", "reference"), [("", ""), ("", "a"), ("a", ""), ("a", "b")])
def test_nothing_in_common_scores_0(hypothesis, reference):
    metric = Chrf()
    assert metric.score(metric.statistics([hypothesis], [[reference]])[0]).score == 0.0


def test_names_and_signature():
    assert [Chrf().name, Chrf(word_order=2).name, Chrf(beta=3).name] == ["chrF2", "chrF2++", "chrF3"]
    assert Chrf().signature() == (("case", "mixed"), ("eff", "yes"), ("nc", "6"), ("nw", "0"), ("space", "no"))
    other = Chrf(word_order=2, lowercase=True, whitespace=True, eps_smoothing=True).signature()
    assert other == (("case", "lc"), ("eff", "no"), ("nc", "6"), ("nw", "2"), ("space", "yes"))


def test_the_best_reference_counts_and_of_several_the_first(english):
    metric = Chrf(word_order=2)
    hypotheses, others = english[:50], english[50:100]
    assert np.array_equal(
        metric.statistics(hypotheses, [others, hypotheses]), metric.statistics(hypotheses, [hypotheses])
    )
    # both score 0, with other numbers of n-grams
    assert Chrf(1).statistics(["ab"], [["x"], ["xyz"]]).tolist() == [[2, 1, 0]]


def test_a_reference_that_is_absent_is_not_one_that_is_empty():
    metric = Chrf(1)
    assert metric.statistics(["ab"], [[""], ["x"]]).tolist() == [[0, 0, 0]]
    assert metric.statistics(["ab"], [[None], ["x"]]).tolist() == [[2, 1, 0]]


def test_blocks_do_not_matter(english, monkeypatch):
    metric = Chrf(word_order=2)
    hypotheses, references = english[:300], [english[1:301], [None, *english[300:599]]]
    expected = metric.statistics(hypotheses, references)
    monkeypatch.setattr(Chrf, "segments_at_once", 7)
    assert np.array_equal(metric.statistics(hypotheses, references), expected)


def test_scores_of_many_sums_are_the_scores_of_each(english):
    for metric in (Chrf(), Chrf(word_order=2, eps_smoothing=True), Chrf(0, 3)):
        table = metric.statistics([*english[:50], ""], [[*english[1:51], ""]])
        assert metric.scores(table).tolist() == [metric.score(row).score for row in table]
        assert metric.scores(table).std() > 1
        assert metric.score(table[0]).verbose == ""


def test_no_segments():
    assert Chrf().statistics([], [[]]).shape == (0, 18)


def test_refusals():
    with pytest.raises(DataError, match="unequal"):
        Chrf().statistics(["a", "b"], [["a"]])
    with pytest.raises(DataError, match="text 2 has no reference"):
        Chrf().statistics(["a", "b"], [["a", None], ["a", None]])
    with pytest.raises(UsageError, match="reference"):
        Chrf().statistics(["a"], [])
    for orders in ((0, 0), (-1, 2), (6, -1)):
        with pytest.raises(UsageError, match="orders"):
            Chrf(*orders)
