"""Exact match and F1 of answers to questions, as SQuAD's own scripts compute them.

Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text" (D16-1264), version 1.1, and
Rajpurkar, Jia & Liang 2018, "Know What You Don't Know" (P18-2124), version 2.0, where a question may have no answer and
the correct prediction is then the empty string. Values are in percent, as in the scripts.
Departures from evaluate-v2.0.py: a question without a prediction counts 0 at every threshold, where the script ends with
an error; no precision-recall curves. From both scripts: a question id that occurs twice is an error.
Kept: in version 1.1, F1 is 0 if an answer consists of articles only, even when the prediction equals it; the best
threshold may lie between equal odds, which no threshold separates. transformers' squad_evaluate gives the same values,
and best thresholds even without odds.
Shapes: N questions, B sums (resamples).
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nlptools import messages
from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import MetricRequest
from nlptools.errors import DataError, UsageError
from nlptools.formats.squad import GoldAnswers as GoldAnswers
from nlptools.metrics.metric import (
    Details,
    Evaluation,
    Examples,
    Items,
    MetricData,
    SavedRows,
    Sums,
    Table,
    Values,
    means,
    select,
    titles,
)

VERSIONS = ("1.1", "2.0")
_MOST_NAMED = 10  # questions without prediction that the details name

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad(
    questions: Sequence[GoldAnswers],
    predictions: Mapping[str, str],
    version: str,
    *,
    no_answer: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> Evaluation:
    """Exact match and F1 of `predictions`, id -> text, in percent.

    Args:
        version: "1.1" gives `exact_match` and `f1`; "2.0" gives `exact` and `f1`, and both with the prefixes `HasAns_`
            and `NoAns_` for the questions with and without an answer, if there are any.
        no_answer: id -> probability that there is no answer; or the null odds, any number that grows with that
            probability. Adds `best_exact` and `best_f1`, each at its best threshold. Version 2.0 only.
        threshold: a question with a greater number in `no_answer` counts as left unanswered.

    The details hold what is no percentage: `total`, `HasAns_total`, `NoAns_total`, `best_exact_thresh`,
    `best_f1_thresh`, the number of questions without prediction (`missing`, the first ids in `missing_ids`) and of
    predictions without question (`unknown`).

    Raises:
        DataError: no questions; a question occurs twice, has no answers (version 1.1), or no number in `no_answer`; a
            number is not finite.
        UsageError: no such version, or version 1.1 with `no_answer`.
    """
    if version not in VERSIONS:
        raise UsageError(f"no such version of SQuAD: {version!r}, expected one of {', '.join(VERSIONS)}")
    if version == "1.1" and no_answer is not None:
        raise UsageError("version 1.1 of SQuAD has no questions without answer, and no odds of that")
    if math.isnan(threshold):
        raise UsageError("the threshold is not a number")
    _check(questions, version)
    exact, f1 = (np.array(column) for column in zip(*(scores(q, predictions.get(q.id), version) for q in questions)))
    missing = [q.id for q in questions if q.id not in predictions]
    details: Details = {
        "total": len(questions),
        "missing": len(missing),
        "missing_ids": missing[:_MOST_NAMED],
        "unknown": len(predictions) - (len(questions) - len(missing)),
    }
    items: Items = (("metric", "squad"), ("squad", version))
    if version == "1.1":
        return means(("exact_match", "f1"), np.stack([exact, f1], axis=1), "questions", items, details, scale=100.0)
    answerable = np.array([bool(q.answers) for q in questions])
    sweep = None
    if no_answer is not None:
        predicted = np.array([q.id in predictions for q in questions])
        odds = _odds(questions, no_answer, predicted)
        empty = np.array([predictions.get(q.id) == "" for q in questions])
        wrong = np.where(empty, 0.0, -1.0)
        changes = (np.where(answerable, exact, wrong), np.where(answerable, f1, wrong))
        order = np.array([i for i in _order(questions, no_answer) if predicted[i]], np.int64)
        order = order[np.argsort(odds[order], kind="stable")]
        sweep = _Sweep(order, odds[order], changes, (~answerable & predicted).astype(np.float64))
        left = predicted & (odds > threshold)
        exact, f1 = (np.where(left, ~answerable, scores) for scores in (exact, f1))
        items = (*items, ("threshold", f"{threshold:g}"))
    return _version_2(exact, f1, answerable, sweep, items, details)


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The values of squad or squad2 that `nlptools evaluate` is asked for. Warns of missing and unknown predictions."""
    version, odds = ("2.0", options.null_odds) if requests[0].metric == "squad2" else ("1.1", None)
    evaluation = squad(
        data.references,
        data.predictions,
        version,
        no_answer=odds,  # type: ignore[arg-type]
        threshold=options.threshold,
    )
    details = evaluation.details
    if details["missing"]:
        message = f"{details['missing']} of {details['total']} questions have no prediction and count 0"
        messages.warn(f"{message}: {', '.join(details['missing_ids'][:3])}{' ...' * (details['missing'] > 3)}")
    if details["unknown"]:
        message = messages.counted(details["unknown"], "prediction is", "predictions are")
        messages.warn(f"{message} of no question, and not counted")
    thresholds = tuple((key, f"{details[key]:g}") for key in details if key.endswith("_thresh"))
    evaluation = replace(evaluation, items=(*evaluation.items, *thresholds))
    return select(evaluation, *titles(requests, evaluation.names))


