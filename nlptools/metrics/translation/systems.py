"""Results of one or several systems under one or several metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.configs.bleu import Significance
from nlptools.metrics import significance
from nlptools.metrics.metric import Items, Table
from nlptools.metrics.significance import SystemScore
from nlptools.metrics.translation.corpus import CorpusStatistics, signature
from nlptools.metrics.translation.metric import CorpusMetric, CorpusScore, corpus_evaluation


@dataclass(frozen=True)
class Systems:
    """Scored systems.

    Attributes:
        names: of the systems.
        scores: the scores of all systems under each metric, with their parts.
        columns: the results of all systems, by name of the metric.
        signatures: by name of the metric.
    """

    names: list[str]
    scores: list[list[CorpusScore]]
    columns: dict[str, list[SystemScore]]
    signatures: dict[str, Items]


def compare(
    statistics: CorpusStatistics, names: Sequence[str], tests: Significance, version: str = "nlptools"
) -> Systems:
    """Score and test the systems in `statistics`, which has kept all rows if `tests` needs resamples.

    Raises:
        DataError: no segments.
    """
    tables = statistics.tables()
    scores: list[list[CorpusScore]] = []
    columns: dict[str, list[SystemScore]] = {}
    signatures: dict[str, Items] = {}
    for k, metric in enumerate(statistics.metrics):
        rows = [system[k] for system in tables]
        scores.append([metric.score(table.sum(axis=0)) for table in rows])
        columns[metric.name] = _results(metric, rows, tests)
        signatures[metric.name] = signature(metric, statistics.num_references, tests.items(), version)
    return Systems(list(names), scores, columns, signatures)


def _results(metric: CorpusMetric, tables: list[Table], tests: Significance) -> list[SystemScore]:
    systems = [corpus_evaluation(metric, table, precision=np.float32) for table in tables]
    if not tests.paired:
        return [significance.results(system, tests.confidence, tests.seed)[0] for system in systems]
    run = significance.paired_bootstrap if tests.paired_bs else significance.paired_randomization
    results = run(systems, tests.paired_bs or tests.paired_ar, tests.seed)
    return significance.holm(results) if tests.holm else results
