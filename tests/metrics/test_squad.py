"""SQuAD's exact match and F1: answers worked out by hand, thresholds, refusals."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nlptools.errors import DataError, UsageError
from nlptools.metrics import squad as metric
from nlptools.metrics.squad import GoldAnswers, normalize, official, squad


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Cat, sat!", "cat sat"),
        ("a an the", ""),
        ("An  apple\ta\u00a0day", "apple day"),
        ("U.S.A.", "usa"),
        ("the-man", "theman"),  # punctuation goes first
        ("the–man", "–man"),  # but not a dash beyond ASCII, which ends a word
        ("theatre another", "theatre another"),
        ("ÄÖÜ", "äöü"),
    ],
)
def test_normalize(text, expected):
    assert normalize(text) == expected


def one(answers, prediction, version="1.1"):
    return tuple(squad([GoldAnswers("q", tuple(answers))], {"q": prediction}, version).values().values())[:2]


def test_the_answer_that_suits_best_counts():
    assert one(["the cat"], "Cat") == (100, 100)
    assert one(["black cat", "cat"], "a cat.") == (100, 100)
    assert one(["black cat", "dog"], "cat") == (0, pytest.approx(200 / 3))  # precision 1, recall 1/2
    assert one(["cat cat dog"], "cat dog dog") == (0, pytest.approx(200 / 3))  # two of three words both ways
    assert one(["cat"], "dog") == (0, 0)


def test_answers_of_articles_only():
    assert one(["the"], "a") == (100, 0)  # as the script of 1.1 has it
    assert one(["the"], "", "2.0") == (100, 100)
    assert one(["the"], "an", "2.0") == (100, 100)
    assert one(["the", "cat"], "the", "2.0") == (0, 0)  # the empty answer goes, unless it is the only one


def test_a_missing_prediction_counts_0_and_is_told():
    questions = [GoldAnswers(f"q{i}", ("cat",)) for i in range(4)]
    evaluation = squad(questions, {"q1": "cat", "other": "cat"}, "1.1")
    assert evaluation.values() == {"exact_match": 25.0, "f1": 25.0}
    assert evaluation.details == {"total": 4, "missing": 3, "missing_ids": ["q0", "q2", "q3"], "unknown": 1}
    assert (evaluation.count, evaluation.unit) == (4, "questions")
    assert official(evaluation) == {"exact_match": 25.0, "f1": 25.0}


QUESTIONS = [GoldAnswers("a", ("red cat",)), GoldAnswers("b", ()), GoldAnswers("c", ("dog",)), GoldAnswers("d", ())]
PREDICTIONS = {"a": "cat", "b": "bird", "c": "dog", "d": ""}


def test_version_2_by_hand():
    evaluation = squad(QUESTIONS, PREDICTIONS, "2.0")
    assert official(evaluation) == {
        "exact": 50.0, "f1": pytest.approx((200 / 3 + 100 + 100) / 4), "total": 4,
        "HasAns_exact": 50.0, "HasAns_f1": pytest.approx((200 / 3 + 100) / 2), "HasAns_total": 2,
        "NoAns_exact": 50.0, "NoAns_f1": 50.0, "NoAns_total": 2,
    }  # fmt: skip
    assert [*official(evaluation)][:4] == ["exact", "f1", "total", "HasAns_exact"]
    assert evaluation.signature().startswith("metric:squad|squad:2.0|unit:questions|")


def test_thresholds_by_hand():
    odds = {"a": 0.5, "b": 0.9, "c": 0.2, "d": 0.1}
    evaluation = squad(QUESTIONS, PREDICTIONS, "2.0", no_answer=odds, threshold=0.5)
    values = official(evaluation)
    assert values["exact"] == 75.0  # b is left unanswered, rightly; a, with just the threshold, is not
    # All unanswered: 2 right. d: still 2, c: 3, a: 3 exact matches or 3 2/3 of F1, b: one less.
    assert (values["best_exact"], values["best_exact_thresh"]) == (75.0, 0.2)
    assert (values["best_f1"], values["best_f1_thresh"]) == (pytest.approx(275 / 3), 0.5)
    assert [*values][-4:] == ["best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"]
    assert "threshold:0.5" in evaluation.signature()
    worst = squad(QUESTIONS, dict.fromkeys("abcd", "fish"), "2.0", no_answer=odds)
    assert (official(worst)["best_exact"], official(worst)["best_exact_thresh"]) == (50.0, 0.0)


def test_of_equal_odds_the_order_is_that_of_the_odds():
    questions = [GoldAnswers("a", ("cat",)), GoldAnswers("b", ())]
    for order, best in ((["a", "b"], 100.0), (["b", "a"], 50.0)):
        odds = dict.fromkeys(order, 0.3)
        found = official(squad(questions, {"a": "cat", "b": "dog"}, "2.0", no_answer=odds))
        assert found["best_exact"] == best
        assert found["best_exact_thresh"] == (0.3 if best == 100 else 0.0)


def test_the_best_threshold_is_the_best_of_all():
    rng = random.Random(4)
    words = ["cat", "dog", "red"]
    questions = [GoldAnswers(f"q{i}", tuple(rng.choices(words, k=rng.randrange(2)))) for i in range(40)]
    predictions = {q.id: rng.choice(["", *words, "red dog"]) for q in questions}
    odds = {q.id: rng.gauss(0 if q.answers else 0.5, 1) for q in questions}
    best = official(squad(questions, predictions, "2.0", no_answer=odds))

    def at(threshold):
        return squad(questions, predictions, "2.0", no_answer=odds, threshold=threshold).values()

    tried = [at(threshold) for threshold in [float("-inf"), *odds.values()]]
    for name in ("exact", "f1"):
        assert best[f"best_{name}"] == pytest.approx(max(values[name] for values in tried))
        assert best[f"best_{name}"] == pytest.approx(at(best[f"best_{name}_thresh"])[name])
        assert best[f"best_{name}"] > best[name]


def test_a_missing_prediction_is_wrong_at_every_threshold():
    evaluation = squad(QUESTIONS, {"c": "dog"}, "2.0", no_answer={"c": 0.4, "b": -1.0}, threshold=-2.0)
    values = official(evaluation)
    assert (values["exact"], values["NoAns_exact"], values["best_exact"], values["best_exact_thresh"]) == (
        0,
        0,
        25,
        0.4,
    )
    assert evaluation.details["missing"] == 3


def test_groups_that_are_not_there():
    assert [*official(squad(QUESTIONS[::2], PREDICTIONS, "2.0"))][3:] == ["HasAns_exact", "HasAns_f1", "HasAns_total"]
    assert [*official(squad(QUESTIONS[1::2], PREDICTIONS, "2.0"))][3:] == ["NoAns_exact", "NoAns_f1", "NoAns_total"]


@pytest.mark.parametrize("version", metric.VERSIONS)
def test_weights_are_copies(version):
    rng = random.Random(2)
    words = ["the", "cat", "dog", "red", "a"]

    def text():
        return " ".join(rng.choices(words, k=rng.randrange(1, 4)))

    questions = [
        GoldAnswers(f"q{i}", tuple(text() for _ in range(rng.randrange(version == "1.1", 3)))) for i in range(30)
    ]
    predictions = {q.id: rng.choice(["", text()]) for q in questions}
    options = {"no_answer": {q.id: rng.random() for q in questions}, "threshold": 0.6} if version == "2.0" else {}
    times = [rng.randrange(3) for _ in questions]
    weighted = squad(questions, predictions, version, **options)
    got = dict(zip(weighted.names, weighted.compute(np.array([times]))[0]))

    names = [(q, f"{q.id}.{copy}") for q, n in zip(questions, times) for copy in range(n)]
    if options:
        options["no_answer"] = {name: options["no_answer"][q.id] for q, name in names}
    copies = squad([q._replace(id=n) for q, n in names], {n: predictions[q.id] for q, n in names}, version, **options)
    assert got == pytest.approx(copies.values())
    assert set(weighted.intervals(20)) == set(weighted.names)


def test_a_resample_without_a_group_is_a_number():
    evaluation = squad(QUESTIONS[:2], PREDICTIONS, "2.0")
    values = dict(zip(evaluation.names, evaluation.compute(np.array([[2, 0]]))[0]))
    assert (values["NoAns_exact"], values["HasAns_f1"]) == (0, pytest.approx(200 / 3))


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_refusals():
    twice = [QUESTIONS[0], QUESTIONS[0]]
    with pytest.raises(DataError, match="no questions"):
        squad([], {}, "1.1")
    with pytest.raises(DataError, match="'a' occurs twice"):
        squad(twice, {}, "1.1")
    with pytest.raises(DataError, match="'b' has no answer"):
        squad(QUESTIONS, PREDICTIONS, "1.1")
    with pytest.raises(DataError, match="'b' has a prediction, but no odds"):
        squad(QUESTIONS, PREDICTIONS, "2.0", no_answer={"a": 1.0})
    for number in (float("nan"), float("inf")):
        with pytest.raises(DataError, match=r"'c' are (nan|inf), expected a finite number"):
            squad(QUESTIONS, PREDICTIONS, "2.0", no_answer={**dict.fromkeys("abcd", 0.0), "c": number})
    with pytest.raises(UsageError, match="no such version"):
        squad(QUESTIONS, PREDICTIONS, "2")
    with pytest.raises(UsageError, match=r"1\.1 of SQuAD has no questions without"):
        squad(QUESTIONS[:1], PREDICTIONS, "1.1", no_answer={})
    with pytest.raises(UsageError, match="threshold"):
        squad(QUESTIONS, PREDICTIONS, "2.0", no_answer=dict.fromkeys("abcd", 0.0), threshold=float("nan"))
