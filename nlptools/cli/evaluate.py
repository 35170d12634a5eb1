"""nlptools evaluate: score predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import without_blas_threads
from nlptools.configs import Common
from nlptools.configs.evaluate import Evaluate, EvaluationInput, EvaluationReport, check_merge, check_usage
from nlptools.configs.metrics import parse
from nlptools.errors import CheckFailed, UsageError

if TYPE_CHECKING:
    from nlptools.metrics.metric import Evaluation


@make_command(
    "evaluate",
    Evaluate,
    EvaluationInput,
    EvaluationReport,
    exit_codes=(0, 1, 2, 65, 66, 73, 74, 130, 141, 143),
)
@click.argument("predictions", nargs=-1, metavar="[PREDICTIONS]", type=click.Path(path_type=str))
def command(
    predictions: tuple[str, ...], evaluate: Evaluate, source: EvaluationInput, report: EvaluationReport, common: Common
) -> None:
    """Score predictions: labels, numbers, tags, answers, chains, texts, log-probabilities, rankings.

    Compares PREDICTIONS (default: standard input) with GOLD by the metrics of --metric: accuracy, f1, matthews,
    pearson, GLUE's tasks, entity-f1, squad, conll (coreference), rougeL, bleu, perplexity, ndcg@10 and others.
    """
    if source.merge:
        check_merge(evaluate, source, report)
        without_blas_threads()
        from nlptools.metrics import statistics_files

        evaluations = [statistics_files.merge(predictions or ("-",))]
    else:
        evaluations = _compared(predictions, evaluate, source, report, common)
    _write(evaluations, report)


def _compared(
    predictions: tuple[str, ...],
    evaluate: Evaluate,
    source: EvaluationInput,
    report: EvaluationReport,
    common: Common,
) -> list[Evaluation]:
    """The metrics of predictions; with --statistics, their rows are written."""
    if len(predictions) > 1:
        raise UsageError(f"expected one file of predictions, got {len(predictions)}: {' '.join(predictions)}")
    if not evaluate.metric:
        raise UsageError("no metric is named: expected -m/--metric NAME,...", hint="--merge needs none")
    groups = parse(evaluate.metric)
    check_usage(groups, evaluate, source, report)
    if report.report and groups[0][0].group == "labels":
        groups = parse(["accuracy"])  # the report has all metrics of each label
    without_blas_threads()
    from nlptools.metrics import statistics_files
    from nlptools.metrics.evaluation import evaluate_files

    if report.statistics is not None:
        statistics_files.check_written(groups, evaluate)
    path = predictions[0] if predictions else "-"
    evaluations = evaluate_files(groups, evaluate, source, path, common.encoding_errors)
    if report.statistics is not None:
        statistics_files.write(report.statistics, groups[0], evaluate, evaluations[0])
    return evaluations


def _write(evaluations: list[Evaluation], report: EvaluationReport) -> None:
    """Print the values. Raises CheckFailed for one below --fail-under."""
    from nlptools.files import streams
    from nlptools.metrics import report as forms

    names = [name for evaluation in evaluations for name in evaluation.names]
    if report.fail_under is not None and len(names) > 1:
        raise UsageError(f"--fail-under is for one value, there are {len(names)}: name one, such as -m {names[0]}")
    with streams.LineWriter() as out:
        out.write_lines(
            forms.report_lines(evaluations[0], report.width) if report.report else forms.lines(evaluations, report)
        )
    if report.fail_under is None:
        return
    value = next(iter(evaluations[0].values().values()))
    if value < report.fail_under:
        raise CheckFailed(f"the value {value:.{max(report.width, 2)}f} is below {report.fail_under:g}")