def merged(requests: Sequence[MetricRequest], saved: SavedRows, options: Evaluate) -> Evaluation:
    """The values of saved rows, without details."""
    if requests[0].metric == "squad":
        evaluation = means(("exact_match", "f1"), saved.table[:, :-1], "questions", saved.items, scale=100.0)
    else:
        groups = [prefix for prefix in ("", "HasAns_", "NoAns_") if f"{prefix}total" in saved.columns]
        places = [saved.columns.index(f"{prefix}{name}") for prefix in groups for name in ("exact", "f1", "total")]
        table = np.ascontiguousarray(
            saved.table[:, places]
        )  # row by row: another order changes the last digit of a sum
        evaluation = _by_group(table, groups, saved.items, {})
    return select(evaluation, *titles(requests, evaluation.names))


def official(evaluation: Evaluation) -> dict[str, float | int]:
    """The values that SQuAD's script of the same version prints, in its order, for the result of `squad`."""
    values: dict[str, float | int] = {**evaluation.values()}
    if "exact_match" in values:
        return values
    details = evaluation.details
    values.update({key: details[key] for key in details if key.endswith(("total", "_thresh"))})
    parts = [f"{part}{key}" for part in ("", "HasAns_", "NoAns_") for key in ("exact", "f1", "total")]
    best = ("best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh")
    return {key: values[key] for key in (*parts, *best) if key in values}


