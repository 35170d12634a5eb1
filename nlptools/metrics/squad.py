"""Exact match and F1 of answers to questions, as SQuAD's own scripts compute them.

Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text" (D16-1264), version 1.1, and
Rajpurkar, Jia & Liang 2018, "Know What You Don't Know" (P18-2124), version 2.0, where a question may have no answer and
a prediction is the empty string. Values are in percent, as there.
Departures from evaluate-v2.0.py: a question without a prediction counts 0 whatever the threshold, where the script ends
with an error; no precision-recall curves. From both scripts: a question that stands twice is an error.
Kept: in version 1.1, F1 is 0 where nothing of an answer but articles is left, even when the prediction equals it; the
best threshold may lie between equal odds, which no threshold divides. transformers' squad_evaluate makes the same, and
best thresholds even without odds.
Shapes: N questions, B resamples.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from nlptools.errors import DataError, UsageError
from nlptools.files import streams
from nlptools.metrics.measures import Measures
from nlptools.metrics.resampling import Values, Weights

VERSIONS = ("1.1", "2.0")
_TOLD = 10  # questions without prediction that the details name

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Question(NamedTuple):
    """A question's name and the texts of its answers; none where it cannot be answered."""

    id: str
    answers: tuple[str, ...]


def squad(
    questions: Sequence[Question],
    predictions: Mapping[str, str],
    version: str,
    *,
    no_answer: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> Measures:
    """Exact match and F1 of `predictions`, id -> text, in percent.

    Args:
        version: "1.1" gives `exact_match` and `f1`; "2.0" gives `exact` and `f1`, and both again with `HasAns_` and
            `NoAns_` in front, of the questions with and without an answer, where there are any.
        no_answer: id -> how probable it is that there is no answer; or the null odds, any number that grows with
            that. Adds `best_exact` and `best_f1`, those with the best threshold for each. Version 2.0 only.
        threshold: a question whose number in `no_answer` is greater is taken as left unanswered.

    The details hold what is no percentage: `total`, `HasAns_total`, `NoAns_total`, `best_exact_thresh`,
    `best_f1_thresh`, and how many questions have no prediction (`missing`, the first of them in `missing_ids`) and how
    many predictions no question (`unknown`).

    Raises:
        DataError: no questions; a question stands twice, has no answers (version 1.1), or no number in `no_answer`; a
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
    exact, f1 = (np.array(column) for column in zip(*(_scores(q, predictions.get(q.id), version) for q in questions)))
    missing = [q.id for q in questions if q.id not in predictions]
    details: dict[str, Any] = {
        "total": len(questions),
        "missing": len(missing),
        "missing_ids": missing[:_TOLD],
        "unknown": len(predictions) - (len(questions) - len(missing)),
    }
    signature: tuple[tuple[str, str], ...] = (("metric", "squad"), ("squad", version))
    if version == "1.1":
        return _measures_of(("exact_match", "f1"), np.stack([exact, f1], axis=1), signature, details)
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
        signature = (*signature, ("threshold", f"{threshold:g}"))
    return _measures_2(exact, f1, answerable, sweep, signature, details)


def official(measures: Measures) -> dict[str, float | int]:
    """What the script of the version prints, in its order, of the result of `squad`."""
    values: dict[str, float | int] = {**measures.values()}
    if "exact_match" in values:
        return values
    values.update({key: measures.details[key] for key in measures.details if key.endswith(("total", "_thresh"))})
    parts = [f"{part}{key}" for part in ("", "HasAns_", "NoAns_") for key in ("exact", "f1", "total")]
    best = ("best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh")
    return {key: values[key] for key in (*parts, *best) if key in values}


@lru_cache(1 << 16)
def normalize(text: str) -> str:
    """`text` in lower case, without ASCII punctuation and English articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


# -- scores of a question ---------------------------------------------------------------------------------------------


def _check(questions: Sequence[Question], version: str) -> None:
    if not questions:
        raise DataError("no questions")
    seen: set[str] = set()
    for question in questions:
        if question.id in seen:
            raise DataError(f"question {question.id!r} stands twice")
        if version == "1.1" and not question.answers:
            raise DataError(f"question {question.id!r} has no answer", hint="version 2.0 has such questions")
        seen.add(question.id)


def _scores(question: Question, prediction: str | None, version: str) -> tuple[float, float]:
    """Exact match and F1, from 0 to 1, with the answer that suits best."""
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


def _measures_of(
    names: tuple[str, ...], table: Values, signature: tuple[tuple[str, str], ...], details: dict[str, Any]
) -> Measures:
    """The means of the columns of `table` (N, len(names)), in percent."""

    def compute(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)
        means: Values = 100.0 * (drawn @ table) / drawn.sum(axis=1, keepdims=True)
        return means

    return Measures(names, len(table), "questions", compute, signature, details)


def _measures_2(
    exact: Values,
    f1: Values,
    answerable: NDArray[np.bool_],
    sweep: _Sweep | None,
    signature: tuple[tuple[str, str], ...],
    details: dict[str, Any],
) -> Measures:
    """Version 2.0: the scores of all questions, of those with and those without an answer, and with best thresholds."""
    groups = {"": np.ones_like(answerable), "HasAns_": answerable, "NoAns_": ~answerable}
    groups = {prefix: group.astype(np.float64) for prefix, group in groups.items() if group.any()}
    names = tuple(f"{prefix}{name}" for prefix in groups for name in ("exact", "f1"))
    table = np.stack([column * group for group in groups.values() for column in (exact, f1, np.ones_like(f1))], axis=1)
    for prefix, group in groups.items():
        details[f"{prefix}total"] = int(group.sum())
    if sweep is not None:
        names = (*names, "best_exact", "best_f1")
        thresholds = sweep.best(np.ones((1, len(table))))[1]
        details["best_exact_thresh"], details["best_f1_thresh"] = thresholds[0].tolist()

    def compute(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)
        sums = (drawn @ table).reshape(len(drawn), len(groups), 3)
        means = 100.0 * sums[:, :, :2] / np.maximum(sums[:, :, 2:], 1)  # a resample may have no question of a group
        columns = [means.reshape(len(drawn), -1)]
        if sweep is not None:
            columns.append(100.0 * sweep.best(drawn)[0] / drawn.sum(axis=1, keepdims=True))
        return np.concatenate(columns, axis=1)

    return Measures(names, len(table), "questions", compute, signature, details)


@dataclass(frozen=True)
class _Sweep:
    """All thresholds in turn: each question that is no longer left unanswered changes the number of right answers."""

    order: NDArray[np.int64]  # the questions with a prediction, by growing odds: (P,)
    odds: Values  # in that order: (P,)
    changes: tuple[Values, Values]  # of exact match and of F1, by each question: (N,)
    unanswered: Values  # the score of each question that is left unanswered: (N,)

    def best(self, weights: Values) -> tuple[Values, Values]:
        """The best sums of exact match and of F1, and the thresholds of both: (B, 2) each.

        Sums are run in the order of the script, so that of thresholds as good the first is taken as there: also one
        in the midst of equal odds, which no threshold can divide.
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


def _odds(questions: Sequence[Question], no_answer: Mapping[str, float], predicted: NDArray[np.bool_]) -> Values:
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


def _order(questions: Sequence[Question], no_answer: Mapping[str, float]) -> list[int]:
    """The places of the questions, in the order of `no_answer`: that of the script among equal odds."""
    places = {question.id: i for i, question in enumerate(questions)}
    return [places[name] for name in no_answer if name in places]


# -- files ------------------------------------------------------------------------------------------------------------


def read_questions(path: str | Path) -> list[Question]:
    """The questions of a file of SQuAD: JSON, `data[].paragraphs[].qas[].{id, answers[].text}`.

    Raises:
        DataError: not JSON, or not of that form; the place in it is named.
    """
    data = _Json(path)
    questions = []
    for article, at in data.items(data.root, "data", ""):
        for paragraph, inner in data.items(article, "paragraphs", at):
            for question, place in data.items(paragraph, "qas", inner):
                name = question.get("id")
                if not isinstance(name, (str, int)) or isinstance(name, bool):
                    data.refuse(f"{place}.id is {_kind(name)}, expected text")
                answers: list[str] = []
                for answer, within in data.items(question, "answers", place):
                    if not isinstance(answer.get("text"), str):
                        data.refuse(f"{within}.text is {_kind(answer.get('text'))}, expected text", str(name))
                    answers.append(answer["text"])
                questions.append(Question(str(name), tuple(answers)))
    if not questions:
        data.refuse("no questions")
    return questions


def read_predictions(path: str | Path) -> dict[str, str]:
    """Answers by question: a JSON object, id -> text; empty text is no answer.

    Raises:
        DataError: not JSON, or not of that form; the question is named.
    """
    data = _Json(path)
    for name, text in data.root.items():
        if not isinstance(text, str):
            data.refuse(f"the prediction of question {name!r} is {_kind(text)}, expected text", name)
    return data.root


def read_no_answer(path: str | Path) -> dict[str, float]:
    """Probabilities of no answer, or null odds, by question: a JSON object, id -> number.

    Raises:
        DataError: not JSON, not of that form, or a number that is not finite; the question is named.
    """
    data = _Json(path)
    found = {}
    for name, number in data.root.items():
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            data.refuse(f"the odds of question {name!r} are {_kind(number)}, expected a number", name)
        try:
            found[name] = float(number)
        except OverflowError:
            found[name] = math.inf
        if not math.isfinite(found[name]):
            data.refuse(f"the odds of question {name!r} are not a finite number", name)
    return found


class _Json:
    """A file that holds one JSON object."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.text = "\n".join(streams.lines(path))
        try:
            root = json.loads(self.text)
        except json.JSONDecodeError as error:
            raise DataError(f"not valid JSON: {error.msg}", path=self.path, line=error.lineno) from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"not valid JSON: {error}", path=self.path) from None
        if not isinstance(root, dict):
            self.refuse(f"expected a JSON object, found {_kind(root)}")
        self.root: dict[str, Any] = root

    def items(self, holder: dict[str, Any], key: str, at: str) -> list[tuple[dict[str, Any], str]]:
        """The objects of the list `holder[key]`, each with its place in the file."""
        place = f"{at}.{key}" if at else key
        found = holder.get(key)
        if not isinstance(found, list):
            self.refuse(f"{place} is {_kind(found)}, expected a list")
        for i, item in enumerate(found):
            if not isinstance(item, dict):
                self.refuse(f"{place}[{i}] is {_kind(item)}, expected an object")
        return [(item, f"{place}[{i}]") for i, item in enumerate(found)]

    def refuse(self, message: str, name: str | None = None) -> NoReturn:
        """Raise DataError, with the line where `name` stands first, if it is found as it is."""
        at = -1 if name is None else self.text.find(json.dumps(name, ensure_ascii=False))
        raise DataError(message, path=self.path, line=None if at < 0 else self.text.count("\n", 0, at) + 1)


def _kind(value: Any) -> str:
    """What JSON calls a value."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "missing"}
    return names.get(type(value), "a number")
