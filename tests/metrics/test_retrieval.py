"""Metrics of rankings: values by hand, ties, cutoffs, refusals."""

from __future__ import annotations

import math

import pytest

import nlptools
from nlptools.errors import DataError, UsageError
from nlptools.metrics.retrieval import ranked, retrieval

GRADES = {"q1": {"a": 2, "b": 1, "c": 0}, "q2": {"x": 1}}
RUN = {"q1": {"c": 3.0, "b": 2.0, "z": 1.0, "a": 0.5}, "q2": {"y": 1.0}}


def test_values_by_hand():
    values = retrieval(GRADES, RUN, ["ndcg", "ndcg@2", "map", "mrr", "recall@2", "precision@2", "hit@2"]).values()
    ideal = 2 + 1 / math.log2(3)
    first = {
        "ndcg": (1 / math.log2(3) + 2 / math.log2(5)) / ideal,
        "ndcg@2": 1 / math.log2(3) / ideal,
        "map": (1 / 2 + 2 / 4) / 2,
        "mrr": 1 / 2,
        "recall@2": 1 / 2,
        "precision@2": 1 / 2,
        "hit@2": 1,
    }
    assert values == pytest.approx({name: value / 2 for name, value in first.items()})  # the second query has 0


def test_ties_in_float32_by_descending_name():
    assert ranked({"a": 1.0, "c": 1.0 + 1e-9, "b": 1.0, "z": 0.5}) == ["c", "b", "a", "z"]


def test_a_query_without_ranking_counts_0_with_a_warning(capsys):
    assert retrieval(GRADES, {"q1": RUN["q1"], "q9": {"a": 1.0}}, ["mrr"]).values() == {"mrr": 0.25}
    err = capsys.readouterr().err
    assert "1 of 2 queries have no ranking and count 0: 'q2'" in err and "1 query of the rankings without grades" in err


def test_from_python_with_intervals():
    found = nlptools.evaluate(["ndcg@10", "MRR@10"], RUN, GRADES)
    assert list(found.values()) == ["ndcg@10", "mrr@10"] and found.count == 2 and found.intervals(100)["mrr@10"][1] > 0


@pytest.mark.parametrize("name", ["ndcg@0", "ndcg@", "ndcg@x", "accuracy@10", "ndcg@10:f1"])
def test_no_such_metric(name):
    with pytest.raises(UsageError):
        nlptools.evaluate(name, RUN, GRADES)


def test_refusals():
    with pytest.raises(DataError, match="no grades"):
        retrieval({}, RUN, ["map"])
    with pytest.raises(DataError, match="is nan"):
        retrieval(GRADES, {"q1": {"a": math.nan}}, ["map"])


@pytest.mark.parametrize(
    ("run_lines", "grades", "message"),
    [
        ("q1 Q0 a 1 2.5 x\n", "q1 0 a 1\n", None),
        ("q1 Q0 a 1 2.5 x\n\n", "query-id\tcorpus-id\tscore\nq1\ta\t1\n", None),
        ("q1 Q0 a 1 2.5\n", "q1 0 a 1\n", "run:1: 5 fields, expected 6"),
        ("q1 Q0 a 1 inf x\n", "q1 0 a 1\n", "run:1: the score is 'inf'"),
        ("q1 Q0 a 1 2 x\nq1 Q0 a 2 1 x\n", "q1 0 a 1\n", "run:2: document 'a' occurs twice for query 'q1'"),
        ("q1 Q0 a 1 2 x\n", "q1 0 a 1\nq1 0 b\n", "grades:2: 3 fields, expected 4"),
        ("q1 Q0 a 1 2 x\n", "q1 0 a high\n", "grades:1: the grade is 'high'"),
        ("q1 Q0 a 1 2 x\n", "q1 0 a 1\nq1 0 a 1\n", "grades:2: document 'a' occurs twice"),
        ("", "", "no grades"),
    ],
)
def test_files(call, tmp_path, run_lines, grades, message):
    (tmp_path / "run").write_text(run_lines)
    (tmp_path / "grades").write_text(grades)
    done = call("evaluate", "-m", "ndcg@10", "-r", str(tmp_path / "grades"), str(tmp_path / "run"))
    if message is None:
        assert done.text.startswith("ndcg@10\t1.0000\t1\tqueries\t"), done.err
    else:
        assert done.code == 65 and message in done.err, done.err
