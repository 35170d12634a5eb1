"""Answers out of logits: by hand, against all pairs one by one, and the threshold of no answer."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nlptools.errors import DataError, UsageError
from nlptools.formats.examples import AnswerSpan, Place, Question
from nlptools.metrics import squad
from nlptools.tasks.answer.decoding import AnswerRecord, Candidate, answers, best_spans, gold, tune_threshold
from nlptools.tasks.answer.features import NO, YES, answer_features, answer_targets
from tests.tasks.span_tokenizers import encoding, letters

LETTERS = letters()
HERE = Place("-", 1)


def ask(context, answer=None, id="1", yes_no=None):
    found = () if answer is None else (AnswerSpan(answer, context.index(answer)),)
    return Question(id, "q", context, found, answer is None, HERE, yes_no)


def logits_of(features, random, scale=1.0):
    """Logits for all rows, padded to the longest, with wild numbers in the padding."""
    T = int(features.rows.lengths.max())
    out = random.normal(size=(len(features.rows), T, 2)) * scale
    out[np.arange(T) >= features.rows.lengths[:, None]] = np.nan
    return out


def test_by_hand():
    features = answer_features([ask("a b c")], encoding(LETTERS, 12), max_question=2)
    # [CLS] q [SEP] a b c [SEP]
    logits = np.zeros((1, 7, 2))
    logits[0, :, 0] = [1, 9, 9, 2, 0, 3, 9]
    logits[0, :, 1] = [0.5, 9, 9, 0, 1, -1, 9]
    (record,) = answers(features, ["1"], [best_spans(features, np.array([0]), logits)])
    pairs = {"a": 2, "a b": 3, "a b c": 1, "b": 1, "b c": -1, "c": 2}
    total = sum(np.exp(list(pairs.values()))) + np.exp(1.5)
    assert [candidate.text for candidate in record.nbest] == ["a b", "a", "c", "", "a b c", "b", "b c"]
    for candidate in record.nbest:
        score = pairs.get(candidate.text, 1.5)
        assert candidate.probability == pytest.approx(np.exp(score) / total)
        assert candidate.start_logit + candidate.end_logit == pytest.approx(score)
    assert record.best == record.nbest[0]
    assert (record.best.start_logit, record.best.end_logit, record.best.a, record.best.b) == (2, 1, 0, 3)
    assert record.null_odds == -1.5
    assert list(record.nbest_json()[0]) == ["text", "probability", "start_logit", "end_logit"]
    assert record.nbest_json()[0]["end_logit"] == 1
    assert (record.text(), record.text(-1.5), record.text(-1.6)) == ("a b", "a b", "")

    (record,) = answers(
        features, ["1"], [best_spans(features, np.array([0]), logits, n_best=2)], n_best=2, required=True
    )
    assert [candidate.text for candidate in record.nbest] == ["a b", "a"]
    assert record.nbest[0].probability == pytest.approx(np.exp(3) / (total - np.exp(1.5)))


def test_the_longest_answer():
    features = answer_features([ask("ab c d")], encoding(LETTERS, 12), max_question=2)
    logits = np.zeros((1, 8, 2))
    logits[0, 3, 0], logits[0, 6, 1] = 5, 5  # a ##b c d
    logits[0, 4, 1], logits[0, 5, 1] = 1, 4
    for limits, wanted in (
        ({"max_tokens": 4}, "ab c d"),
        ({"max_tokens": 3}, "ab c"),
        ({"max_tokens": 2}, "ab"),
        ({"max_tokens": 0}, "ab c d"),
    ):
        (record,) = answers(features, ["1"], [best_spans(features, np.array([0]), logits, **limits)])
        assert record.best.text == wanted


def test_of_several_rows():
    features = answer_features([ask("a b c d e f")], encoding(LETTERS, 8), max_question=1, step=2)
    assert len(features.rows) == 2
    logits = np.zeros((2, 8, 2))
    logits[0, 0], logits[1, 0] = (3, 3), (1, 1)  # of no answer the least counts
    logits[1, 3, 0] = 50  # `c` in the second row: the first one answers for it
    logits[0, 6, 0], logits[0, 6, 1] = 60, 0  # `d` in the first row: the second one answers for it
    (record,) = answers(
        features,
        ["1"],
        [best_spans(features, np.array([1]), logits[1:]), best_spans(features, np.array([0]), logits[:1])],
    )
    assert record.null_odds == 2 - record.best.start_logit - record.best.end_logit
    assert record.best.start_logit == 0
    assert record.nbest[0].text == ""


def test_the_same_text_stands_once():
    features = answer_features([ask("a b a")], encoding(LETTERS, 12), max_question=2)
    logits = np.zeros((1, 7, 2))
    logits[0, 5, 0] = 2
    (record,) = answers(features, ["1"], [best_spans(features, np.array([0]), logits)])
    assert [candidate.text for candidate in record.nbest].count("a") == 1
    assert record.best.a == 4


def test_yes_and_no():
    features = answer_features([ask("a b c d e f"), ask("a", id="2")], encoding(LETTERS, 8), max_question=1, step=2)
    kinds = np.zeros((3, 3))
    kinds[0, 0], kinds[1, NO], kinds[2, YES] = 5, 3, 0.1
    found = best_spans(features, np.arange(3), np.zeros((3, 8, 2)), yes_no=kinds)
    first, second = answers(features, ["1", "2"], [found])
    assert first.text() == first.text(-np.inf) == "no"
    assert first.yes_no_probability == pytest.approx(np.exp(3) / (np.exp(3) + 2))
    kinds[2] = 1, 0.5, -1  # together less likely than neither
    assert (
        answers(features, ["1", "2"], [best_spans(features, np.arange(3), np.zeros((3, 8, 2)), yes_no=kinds)])[1].yes_no
        == ""
    )
    assert second.yes_no == "yes"


def test_without_context():
    features = answer_features([ask("")], encoding(LETTERS, 12), max_question=2)
    (record,) = answers(features, ["1"], [best_spans(features, np.array([0]), np.ones((1, 4, 2)))])
    assert record.text(np.inf) == ""
    assert record.null_odds == 0
    assert [tuple(candidate) for candidate in record.nbest] == [("", 1.0, 1.0, 1.0, -1, -1)]
    (record,) = answers(features, ["1"], [best_spans(features, np.array([0]), np.ones((1, 4, 2)))], required=True)
    assert record.nbest[0].probability == 0


def test_what_is_refused():
    features = answer_features([ask("a b c d e f")], encoding(LETTERS, 8), max_question=1, step=2)
    with pytest.raises(UsageError, match="0 best answers"):
        best_spans(features, np.array([0]), np.zeros((1, 8, 2)), n_best=0)
    with pytest.raises(DataError, match="not finite numbers"):
        best_spans(features, np.array([0]), np.full((1, 8, 2), np.nan))
    with pytest.raises(ValueError, match="1 rows have answers, expected each of 2 once"):
        answers(features, ["1"], [best_spans(features, np.array([0]), np.zeros((1, 8, 2)))])
    assert answers(answer_features([], encoding(LETTERS)), [], []) == []


def rounded(records):
    """Probabilities to nine digits: the order of the rows is that of a sum."""
    return [
        replace(record, best=short(record.best), nbest=tuple(short(candidate) for candidate in record.nbest))
        for record in records
    ]


def short(candidate):
    return candidate._replace(probability=round(candidate.probability, 9))


CONTEXTS = st.lists(st.text("abc é.", max_size=14), min_size=1, max_size=3)


@settings(deadline=None)
@given(CONTEXTS, st.integers(0, 1 << 30), st.integers(1, 6), st.integers(0, 5), st.booleans())
def test_against_all_pairs(contexts, seed, n_best, max_tokens, ties):
    random = np.random.default_rng(seed)
    questions = [ask(context, id=str(n)) for n, context in enumerate(contexts)]
    features = answer_features(questions, encoding(LETTERS, 10), max_question=1, step=3)
    logits = logits_of(features, random)
    logits = np.round(logits) if ties else logits
    limits = {"n_best": n_best, "max_tokens": max_tokens}
    whole = answers(
        features,
        [q.id for q in questions],
        [best_spans(features, np.arange(len(logits)), logits, **limits)],
        n_best=n_best,
    )
    rows = random.permutation(len(logits))
    lengths = features.rows.lengths
    single = [best_spans(features, np.array([row]), logits[[row], : lengths[row]], **limits) for row in rows]
    assert rounded(answers(features, [q.id for q in questions], single, n_best=n_best)) == rounded(whole)
    for number, record in enumerate(whole):
        pairs = {}
        nulls = []
        for row in np.flatnonzero(features.question == number):
            begin, end = int(features.begin[row]), int(features.begin[row] + features.length[row])
            nulls.append(logits[row, 0].sum())
            for i in range(int(features.owned_begin[row]), int(features.owned_end[row])):
                for j in range(i, end):
                    if not max_tokens or j - i < max_tokens:
                        pairs[features.first[row] + i - begin, j - i] = logits[row, i, 0] + logits[row, j, 1]
        total = np.logaddexp.reduce([*pairs.values(), min(nulls)])
        best = max(pairs.values(), default=min(nulls))
        assert record.best.start_logit + record.best.end_logit == best
        assert record.null_odds == pytest.approx(min(nulls) - best)
        scores = [candidate.start_logit + candidate.end_logit for candidate in record.nbest]
        assert all(a >= b for a, b in pairwise(scores))
        assert len(record.nbest) <= n_best + 1
        assert "" in [candidate.text for candidate in record.nbest]
        for candidate, score in zip(record.nbest, scores):
            assert candidate.probability == pytest.approx(np.exp(score - total))
            assert candidate.text == questions[number].context[max(candidate.a, 0) : max(candidate.b, 0)]
            assert candidate.text == "" or score in pairs.values()


@settings(deadline=None)
@given(CONTEXTS, st.data())
def test_sure_logits_give_the_answer_back(contexts, data):
    questions = []
    for n, context in enumerate(contexts):
        spans = [(a, b) for a in range(len(context)) for b in range(a + 1, len(context) + 1)]
        spans = [(a, b) for a, b in spans if not context[a].isspace() and not context[b - 1].isspace()]
        a, b = data.draw(st.sampled_from(spans)) if spans else (0, 0)
        answer = (AnswerSpan(context[a:b], a),) if spans else ()
        questions.append(Question(str(n), "q", context, answer, not spans, HERE))
    features = answer_features(questions, encoding(LETTERS, 10), max_question=1, step=2)
    targets = answer_targets(features, questions)
    logits = np.zeros((len(features.rows), 10, 2))
    rows = np.arange(len(logits))
    logits[rows, targets.start, 0] = logits[rows, targets.end, 1] = 20
    logits[:, 0] /= 2
    records = answers(features, [q.id for q in questions], [best_spans(features, rows, logits, max_tokens=0)])
    for question, record in zip(questions, records):
        mine = features.question == int(question.id)
        owned = mine & (targets.start >= features.owned_begin) & (targets.start < features.owned_end)
        if owned.any():
            assert record.text() == question.answers[0].text
        elif not question.answers:
            assert record.text() == ""


def record(id, text, odds, yes_no=""):
    best = Candidate(text, 0.5, 0.0, 0.0, 0, len(text))
    return AnswerRecord(id, best, (best,), odds, (float(yes_no == "yes"), float(yes_no == "no")))


def test_the_threshold_by_hand():
    questions = [ask("x y", "x", id="1"), ask("x y", id="2"), ask("x y", "y", id="3"), ask("x y", id="4")]
    records = [record("1", "x", -3.0), record("2", "x", -1.0), record("3", "y", -2.0), record("4", "y", 4.0)]
    found = tune_threshold(questions, records)
    assert found.threshold == -1.5
    assert (found.f1, found.exact) == (100, 100)


def test_the_threshold_at_the_ends():
    never = [ask("x y", id="1"), ask("x y", id="2")]
    assert tune_threshold(never, [record("1", "x", -5.0), record("2", "x", 3.0)]) == (-6.0, 100.0, 100.0)
    always = [ask("x y", "x", id="1"), ask("x y", "y", id="2")]
    assert tune_threshold(always, [record("1", "x", -5.0), record("2", "y", 3.0)]) == (4.0, 100.0, 100.0)
    # equal odds are not divided: one answered or none is the same, so none is
    both = [ask("x y", "x", id="1"), ask("x y", id="2")]
    assert tune_threshold(both, [record("1", "x", 1.0), record("2", "y", 1.0)]) == (0.0, 50.0, 50.0)


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["x", "x y", None, "yes"]),
            st.sampled_from(["x", "x y", "z"]),
            st.integers(-3, 3),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_no_threshold_is_better(drawn):
    questions, records = [], []
    for n, (answer, said, odds, yes) in enumerate(drawn):
        kind = "yes" if answer == "yes" else None
        questions.append(ask("x y z", None if kind else answer, id=str(n), yes_no=kind))
        records.append(record(str(n), said, odds / 2, "yes" if yes else ""))
    found = tune_threshold(questions, records[::-1])

    def score(threshold):
        predictions = {r.id: r.text(threshold) for r in records}
        values = squad.squad([gold(q) for q in questions], predictions, "2.0").values()
        return values["f1"], values["exact"]

    assert score(found.threshold) == pytest.approx((found.f1, found.exact))
    assert found.f1 >= max(score(t)[0] for t in np.arange(-10, 10) / 4) - 1e-6
