"""Metrics of rankings: nDCG, MRR, MAP, recall, precision and hit rate, with the values of trec_eval.

nDCG: Järvelin & Kekäläinen 2002, "Cumulated gain-based evaluation of IR techniques", with the grade as gain and log2(rank + 1) as
discount. MRR: Voorhees 1999. MAP: Buckley & Voorhees 2000. As in trec_eval, documents are ordered by score in float32, then by
descending name; a document without a grade is not relevant; for all metrics but nDCG, a grade of 1 or more is relevant.
Departure: every query with grades counts, and one without ranking counts 0, as with trec_eval -c.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from nlptools import messages
from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import MetricRequest, cutoff
from nlptools.errors import DataError, shown
from nlptools.metrics.metric import Evaluation, MetricData, SavedRows, means

_Grades = Sequence[int]  # of the documents of a ranking, 0 for those without


def retrieval(
    relevance: Mapping[str, Mapping[str, int]], run: Mapping[str, Mapping[str, float]], metrics: Sequence[str]
) -> Evaluation:
    """Means over the queries of `relevance`.

    Args:
        relevance: query -> document -> grade.
        run: query -> document -> score.
        metrics: such as `map` or `ndcg@10`, which counts the first 10 documents.

    Raises:
        DataError: no query has grades, or a score is not finite.
    """
    if not relevance:
        raise DataError("no query has relevant documents: there are no grades")
    _warn_unmatched(relevance, run)
    rows = []
    for query, grades in relevance.items():
        found = [grades.get(document, 0) for document in ranked(run.get(query, {}), query)]
        ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)
        rows.append([_VALUES[name](found, ideal, k) for name, k in map(cutoff, metrics)])
    return means(metrics, np.array(rows, np.float64), "queries", (("metric", "retrieval"), ("ties", "trec_eval")))


def merged(requests: Sequence[MetricRequest], saved: SavedRows, options: Evaluate) -> Evaluation:
    """The metrics of saved rows."""
    return means([request.metric for request in requests], saved.table[:, :-1], "queries", saved.items)


def ranked(scores: Mapping[str, float], query: str = "") -> list[str]:
    """The documents in the order of trec_eval: by score in float32, equal ones by descending name. Raises DataError."""
    for document, score in scores.items():
        if not math.isfinite(score):
            raise DataError(f"query {shown(query)}: the score of document {shown(document)} is {score}")
    with np.errstate(over="ignore"):
        single = np.array(list(scores.values()), np.float64).astype(np.float32).tolist()
    order = sorted(zip(single, scores, strict=True), reverse=True)
    return [document for _, document in order]


def graded(grades: Sequence[float], scores: Sequence[float]) -> tuple[float, float]:
    """MRR and nDCG of one query, from the grades of its documents, 0 to 1, and their scores; of equal scores the lowest grade
    comes first. For
    MRR, a grade from 1/2 is relevant; where none is, the highest one.
    """
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], grades[i]))
    gains = [grades[i] for i in order]
    least = min(0.5, max(gains))
    first = next(rank for rank, gain in enumerate(gains, 1) if gain >= least)

    def total(values: Sequence[float]) -> float:
        return sum(value / math.log2(rank + 1) for rank, value in enumerate(values, 1))

    return 1 / first, total(gains) / total(sorted(gains, reverse=True))


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The metrics that `nlptools evaluate` is asked for."""
    return retrieval(data.references, data.predictions, [request.metric for request in requests])


def _warn_unmatched(relevance: Mapping[str, object], run: Mapping[str, object]) -> None:
    missing = [query for query in relevance if query not in run]
    unknown = sum(query not in relevance for query in run)
    if missing:
        named = ", ".join(map(shown, missing[:3])) + " ..." * (len(missing) > 3)
        messages.warn(
            f"{len(missing)} of {messages.counted(len(relevance), 'query', 'queries')} have no ranking and count 0: {named}"
        )
    if unknown:
        counted = messages.counted(unknown, "query", "queries")
        messages.warn(f"{counted} of the rankings without grades: not counted")


# -- metrics of one query: the grades of the ranking, the positive grades in descending order, and how many documents count


def _gain(grades: _Grades, k: int | None) -> float:
    return sum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades[:k], 1) if grade > 0)


def _ndcg(found: _Grades, ideal: _Grades, k: int | None) -> float:
    return _gain(found, k) / _gain(ideal, k) if ideal else 0.0


def _mrr(found: _Grades, ideal: _Grades, k: int | None) -> float:
    return next((1 / rank for rank, grade in enumerate(found[:k], 1) if grade > 0), 0.0)


def _map(found: _Grades, ideal: _Grades, k: int | None) -> float:
    hits = [grade > 0 for grade in found[:k]]
    precisions = (count / rank for rank, (hit, count) in enumerate(zip(hits, accumulate(hits)), 1) if hit)
    return sum(precisions) / len(ideal) if ideal else 0.0


def _recall(found: _Grades, ideal: _Grades, k: int | None) -> float:
    return _relevant(found, k) / len(ideal) if ideal else 0.0


def _precision(found: _Grades, ideal: _Grades, k: int | None) -> float:
    return _relevant(found, k) / (k or max(1, len(found)))


def _hit(found: _Grades, ideal: _Grades, k: int | None) -> float:
    return float(_relevant(found, k) > 0)


def _relevant(found: _Grades, k: int | None) -> int:
    return sum(grade > 0 for grade in found[:k])


_VALUES = {"ndcg": _ndcg, "mrr": _mrr, "map": _map, "recall": _recall, "precision": _precision, "hit": _hit}
