"""Metrics of rankings equal those of trec_eval, by pytrec_eval."""

from __future__ import annotations

import random

import pytest

from nlptools.metrics.retrieval import retrieval

pytestmark = pytest.mark.reference

NAMES = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank"} | {
    f"{ours}@{k}": f"{theirs}_{k}"
    for ours, theirs in {
        "ndcg": "ndcg_cut",
        "map": "map_cut",
        "recall": "recall",
        "precision": "P",
        "hit": "success",
    }.items()
    for k in (1, 5, 10)
}


def test_random_rankings_have_the_values_of_trec_eval():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    rng = random.Random(3)
    for round_ in range(60):
        documents = [f"d{i}" for i in range(rng.randint(1, 25))]
        scores = [-1.0, 0.0, 0.5, 1.0, 1.0 + 1e-9, 2.0]  # with ties, also in float32 only
        grades = {
            f"q{q}": {d: rng.choice([-1, 0, 0, 1, 2, 3]) for d in rng.sample(documents, rng.randint(1, len(documents)))}
            for q in range(4)
        }
        run = {
            q: {d: rng.choice(scores) for d in rng.sample(documents, rng.randint(1, len(documents)))} for q in grades
        }
        judged = pytrec_eval.RelevanceEvaluator(grades, {"ndcg", "map", "recip_rank", "ndcg_cut.1,5,10", "map_cut.1,5,10",
                                                         "recall.1,5,10", "P.1,5,10", "success.1,5,10"})  # fmt: skip
        theirs = judged.evaluate(run)
        ours = retrieval(grades, run, list(NAMES)).values()
        for name, official in NAMES.items():
            expected = sum(theirs[q][official] if q in theirs else 0.0 for q in grades) / len(grades)
            assert ours[name] == pytest.approx(expected, abs=1e-9), (round_, name)
