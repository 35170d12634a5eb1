"""Intervals and paired tests: each by a slow second way, on little data."""

from __future__ import annotations

import random
import statistics

import numpy as np
import pytest

from nlptools.errors import DataError
from nlptools.metrics import resampling, significance
from nlptools.metrics.significance import SystemScore, holm, paired_bootstrap, paired_randomization, results
from nlptools.metrics.translation.bleu import Bleu
from nlptools.metrics.translation.chrf import Chrf
from nlptools.metrics.translation.metric import corpus_evaluation
from nlptools.metrics.translation.ter import Ter

METRICS = [Bleu(), Bleu(smooth="add-k", order=2), Chrf(), Ter()]
COUNT = 37


def segments(seed, errors):
    """Sentences, the share `errors` of whose words is another one."""
    rng = random.Random(5)
    other = random.Random(seed)
    words = [f"w{i}" for i in range(30)]
    lines = [rng.choices(words, k=rng.randrange(3, 15)) for _ in range(COUNT)]
    return [" ".join(other.choice(words) if other.random() < errors else word for word in line) for line in lines]


REFERENCE = segments(0, 0.0)


@pytest.fixture(params=METRICS, ids=lambda metric: f"{metric.name}{len(metric.columns)}")
def metric(request):
    return request.param


def tables(metric, *errors):
    return [metric.statistics(segments(i + 1, share), [REFERENCE]) for i, share in enumerate(errors)]


def scored(metric, table):
    return corpus_evaluation(metric, table, precision=np.float32)


def drawn(metric, table, resamples, seed=12345):
    """The score of each resample, segment by segment."""
    rng = np.random.default_rng(seed)
    rows = rng.choice(COUNT, size=(resamples, COUNT), replace=True)
    return [metric.score(sum(table[i] for i in row)).score for row in rows]


@pytest.mark.parametrize("resamples", [1, 2, 39, 40, 120])
def test_interval(metric, resamples):
    (table,) = tables(metric, 0.3)
    scores = sorted(drawn(metric, table, resamples))
    (found,) = results(scored(metric, table), resamples)
    cut = resamples // 40
    assert found.value == metric.score(table.sum(axis=0)).score
    assert found.mean == pytest.approx(statistics.mean(scores), rel=1e-5)  # resamples are scored in float32
    assert found.ci == pytest.approx((scores[-1 - cut] - scores[cut]) / 2, rel=1e-4, abs=1e-4)
    assert found.p_value is None


def test_another_seed_draws_another_sample(metric):
    (table,) = tables(metric, 0.3)
    (found,) = results(scored(metric, table), 50, seed=7)
    assert found.mean == pytest.approx(statistics.mean(drawn(metric, table, 50, seed=7)), rel=1e-5)
    assert found.mean != results(scored(metric, table), 50)[0].mean
    pair = [scored(metric, table) for table in tables(metric, 0.3, 0.31)]
    assert paired_randomization(pair, 99) == paired_randomization(pair, 99)


def test_paired_bootstrap(metric):
    systems = tables(metric, 0.3, 0.32, 0.5)
    found = paired_bootstrap([scored(metric, table) for table in systems], 200)
    scores = [np.array(drawn(metric, table, 200)) for table in systems]
    assert found[0].p_value is None
    for i, table in enumerate(systems):
        assert found[i].value == metric.score(table.sum(axis=0)).score
        assert found[i].mean == pytest.approx(scores[i].mean(), rel=1e-5)
        if i:
            difference = np.abs(scores[i] - scores[0])
            real = abs(found[i].value - found[0].value)
            beyond = sum(value - difference.mean() > real for value in difference)
            assert found[i].p_value == pytest.approx((beyond + 1) / 201, abs=1.5 / 201)  # float32 again
    assert found[2].p_value == 1 / 201 or found[2].p_value < found[1].p_value


def test_paired_randomization(metric):
    systems = tables(metric, 0.3, 0.33, 0.6)
    found = paired_randomization([scored(metric, table) for table in systems], 150)
    assert found[0].p_value is None
    flips = np.random.default_rng(12345).integers(2, size=(150, COUNT), dtype=bool)
    for i in (1, 2):
        real = abs(found[i].value - found[0].value)
        beyond = 0
        for row in flips:
            one = sum(systems[0][k] if heads else systems[i][k] for k, heads in enumerate(row))
            two = sum(systems[i][k] if heads else systems[0][k] for k, heads in enumerate(row))
            beyond += abs(metric.score(one).score - metric.score(two).score) > real
        assert found[i].p_value == (beyond + 1) / 151
    assert found[2].p_value < 0.05


def test_a_system_against_itself(metric):
    (table,) = tables(metric, 0.3)
    for run in (paired_bootstrap, paired_randomization):
        baseline, same, other = run([scored(metric, part) for part in (table, table.copy(), table[::-1])], 64)
        assert (same.value, same.mean, same.ci) == (baseline.value, baseline.mean, baseline.ci)
        assert (baseline.p_value, same.p_value) == (None, 1.0)
        assert other.p_value == 1.0 or run is paired_bootstrap, "an equal score alone does not make systems alike"
        assert holm([baseline, same])[1].p_value == 1.0


@pytest.mark.sampled(5)
@pytest.mark.parametrize("chunk", [1, 32 * COUNT, 70 * COUNT, 1 << 30])
def test_the_size_of_the_pieces_does_not_matter(metric, chunk, monkeypatch):
    systems = [scored(metric, table) for table in tables(metric, 0.3, 0.33)]
    runs = (paired_bootstrap, paired_randomization)
    expected = [run(systems, 100) for run in runs], results(systems[0], 100)
    monkeypatch.setattr(resampling, "CHUNK_DRAWS", chunk)
    monkeypatch.setattr(significance, "CHUNK_FLIPS", chunk)
    assert ([run(systems, 100) for run in runs], results(systems[0], 100)) == expected


@pytest.mark.parametrize("trials", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("count", [1, 10, 3001])
def test_coins_in_pieces_are_those_of_one_draw(count, trials, monkeypatch):
    monkeypatch.setattr(significance, "CHUNK_FLIPS", 1)
    pieces = list(significance._coin_flips(count, trials, np.random.default_rng(3)))
    assert max(map(len, pieces)) <= 32
    whole = np.random.default_rng(3).integers(2, size=(trials, count), dtype=bool)
    assert np.array_equal(np.concatenate(pieces), whole)


def test_holm_by_hand():
    def corrected(*p_values):
        given = [SystemScore("x", 1.0), *(SystemScore("x", 1.0, p_value=p) for p in p_values)]
        found = holm(given)
        assert found[0] == given[0] and all(result.corrected for result in found[1:])
        return [result.p_value for result in found[1:]]

    assert corrected(0.01) == [0.01]
    # times 4, 3, 2, 1 from the smallest on, and never less than the one before
    assert corrected(0.01, 0.04, 0.03, 0.005) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert corrected(0.6, 0.5) == [1.0, 1.0]
    assert corrected(0.02, 0.02) == pytest.approx([0.04, 0.04])
    assert holm([]) == []


def test_systems_of_unequal_size():
    metric = Bleu()
    (table,) = tables(metric, 0.3)
    for run in (paired_bootstrap, paired_randomization):
        with pytest.raises(DataError, match=r"unequal numbers of segments: \[37, 36\]"):
            run([scored(metric, table), scored(metric, table[:-1])], 10)
