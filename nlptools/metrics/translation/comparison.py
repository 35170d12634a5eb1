"""From counted statistics to what is printed: results of each system under each metric, as lines of output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nlptools.configs.bleu import Report, Significance
from nlptools.metrics.translation import report as form
from nlptools.metrics.translation import significance as tests
from nlptools.metrics.translation.corpus_scores import Counted, References, reference_counts
from nlptools.metrics.translation.metric import Score, Table, TranslationMetric
from nlptools.metrics.translation.significance import Result


@dataclass(frozen=True)
class Comparison:
    """What was found: `columns` has the results of all systems under the name of each metric."""

    names: list[str]
    columns: dict[str, list[Result]]
    signatures: dict[str, form.Signature]

    def lines(self, report: Report, asked: Significance) -> list[str]:
        """One line for each metric, JSON, or a table of systems."""
        if len(self.names) > 1:
            return self._table(report, asked)
        results = [(result, self.signatures[name]) for name, (result,) in self.columns.items()]
        if report.format == "json" and not report.score_only:
            return [form.dump([form.as_json(result, made, report.width) for result, made in results])]
        lines = [
            form.line(result, made, report.width, score_only=report.score_only, short=report.short)
            for result, made in results
        ]
        return form.aligned(lines)

    def _table(self, report: Report, asked: Significance) -> list[str]:
        if report.score_only:
            return ["\t".join(f"{r.score.score:.{report.width}f}" for r in row) for row in zip(*self.columns.values())]
        if report.format == "json":
            return [form.systems_json(self.names, self.columns, report.width)]
        lines = [*form.systems_table(self.names, self.columns, report.width, latex=report.format == "latex"), ""]
        if asked.paired_bs or asked.paired_ar:
            numbers = {"bootstrap": asked.paired_bs, "randomization": asked.paired_ar}
            lines += [*form.explanation(self.names[0], **numbers, corrected=asked.holm), ""]
        title = "Metric signatures"
        lines += ["-" * len(title), title, "-" * len(title)]
        return lines + [f" - {name:<10} {made.text(report.short)}" for name, made in self.signatures.items()]

    def score(self) -> Score:
        """The score of the first system under the first metric."""
        return next(iter(self.columns.values()))[0].score


def compare(counted: Counted, names: Sequence[str], asked: Significance, version: str = "nlptools") -> Comparison:
    """Score and test the systems that `counted` holds, with all rows kept if `asked` needs resamples.

    Raises:
        DataError: no segments.
    """
    paired = bool(asked.paired_bs or asked.paired_ar)
    tables = counted.tables()
    columns: dict[str, list[Result]] = {}
    signatures: dict[str, form.Signature] = {}
    for k, metric in enumerate(counted.metrics):
        rows = [system[k] for system in tables]
        columns[metric.name] = _results(metric, rows, asked)
        signatures[metric.name] = form.signature(
            metric,
            counted.num_references,
            version,
            bootstrap=asked.confidence or asked.paired_bs,
            randomization=asked.paired_ar,
            seed=asked.seed,
        )
    shown = [f"Baseline: {name}" if paired and not i else name for i, name in enumerate(names)]
    return Comparison(shown, columns, signatures)


def _results(metric: TranslationMetric, tables: list[Table], asked: Significance) -> list[Result]:
    if asked.confidence:
        return [tests.confidence(metric, tables[0], asked.confidence, asked.seed)]
    if asked.paired_bs or asked.paired_ar:
        run = tests.paired_bootstrap if asked.paired_bs else tests.paired_randomization
        results = run(metric, tables, asked.paired_bs or asked.paired_ar, asked.seed)
        return tests.holm(results) if asked.holm else results
    return [Result(metric.score(table.sum(axis=0))) for table in tables]


def sentence_lines(metric: TranslationMetric, table: Table, references: References, report: Report) -> list[str]:
    """A line for each segment (S, C)."""
    lines = []
    for row, count in zip(table, reference_counts(references), strict=True):
        made = form.signature(metric, count, report.signature)
        result = Result(metric.score(row))
        if report.format == "json":
            lines.append(form.compact(form.as_json(result, made, report.width)))
        else:
            lines.append(form.line(result, made, report.width, score_only=report.score_only, short=report.short))
    return lines
