"""The protocol of metrics: rows add up, an evaluation scores their sums; and a new metric from one row of the table."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import nlptools
from nlptools import __version__
from nlptools.configs import metrics as table
from nlptools.configs.metrics import MetricGroup
from nlptools.errors import DataError, UsageError
from nlptools.metrics.metric import Categories, Evaluation, Examples, Sums, bootstrap, means
from nlptools.metrics.resampling import interval
from nlptools.metrics.significance import SystemScore, paired_bootstrap, paired_randomization, results

RNG = np.random.default_rng(3)
VALUES = RNG.normal(size=(40, 2))
WEIGHTS = RNG.integers(0, 4, size=(6, 40))
KINDS = [
    Sums(RNG.integers(0, 9, size=(40, 3))),
    Sums(VALUES),
    Categories(RNG.integers(0, 5, 40), 5),
    Examples(40),
]


def evaluation():
    return means(("left", "right"), VALUES, "rows", (("kind", "mean"), ("of", "2")))


# -- rows -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", KINDS, ids=lambda rows: type(rows).__name__)
def test_a_weighted_sum_is_the_sum_of_copies(rows):
    each = rows.totals(np.eye(40, dtype=np.int64))
    assert rows.totals(WEIGHTS) == pytest.approx(np.array([(w[:, None] * each).sum(axis=0) for w in WEIGHTS]))


@pytest.mark.parametrize("rows", KINDS, ids=lambda rows: type(rows).__name__)
def test_the_total_is_the_sum_of_all_rows(rows):
    assert len(rows) == 40
    assert rows.total() == pytest.approx(rows.totals(np.ones((1, 40), np.int64))[0])
    parts = [rows.totals(np.array([np.arange(40) < 15])), rows.totals(np.array([np.arange(40) >= 15]))]
    assert rows.total() == pytest.approx(sum(part[0].astype(float) for part in parts))


# -- evaluations ------------------------------------------------------------------------------------------------------


def test_values_intervals_and_signature():
    made = evaluation()
    assert made.values() == pytest.approx(dict(zip(("left", "right"), VALUES.mean(axis=0))))
    (resampled,) = bootstrap([made], 100, 7)
    assert made.intervals(100, 7) == {"left": interval(resampled[:, 0]), "right": interval(resampled[:, 1])}
    assert made.signature() == f"kind:mean|of:2|unit:rows|version:nlptools-{__version__}"
    assert (
        made.signature(bs="100", seed="7") == f"kind:mean|of:2|unit:rows|bs:100|seed:7|version:nlptools-{__version__}"
    )
    assert (made.details, made.count) == ({}, 40)
    assert results(made) == [SystemScore(name, value) for name, value in made.values().items()]
    assert [(r.mean, r.ci) for r in results(made, 100, 7)] == list(made.intervals(100, 7).values())


def test_an_evaluation_has_as_many_values_as_names():
    with pytest.raises(ValueError, match="zip"):
        Evaluation(("one",), Examples(40), lambda sums: np.zeros((len(sums), 2)), "rows").values()


# -- one paired test for all metrics ----------------------------------------------------------------------------------

GOLD = [str(x) for x in RNG.integers(0, 3, 200)]


def system(share):
    """Labels of which about `share` are wrong."""
    return [x if keep else "7" for x, keep in zip(GOLD, np.random.default_rng(1).random(200) >= share)]


@pytest.mark.parametrize("metric", ["accuracy", "f1_macro", "spearman", "matthews"])
def test_paired_bootstrap_of_any_metric(metric):
    baseline, other, same = (nlptools.evaluate(metric, system(share), GOLD) for share in (0.1, 0.4, 0.1))
    tested = paired_bootstrap([baseline, other, same], 100)
    assert [result.value for result in tested] == [next(iter(e.values().values())) for e in (baseline, other, same)]
    assert tested[0].p_value is None and tested[1].p_value == 1 / 101 and tested[2].p_value > 0.9
    assert tested[1].mean == pytest.approx(tested[1].value, abs=0.05)


def test_randomization_of_sums_that_are_counted():
    texts = [f"a b c {x}" for x in GOLD]
    pair = [nlptools.evaluate("rouge1", [f"a b c {x}" for x in system(share)], [texts]) for share in (0.05, 0.3)]
    assert paired_randomization(pair, 99)[1].p_value == 1 / 100
    with pytest.raises(UsageError, match="one metric of sums"):
        paired_randomization([nlptools.evaluate("spearman", system(share), GOLD) for share in (0, 0.3)], 99)
    with pytest.raises(DataError, match=r"unequal numbers of labels: \[200, 2\]"):
        paired_bootstrap([nlptools.evaluate("f1_macro", GOLD[:n], GOLD[:n]) for n in (200, 2)], 9)


# -- a new metric: one file and one row -------------------------------------------------------------------------------

NEWCOMER = '''
import numpy as np
from nlptools.metrics.metric import Evaluation, Sums


def requested(requests, data, options):
    """The length of the predictions over the length of the references."""
    rows = np.array([(len(p), len(r)) for p, r in zip(data.predictions, data.references[0])])
    return Evaluation(("length-ratio",), Sums(rows), lambda sums: sums[:, :1] / sums[:, 1:], "lines")
'''


@pytest.fixture
def newcomer(tmp_path, monkeypatch):
    (tmp_path / "nlptools_newcomer.py").write_text(NEWCOMER)
    monkeypatch.syspath_prepend(str(tmp_path))
    row = MetricGroup(
        metrics=("length-ratio",),
        reads=table.TEXTS,
        compute="nlptools_newcomer:requested",
        listed="length-ratio",
        single=None,
        references="any",
    )
    monkeypatch.setitem(table.GROUPS, "lengths", row)
    yield
    sys.modules.pop("nlptools_newcomer", None)


def test_a_new_metric_is_one_file_and_one_row(newcomer, call, tmp_path):
    (tmp_path / "gold").write_text("abcd\nab\n")
    arguments = ("evaluate", "-m", "Length_Ratio", "-r", "gold")
    version = f"version:nlptools-{__version__}"
    done = call(*arguments, stdin="ab\na\n")
    assert done.err == ""
    assert done.lines == [f"length-ratio\t0.5000\t2\tlines\tunit:lines|{version}"]
    done = call(*arguments, "--confidence", "50", stdin="ab\nab\n")
    name, value, count, unit, signature, mean, half = done.lines[0].split("\t")
    assert (name, value, count, unit) == ("length-ratio", "0.6667", "2", "lines")
    assert signature == f"unit:lines|bs:50|seed:12345|{version}" and 0.5 <= float(mean) <= 1 and float(half) > 0
    record = json.loads(call(*arguments, "--to", "jsonl", "--confidence", "50", stdin="ab\nab\n").text)
    assert (record["value"], record["details"]) == (2 / 3, {}) and record["interval"]["resamples"] == 50
    both = call("evaluate", "-m", "length-ratio,bleu", "-b", "-r", "gold", stdin="ab\nab\n")
    assert both.lines[0] == "0.6667" and len(both.lines) == 2
    assert call(*arguments, "--fail-under", "0.9", stdin="ab\nab\n").code == 1
    assert "--stem is not for length-ratio" in call(*arguments, "--stem", stdin="a\nb\n").err
    assert nlptools.evaluate("length-ratio", ["ab"], [["abcd"]]).values() == {"length-ratio": 0.5}