@lru_cache(1 << 16)
def normalize(text: str) -> str:
    """`text` in lower case, without ASCII punctuation and English articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


# -- scores of a question ---------------------------------------------------------------------------------------------


def _check(questions: Sequence[GoldAnswers], version: str) -> None:
    if not questions:
        raise DataError("no questions")
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise DataError(f"question {question.id!r} occurs twice")
        if version == "1.1" and not question.answers:
            raise DataError(f"question {question.id!r} has no answer", hint="version 2.0 has such questions")
        seen.add(question.id)


def scores(question: GoldAnswers, prediction: str | None, version: str) -> tuple[float, float]:
    """Exact match and F1, from 0 to 1, each with the answer that matches best."""
    if prediction is None:
        return 0.0, 0.0
    answers = [normalize(answer) for answer in question.answers]
    if version == "2.0":
        answers = [answer for answer in answers if answer] or [""]
    words = normalize(prediction)
    return float(words in answers), max(_f1(words, answer, version) for answer in answers)


def _f1(prediction: str, answer: str, version: str) -> float:
    """F1 of the words of two normalized texts."""
    if prediction == answer:
        return 1.0 if answer or version == "2.0" else 0.0
    found, wanted = prediction.split(), answer.split()
    same = (Counter(found) & Counter(wanted)).total()
    if not same:
        return 0.0
    precision, recall = same / len(found), same / len(wanted)
    return (2 * precision * recall) / (precision + recall)


# -- values -----------------------------------------------------------------------------------------------------------


def _version_2(
    exact: Values,
    f1: Values,
    answerable: NDArray[np.bool_],
    sweep: _Sweep | None,
    items: Items,
    details: Details,
) -> Evaluation:
    """The scores of all questions, of those with and those without an answer, and at the best thresholds.

    The best thresholds are no function of sums, so with them the rows are the questions themselves.
    """
    groups = {"": np.ones_like(answerable), "HasAns_": answerable, "NoAns_": ~answerable}
    groups = {prefix: group.astype(np.float64) for prefix, group in groups.items() if group.any()}
    table = np.stack([column * group for group in groups.values() for column in (exact, f1, np.ones_like(f1))], axis=1)
    for prefix, group in groups.items():
        details[f"{prefix}total"] = int(group.sum())
    evaluation = _by_group(table, list(groups), items, details)
    if sweep is None:
        return evaluation
    thresholds = sweep.best(np.ones((1, len(table))))[1]
    details["best_exact_thresh"], details["best_f1_thresh"] = thresholds[0].tolist()

    def with_thresholds(weights: Table) -> Values:
        drawn = weights.astype(np.float64)
        best = 100.0 * sweep.best(drawn)[0] / drawn.sum(axis=1, keepdims=True)
        return np.concatenate([evaluation.compute(weights), best], axis=1)

    names = (*evaluation.names, "best_exact", "best_f1")
    return Evaluation(names, Examples(len(table)), with_thresholds, "questions", items, details)


def _by_group(table: Table, groups: Sequence[str], items: Items, details: Details) -> Evaluation:
    """The scores of groups of questions; for each, the sums of exact match, F1 and questions: (N, 3 G)."""

    def scores(sums: Table) -> Values:
        by_group = sums.reshape(len(sums), len(groups), 3)
        percent = 100.0 * by_group[:, :, :2] / np.maximum(by_group[:, :, 2:], 1)  # a resample may lack a group
        return percent.reshape(len(sums), -1)

    names = tuple(f"{prefix}{name}" for prefix in groups for name in ("exact", "f1"))
    columns = tuple(f"{prefix}{name}" for prefix in groups for name in ("exact", "f1", "total"))
    return Evaluation(names, Sums(table), scores, "questions", items, details, columns=columns)


@dataclass(frozen=True)
class _Sweep:
    """All thresholds in turn: each question that is no longer left unanswered changes the number of correct answers."""

    order: NDArray[np.int64]  # the questions with a prediction, by growing odds: (P,)
    odds: Values  # of these questions, in this order: (P,)
    changes: tuple[Values, Values]  # of exact match and of F1, by each question: (N,)
    unanswered: Values  # the score of each question that is left unanswered: (N,)

    def best(self, weights: Values) -> tuple[Values, Values]:
        """The best sums of exact match and of F1, and the thresholds of both: (B, 2) each.

        Sums run in the order of the script, to choose the same one of equally good thresholds: the first, even between equal
        odds, which no threshold can separate.
        """
        start = (weights @ self.unanswered)[:, None]
        rows = np.arange(len(weights))
        sums, thresholds = [], []
        for changes in self.changes:
            running = np.cumsum(np.concatenate([start, (weights * changes)[:, self.order]], axis=1), axis=1)
            place = running.argmax(axis=1)
            sums.append(running[rows, place])
            thresholds.append(np.concatenate([[0.0], self.odds])[place])
        return np.stack(sums, axis=1), np.stack(thresholds, axis=1)


def _odds(questions: Sequence[GoldAnswers], no_answer: Mapping[str, float], predicted: NDArray[np.bool_]) -> Values:
    """The number of each question: (N,); 0 for one without prediction that has none.

    Raises:
        DataError: one with a prediction has no number, or a number is not finite.
    """
    odds = np.zeros(len(questions))
    for i, question in enumerate(questions):
        number = no_answer.get(question.id)
        if number is None:
            if predicted[i]:
                raise DataError(f"question {question.id!r} has a prediction, but no odds of no answer")
        elif not math.isfinite(number):
            raise DataError(f"the odds of question {question.id!r} are {number}, expected a finite number")
        else:
            odds[i] = number
    return odds


def _order(questions: Sequence[GoldAnswers], no_answer: Mapping[str, float]) -> list[int]:
    """The indices of the questions in the order of `no_answer`, which is the script's order among equal odds."""
    places = {question.id: i for i, question in enumerate(questions)}
    return [places[name] for name in no_answer if name in places]
