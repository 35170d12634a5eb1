"""Options of `nlptools evaluate`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from nlptools.configs import LARGEST_SEED, confidence, delimiter_option, option
from nlptools.configs.combinations import check_combinations, flag_of
from nlptools.configs.metrics import GROUPS, MetricRequest, is_metric, takers, title
from nlptools.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


AVERAGES = ("binary", "macro", "micro", "weighted", "none")
SCHEMES = ("conlleval", "lenient", "iob1", "iob2", "ioe1", "ioe2", "iobes", "bioes", "bilou")
TOKENIZERS = ("rouge", "words", "whitespace", "char", "zh", "ja-mecab", "ko-mecab")


def length_limits(text: str) -> tuple[int, ...]:
    """The numbers of --length-limits, ascending from 1 on. Raises UsageError."""
    numbers = tuple(map(int, text.split(","))) if re.fullmatch(r"\d{1,9}(,\d{1,9})*", text) else ()
    if not numbers or list(numbers) != sorted({0, *numbers})[1:]:
        raise UsageError(f"--length-limits {text}: expected ascending numbers of words, such as 10,20,30")
    return numbers


@dataclass(frozen=True)
class Evaluate:
    """Metric options"""

    metric: tuple[str, ...] = option(
        (),
        f"Metrics, separated by commas or spaces: {', '.join(group.listed for group in GROUPS.values())}.",
        short="-m",
        metavar="NAME,...",
        more=is_metric,
    )
    average: str | None = option(
        None,
        "Precision, recall and F1 of the positive label (binary), over all labels (macro, micro, weighted), or of"
        " each label (none). Default: binary; entity-f1: micro.",
        choices=AVERAGES,
    )
    positive: str | None = option(
        None, "The positive label. Default: 1 of 0 and 1, else the second of two.", metavar="LABEL"
    )
    labels: tuple[str, ...] = option((), "All possible labels; any other is an error.", metavar="A,B,...")
    scheme: str | None = option(
        None,
        "Scheme of the entity tags. Default: bioes or bilou if both sides have only its tags, and some that conlleval"
        " does not know; else conlleval.",
        choices=SCHEMES,
    )
    raw: bool = option(False, "Tags are types without prefix, and each token is an entity, as with conlleval -r.")
    outside: str = option(
        "O",
        "Tag outside entities.",
        metavar="TAG",
        needs=("raw",),
    )
    skip_docstart: bool = option(False, "Treat -DOCSTART- lines as ends of sentences, not as tokens.")
    subtypes: bool = option(False, "las, clas: also compare the subtypes of relations (nmod:poss).")
    null_odds: str | None = option(
        None,
        "squad2: JSON file with the odds that a question has no answer; finds the best thresholds.",
        metavar="FILE",
    )
    threshold: float = option(
        1.0,
        "squad2: count a question as unanswered if its odds exceed X.",
        metavar="X",
        needs=("null_odds",),
    )
    stem: bool = option(False, "ROUGE: compare Porter stems.")
    tokenize: str = option(
        "rouge",
        "Words of ROUGE. rouge: a-z and 0-9 only; char: characters without spaces.",
        choices=TOKENIZERS,
    )
    log_base: float | None = option(None, "Base of the log-probabilities. Default: e.", low=0, metavar="X")


@dataclass(frozen=True)
class EvaluationInput:
    """Input options"""

    reference: tuple[str, ...] = option(
        (), "Gold labels, tags, questions or texts. Metrics of texts accept several files.", short="-r",
        metavar="GOLD", multiple=True,
    )  # fmt: skip
    column: str | None = option(
        None,
        "Column of PREDICTIONS, a name in the first line or a number from 1: of CSV, Parquet or JSON lines by suffix,"
        " otherwise between tabs. Default: whole lines.",
        flag="text-column",
        metavar="NAME",
        was={"--column": "--text-column"},
    )
    gold_column: str | None = option(None, "Column of GOLD.", metavar="NAME")
    header: bool = option(False, "The first line of PREDICTIONS contains column names.")
    gold_header: bool = option(False, "The first line of GOLD contains column names.")
    delimiter: str | None = delimiter_option()
    by_length: str | None = option(
        None,
        "Also compute the metrics for groups of lines by the length of their source: the number of words in the same line of"
        " SOURCES.",
        metavar="SOURCES",
        excludes=("to report", "confusion", "fail_under"),
    )
    length_limits: str = option(
        "10,20,30,40,50,60",
        "Longest source of each group, in words; a last group has all longer ones.",
        metavar="N,N,...",
        check=length_limits,
        needs=("by_length",),
    )
    merge: bool = option(
        False,
        "The arguments are files that --statistics wrote; score all their examples together.",
        excludes=("metric", "reference", "statistics", "to report", "by_length"),
    )
    escaped: bool = option(False, "Texts contain \\n, \\t and \\\\ for newline, tab and backslash.")


@dataclass(frozen=True)
class EvaluationReport:
    """Report options"""

    confidence: int = confidence()
    seed: int = option(12345, "Seed of the resamples.", low=0, high=LARGEST_SEED, metavar="N")
    to: str = option(
        "text",
        "Output format: lines of text, or a JSON object per metric. report: precision, recall, F1 and support of each label and"
        " the confusion matrix; or the output of conlleval or SQuAD's script.",
        choices=("text", "jsonl", "report"),
        was={
            "--report": "--to report",
            "--format json": "--to jsonl",
            "-f json": "--to jsonl",
            "--format": "--to",
            "-f": "--to",
        },
        excludes={"report": ("confidence", "score_only", "confusion", "average", "fail_under")},
    )
    score_only: bool = option(
        False,
        "Print only the numbers.",
        short="-b",
        excludes=("to jsonl",),
    )
    width: int = option(4, "Decimal places of numbers in text.", short="-w", low=0, high=17, metavar="N")
    confusion: bool = option(
        False,
        "Also print the confusion matrix, with gold labels as rows.",
        excludes=("score_only",),
    )
    statistics: str | None = option(
        None,
        "Also write the statistics of each example to this file, for --merge.",
        metavar="FILE",
        excludes=("by_length", "to report"),
    )
    fail_under: float | None = option(None, "End with status 1 if the value is below X.", metavar="X")

    @property
    def report(self) -> bool:
        """Whether the output is a report of one metric."""
        return self.to == "report"

    @property
    def resampling(self) -> dict[str, str]:
        """The number of resamples and the seed, for the signature; empty without resampling."""
        return {"bs": str(self.confidence), "seed": str(self.seed)} if self.confidence else {}


def check_taken(groups: Iterable[Sequence[MetricRequest]], *settings: DataclassInstance) -> None:
    """Raises UsageError if an option differs from its default and no requested metric takes it."""
    requests = [request for group in groups for request in group]
    kinds = {kind for request in requests for kind in (request.group, GROUPS[request.group].reads)}
    for setting in settings:
        for field in fields(setting):
            taken_by = takers(field.name)
            if taken_by and vars(setting)[field.name] != field.default and not kinds.intersection(taken_by):
                flag = field.metadata["flag"] or field.name.replace("_", "-")
                expected = ", ".join(map(title, taken_by))
                raise UsageError(f"--{flag} is not for {requests[0].metric}, but for {expected}")


def check_merge(evaluate: Evaluate, source: EvaluationInput, report: EvaluationReport) -> None:
    """Raise UsageError for options that cannot be combined with --merge: the files hold the others."""
    check_combinations(evaluate, source, report)
    for setting in (evaluate, source):
        for field in fields(setting):
            if field.name != "merge" and vars(setting)[field.name] != field.default:
                raise UsageError(f"--merge cannot be combined with {flag_of(field)}: the files of --statistics have it")


def check_usage(
    groups: Sequence[Sequence[MetricRequest]], evaluate: Evaluate, source: EvaluationInput, report: EvaluationReport
) -> None:
    """Raise UsageError for options that cannot be combined, before anything is read."""
    check_taken(groups, evaluate, source, report)
    check_combinations(evaluate, source, report)
    first = groups[0][0]
    group = GROUPS[first.group]
    single = len(groups) == 1 and (len(groups[0]) == 1 or first.group == "labels")
    refusals = (
        (not source.reference and group.references in ("one", "any"),
         f"{first.metric} needs gold data: missing option '-r'"),
        (source.reference and group.references == "none", f"{first.metric} takes no reference"),
        (len(source.reference) > 1 and group.references != "any", f"{first.metric} takes one reference"),
        (evaluate.raw and evaluate.scheme not in (None, "conlleval"), "--raw applies to --scheme conlleval only"),
        (report.report and "report" not in group.options,
         f"--to report is not for {first.metric}, but for {', '.join(map(title, takers('report')))}"),
        (report.report and (not single or any(request.value for request in groups[0])),
         "--to report is for one metric, and all of it"),
        (report.fail_under is not None and first.metric in group.lower_is_better,
         f"--fail-under: of {first.metric}, lower values are better"),
    )  # fmt: skip
    for refused, message in refusals:
        if refused:
            raise UsageError(message)
