"""nlptools evaluate: score predictions."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import without_blas_threads
from nlptools.configs import Common
from nlptools.configs.evaluate import Evaluate, EvaluationInput, EvaluationReport, check_usage
from nlptools.configs.metrics import parse
from nlptools.errors import CheckFailed, UsageError


@make_command(
    "evaluate",
    Evaluate,
    EvaluationInput,
    EvaluationReport,
    exit_codes=(0, 1, 2, 65, 66, 74, 130, 141, 143),
)
@click.argument("predictions", default="-", metavar="[PREDICTIONS]", type=click.Path(path_type=str))
def command(
    predictions: str, evaluate: Evaluate, source: EvaluationInput, report: EvaluationReport, common: Common
) -> None:
    """Score predictions: labels, numbers, tags, answers, chains, texts, log-probabilities, rankings.

    Compares PREDICTIONS (default: standard input) with GOLD by the metrics of --metric: accuracy, f1, matthews,
    pearson, GLUE's tasks, entity-f1, squad, conll (coreference), rougeL, bleu, perplexity, ndcg@10 and others.
    """
    groups = parse(evaluate.metric)
    check_usage(groups, evaluate, source, report)
    if report.report and groups[0][0].group == "labels":
        groups = parse(["accuracy"])  # the report has all metrics of each label
    without_blas_threads()
    from nlptools.files import streams
    from nlptools.metrics import report as forms
    from nlptools.metrics.evaluation import evaluate_files

    evaluations = evaluate_files(groups, evaluate, source, predictions, common.encoding_errors)
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
