"""nlptools evaluate: score predictions."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import without_blas_threads
from nlptools.configs import Common
from nlptools.configs.evaluate import Evaluate, Report, Source, check_usage
from nlptools.configs.metrics import FAMILIES, parse
from nlptools.errors import CheckFailed, UsageError

FORMATS = """\
The output has a line for each value, with columns separated by tabs, without header: its name, the value, the number of
examples, what an example is, and the signature, which records how the value was computed. With --confidence two more
columns follow: the mean over the resamples, and half the width of the 95% interval. A name of the first column can be
given to --metric, which then prints that value alone: entity-f1:f1. --to jsonl writes an object per line, with name,
value, count, unit, signature, interval, and, in the first object of a metric, details: the confusion matrix, counts by
type of entity, thresholds. Its numbers are not rounded.

The metrics of one call read the same files. PREDICTIONS and GOLD correspond line by line, or question by question;
unequal numbers of lines are an error, and so is a value that is not a finite number. Case, hyphens and underscores in
names of metrics do not matter. A ratio with nothing to divide by is 0.

{metrics}

Intervals: bootstrap over examples, sentences or questions (Efron 1979; Koehn 2004, W04-3250).""".format(
    metrics="\n\n".join(family.explained for family in FAMILIES.values())
)


@make_command(
    "evaluate",
    Evaluate,
    Source,
    Report,
    formats=FORMATS,
    examples=(
        ("Accuracy and F1 of labels", "nlptools evaluate -m accuracy f1 -r gold.txt predicted.txt"),
        (
            "GLUE's metrics, gold labels in the fourth column of a published file",
            "nlptools evaluate -m qnli -r dev.tsv --gold-column 4 --gold-header < predicted.txt",
        ),
        ("F1 of each label, and the confusion matrix", "nlptools evaluate -m f1 --average none --confusion -r a b"),
        (
            "Precision, recall, F1 and support of each label",
            "nlptools evaluate -m accuracy --report -r gold.txt predicted.txt",
        ),
        ("What conlleval prints", "nlptools evaluate -m entity-f1 --report tagged.txt"),
        ("Strict F1 with its 95% interval", "nlptools evaluate -m entity-f1:f1 --scheme iob2 --confidence tagged.txt"),
        ("Thresholds for SQuAD 2.0", "nlptools evaluate -m squad2 -r dev.json --null-odds odds.json answers.json"),
        ("ROUGE against two references", "nlptools evaluate -m rouge1 rouge2 rougeL -r a.txt -r b.txt < summaries.txt"),
        ("Perplexity of a text", "nlptools score lm/ < test.txt | nlptools evaluate -m perplexity"),
        (
            "Stop a script when quality drops",
            "nlptools evaluate -m mcc -r gold.txt --fail-under 0.5 -b < out || exit 1",
        ),
    ),
    exit_codes=(0, 1, 2, 65, 66, 74, 130, 141, 143),
)
@click.argument("predictions", default="-", metavar="[PREDICTIONS]", type=click.Path(path_type=str))
def command(predictions: str, evaluate: Evaluate, source: Source, report: Report, common: Common) -> None:
    """Score predictions: labels, numbers, tags, answers, texts, log-probabilities.

    PREDICTIONS, standard input by default, are compared with GOLD by the metrics that --metric names: accuracy, f1,
    matthews, pearson, GLUE's tasks, entity-f1, squad, rougeL, bleu, perplexity and others.
    """
    groups = parse(evaluate.metric)
    check_usage(groups, evaluate, source, report)
    if report.report and groups[0][0].family == "labels":
        groups = parse(["accuracy"])  # the report has all metrics of each label
    without_blas_threads()
    from nlptools.files import streams
    from nlptools.metrics import report as forms
    from nlptools.metrics.evaluation import evaluate_files

    evaluations = evaluate_files(groups, evaluate, source, predictions, common.encoding_errors)
    names = [name for evaluation in evaluations for name in evaluation.names]
    if report.fail_under is not None and len(names) > 1:
        raise UsageError(f"--fail-under is for one value, there are {len(names)}: name one, such as -m {names[0]}")
    with streams.Output() as out:
        out.write_lines(
            forms.report_lines(evaluations[0], report.width) if report.report else forms.lines(evaluations, report)
        )
    if report.fail_under is None:
        return
    value = next(iter(evaluations[0].values().values()))
    if value < report.fail_under:
        raise CheckFailed(f"the value {value:.{max(report.width, 2)}f} is below {report.fail_under:g}")
