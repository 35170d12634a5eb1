"""Results of one or several systems under one or several metrics, and the lines of output that show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlptools.configs.bleu import Report, Significance
from nlptools.metrics import significance
from nlptools.metrics.metric import Items, Table
from nlptools.metrics.significance import Result
from nlptools.metrics.translation import report as form
from nlptools.metrics.translation.corpus import CorpusStatistics, signature
from nlptools.metrics.translation.metric import CorpusMetric, References, Score, corpus_evaluation
from nlptools.metrics.translation.segments import reference_counts


@dataclass(frozen=True)
class Systems:
    """Scored systems.

    Attributes:
        names: of the systems.
        scores: the score of the first system under each metric, with its parts.
        columns: the results of all systems, by name of the metric.
        signatures: by name of the metric.
    """

    names: list[str]
    scores: list[Score]
    columns: dict[str, list[Result]]
    signatures: dict[str, Items]

    def lines(self, report: Report, tests: Significance) -> list[str]:
        """One line for each metric, JSON, or a table of systems."""
        if len(self.names) > 1:
            return self._table(report, tests)
        results = [
            (score, result, self.signatures[name])
            for score, (name, (result,)) in zip(self.scores, self.columns.items(), strict=True)
        ]
        if report.format == "json" and not report.score_only:
            return [form.dump([form.as_json(*result, report.width) for result in results])]
        return form.aligned(
            [form.line(*result, report.width, score_only=report.score_only, short=report.short) for result in results]
        )

    def _table(self, report: Report, tests: Significance) -> list[str]:
        if report.score_only:
            return ["\t".join(f"{r.value:.{report.width}f}" for r in row) for row in zip(*self.columns.values())]
        if report.format == "json":
            return [form.systems_json(self.names, self.columns, report.width)]
        lines = [*form.systems_table(self.names, self.columns, report.width, latex=report.format == "latex"), ""]
        if tests.paired:
            numbers = {"bootstrap": tests.paired_bs, "randomization": tests.paired_ar}
            lines += [*form.explanation(self.names[0], **numbers, corrected=tests.holm), ""]
        title = "Metric signatures"
        lines += ["-" * len(title), title, "-" * len(title)]
        return lines + [
            f" - {name:<10} {form.signature(items, report.short)}" for name, items in self.signatures.items()
        ]


def compare(
    statistics: CorpusStatistics, names: Sequence[str], tests: Significance, version: str = "nlptools"
) -> Systems:
    """Score and test the systems in `statistics`, which has kept all rows if `tests` needs resamples.

    Raises:
        DataError: no segments.
    """
    tables = statistics.tables()
    scores: list[Score] = []
    columns: dict[str, list[Result]] = {}
    signatures: dict[str, Items] = {}
    for k, metric in enumerate(statistics.metrics):
        rows = [system[k] for system in tables]
        scores.append(metric.score(rows[0].sum(axis=0)))
        columns[metric.name] = _results(metric, rows, tests)
        signatures[metric.name] = signature(metric, statistics.num_references, tests.items(), version)
    shown = [f"Baseline: {name}" if tests.paired and not i else name for i, name in enumerate(names)]
    return Systems(shown, scores, columns, signatures)


def _results(metric: CorpusMetric, tables: list[Table], tests: Significance) -> list[Result]:
    systems = [corpus_evaluation(metric, table, precision=np.float32) for table in tables]
    if not tests.paired:
        return [significance.results(system, tests.confidence, tests.seed)[0] for system in systems]
    run = significance.paired_bootstrap if tests.paired_bs else significance.paired_randomization
    results = run(systems, tests.paired_bs or tests.paired_ar, tests.seed)
    return significance.holm(results) if tests.holm else results


def sentence_lines(metric: CorpusMetric, table: Table, references: References, report: Report) -> list[str]:
    """A line for each segment (S, C)."""
    lines = []
    for row, count in zip(table, reference_counts(references), strict=True):
        items = signature(metric, count, version=report.signature)
        score = metric.score(row)
        result = Result(score.name, score.score)
        if report.format == "json":
            lines.append(form.compact(form.as_json(score, result, items, report.width)))
        else:
            lines.append(
                form.line(score, result, items, report.width, score_only=report.score_only, short=report.short)
            )
    return lines
