"""nlptools evaluate: score predictions."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import without_blas_threads
from nlptools.configs import Common
from nlptools.configs.evaluate import Evaluate, Report, Source, check_usage, parse
from nlptools.errors import CheckFailed, UsageError

FORMATS = """\
The output has a line for each value, with columns separated by tabs, without header: its name, the value, how many
examples it is of, what these are, and the signature, which tells how it was made. With --confidence two more columns
follow: the mean over the resamples, and half the width of the 95% interval. A name of the first column can be given to
--metric, which prints that value alone: entity-f1:f1. --format json writes an object per line, with name, value, count,
unit, signature, interval, and, in the first object of a metric, details: the confusion matrix, counts by type of entity,
thresholds. Its numbers are not rounded.

The metrics of one call read the same files. PREDICTIONS and GOLD belong together line by line, or question by question;
unequal numbers of lines are an error, and so is a value that is no finite number. Case, hyphens and underscores in names
of metrics do not matter. What has nothing to divide by is 0.

LABELS, one per line, or in a column of TSV (--column, --gold-column). accuracy: the share that is right.
balanced_accuracy: the mean recall of the labels that gold has. precision, recall, f1, support: van Rijsbergen 1979,
Information Retrieval, chapter 7; of the positive label, or of several by --average: macro is the mean over labels, micro
counts all decisions together, weighted is the mean over labels by their number in gold (Sokolova and Lapalme 2009). In
one call they are called f1_macro, f1_micro, f1_weighted and so on, or f1:LABEL. matthews (mcc): Matthews 1975, of several
labels Gorodkin 2004, from -1 to 1. Values equal scikit-learn's.

NUMBERS, one per line. pearson: Pearson 1895. spearman: Spearman 1904, with average ranks for ties. kendall: tau-b, Kendall
1945. From -1 to 1; all numbers of a side the same is an error. Values equal scipy's.

GLUE, a label or number per line: cola, sst-2, mrpc, qqp, sts-b, mnli, qnli, rte, wnli, ax, with or without glue: in front.
The metrics of the task (Wang et al. 2018, W18-5446), and where there are two, their mean. Labels are those of the
published files, as numbers or words.

TAGS in columns, one token per line, sentences between empty lines, the gold and the predicted tag last; or two files, the
tag last in each. entity-f1: precision, recall and F1 of entities with the right first token, last token and type, and
accuracy of the tags (Tjong Kim Sang and Buchholz 2000, W00-0726; Tjong Kim Sang and De Meulder 2003, W03-0419). The scheme
conlleval counts as the script of that name does, to the printed digit, and --report prints its lines; iob1, iob2, ioe1,
ioe2, bioes (iobes) and bilou are strict: tags against the scheme make no entity; lenient forgives them, and
reads the L and U of bilou as E and S. tagging-accuracy: the share of tokens that have the right tag.

ANSWERS as JSON, GOLD as SQuAD publishes it, PREDICTIONS an object, id to text. squad: exact_match and f1 of version 1.1
(Rajpurkar et al. 2016, D16-1264), in percent. squad2: exact and f1 of version 2.0 (Rajpurkar et al. 2018, P18-2124), where
empty text means no answer, also of the questions with (HasAns) and without (NoAns) one; with --null-odds, best_exact and
best_f1, those with the best thresholds, which the signature and details tell. --report prints the JSON of SQuAD's scripts.

TEXTS, one per line; GOLD may be given several times. rouge1 to rouge9, rougeL, rougeLsum: F1, or with :precision or
:recall, from 0 to 1 (Lin 2004, W04-1013), as the package rouge-score gives them; the best reference counts. For rougeLsum
the sentences of a text stand on lines of their own: \\n in the text, with --escaped. bleu (Papineni et al. 2002, P02-1040),
chrf (Popovic 2015, W15-3049) and ter (Snover et al. 2006; lower is better): as sacrebleu gives them by default;
nlptools-bleu(1) has their options and tests of significance.

LOG-PROBABILITIES with numbers of tokens, as nlptools-score(1) writes them with --per line. perplexity: the exponential of
the mean negative log-probability per token (Jelinek et al. 1977), also as nats and bits per token. It compares models only
where they divide the text into the same tokens.

Intervals: bootstrap over examples, sentences or questions (Efron 1979; Koehn 2004, W04-3250)."""


@make_command(
    "evaluate",
    Evaluate,
    Source,
    Report,
    formats=FORMATS,
    examples=(
        ("Accuracy and F1 of labels", "nlptools evaluate -m accuracy,f1 -r gold.txt predicted.txt"),
        (
            "GLUE's metrics, gold labels in the fourth column of a published file",
            "nlptools evaluate -m qnli -r dev.tsv --gold-column 4 --gold-header < predicted.txt",
        ),
        ("F1 of each label, and what was taken for what", "nlptools evaluate -m f1 --average none --confusion -r a b"),
        ("What conlleval prints", "nlptools evaluate -m entity-f1 --report tagged.txt"),
        ("Strict F1 with its 95% interval", "nlptools evaluate -m entity-f1:f1 --scheme iob2 --confidence tagged.txt"),
        ("Thresholds for SQuAD 2.0", "nlptools evaluate -m squad2 -r dev.json --null-odds odds.json answers.json"),
        ("ROUGE against two references", "nlptools evaluate -m rouge1,rouge2,rougeL -r a.txt -r b.txt < summaries.txt"),
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

    PREDICTIONS, standard input if it is not given, are compared with GOLD by the metrics that --metric names: accuracy,
    f1, matthews, pearson, GLUE's tasks, entity-f1, squad, rougeL, bleu, perplexity and others.
    """
    groups = parse(evaluate.metric)
    check_usage(groups, evaluate, source, report)
    without_blas_threads()
    from nlptools.files import streams
    from nlptools.metrics import values
    from nlptools.metrics.evaluation import evaluate_files

    made = evaluate_files(groups, evaluate, source, predictions, common.encoding_errors)
    names = [name for measures in made for name in measures.names]
    if report.fail_under is not None and len(names) > 1:
        raise UsageError(f"--fail-under is for one value, there are {len(names)}: name one, such as -m {names[0]}")
    with streams.Output() as out:
        if report.report:
            out.write_lines(values.official(made[0]))
            return
        found = values.values(made, report.confidence, report.seed)
        out.write_lines(values.lines(found, report))
    value = found[0].value
    if report.fail_under is not None and value < report.fail_under:
        raise CheckFailed(f"the value {value:.{max(report.width, 2)}f} is below {report.fail_under:g}")
