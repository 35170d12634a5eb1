"""Settings of the metrics of predictions, and which metric reads and takes what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple

from nlptools.configs import LARGEST_SEED, option
from nlptools.errors import UsageError

AVERAGES = ("binary", "macro", "micro", "weighted", "none")
SCHEMES = ("conlleval", "lenient", "iob1", "iob2", "ioe1", "ioe2", "iobes", "bioes", "bilou")
TOKENIZERS = ("rouge", "words", "whitespace")
AVERAGED = ("precision", "recall", "f1")
_AVERAGED_NAMES = tuple(f"{score}_{average}" for average in ("macro", "micro", "weighted") for score in AVERAGED)

METRICS: dict[str, tuple[str, ...]] = {  # kind -> its metrics
    "labels": ("accuracy", "balanced_accuracy", *AVERAGED, "support", "matthews", *_AVERAGED_NAMES),
    "numbers": ("pearson", "spearman", "kendall"),
    "glue": (
        "cola", "sst-2", "mrpc", "qqp", "sts-b", "mnli", "mnli-m", "mnli-mm", "qnli", "rte", "wnli", "ax",
    ),
    "entities": ("entity-f1",),
    "tags": ("tagging-accuracy",),
    "squad": ("squad", "squad2"),
    "rouge": (*(f"rouge{n}" for n in range(1, 10)), "rougeL", "rougeLsum"),
    "translation": ("bleu", "chrf", "ter"),
    "perplexity": ("perplexity",),
}  # fmt: skip
TOGETHER = ("labels", "numbers", "rouge")  # kinds of which all metrics are computed at once
LOWER_IS_BETTER = ("ter", "perplexity")
_LINES, _CONLL, _TEXT = "labels or numbers, one per line", "tagged sentences in columns", "texts, one per line"
READS = {  # kind -> what its files hold
    **dict.fromkeys(("labels", "numbers", "glue"), _LINES),
    **dict.fromkeys(("entities", "tags"), _CONLL),
    "squad": "questions and answers as JSON",
    **dict.fromkeys(("rouge", "translation"), _TEXT),
    "perplexity": "log-probabilities and numbers of tokens, one line each",
}
_ONE_VALUE = ("accuracy", "balanced_accuracy", "matthews", *_AVERAGED_NAMES)
_ALIASES = {"mcc": "matthews", "mnli-matched": "mnli-m", "mnli-mismatched": "mnli-mm"}
_TAKES: dict[str, tuple[str, ...]] = {  # option -> the kinds, or single metrics, that it is for
    "average": ("labels", "entities"),
    "positive": ("labels",),
    "labels": ("labels", "tags"),
    "scheme": ("entities",),
    "raw": ("entities",),
    "outside": ("entities",),
    "skip_docstart": ("entities", "tags"),
    "null_odds": ("squad2",),
    "threshold": ("squad2",),
    "stem": ("rouge",),
    "tokenize": ("rouge",),
    "log_base": ("perplexity",),
    **dict.fromkeys(("column", "gold_column", "header", "gold_header"), (_LINES, _TEXT)),
    "escaped": (_TEXT,),
    "confusion": ("labels", "glue", "tags"),
    "report": ("entities", "squad"),
}


@dataclass(frozen=True)
class Evaluate:
    """Metric options"""

    metric: tuple[str, ...] = option(
        MISSING,
        "What to compute, separated by commas: accuracy, balanced_accuracy, precision, recall, f1, support, matthews "
        "(mcc), pearson, spearman, kendall, a task of GLUE (cola, sst-2, mrpc, qqp, sts-b, mnli, qnli, rte, wnli, ax), "
        "entity-f1, tagging-accuracy, squad, squad2, rouge1 to rouge9, rougeL, rougeLsum, bleu, chrf, ter, perplexity.",
        short="-m",
        metavar="NAME,...",
    )
    average: str | None = option(
        None,
        "Precision, recall and F1 of: the positive label (binary), all labels (macro, micro, weighted), each label "
        "(none). If not given: binary; entity-f1: micro.",
        choices=AVERAGES,
    )
    positive: str | None = option(
        None, "The positive label. If not given: 1 of 0 and 1, else the second of two.", metavar="LABEL"
    )
    labels: tuple[str, ...] = option((), "All labels that may occur; any other is an error.", metavar="A,B,...")
    scheme: str = option("conlleval", "How tags make entities.", choices=SCHEMES)
    raw: bool = option(False, "Tags are bare types, each token an entity of its own, as with conlleval's -r.")
    outside: str = option("O", "The tag of no entity, with --raw.", metavar="TAG")
    skip_docstart: bool = option(False, "-DOCSTART- lines end a sentence and are no tokens.")
    null_odds: str | None = option(
        None,
        "squad2: JSON, how probable it is that a question has no answer; finds the best thresholds.",
        metavar="FILE",
    )
    threshold: float = option(
        1.0, "squad2: a question whose number in --null-odds is greater counts as left unanswered.", metavar="X"
    )
    stem: bool = option(False, "ROUGE compares Porter's stems.")
    tokenize: str = option("rouge", "Words of ROUGE; those of rouge are a-z and 0-9 only.", choices=TOKENIZERS)
    log_base: float | None = option(None, "Base of log-probabilities; if not given, e.", low=0, metavar="X")


@dataclass(frozen=True)
class Source:
    """Input options"""

    reference: tuple[str, ...] = option(
        (), "Gold labels, tags, questions or texts. Metrics of texts may have several.", short="-r",
        metavar="GOLD", multiple=True,
    )  # fmt: skip
    column: int = option(
        0, "Take this column of PREDICTIONS, from 1, separated by tabs; 0: whole lines.", low=0, metavar="N"
    )
    gold_column: int = option(0, "The same of GOLD.", low=0, metavar="N")
    header: bool = option(False, "The first line of PREDICTIONS names the columns.")
    gold_header: bool = option(False, "The first line of GOLD names the columns.")
    escaped: bool = option(False, "Texts have \\n, \\t and \\\\ for newline, tab and backslash.")


@dataclass(frozen=True)
class Report:
    """Report options"""

    confidence: int = option(
        0, "95% interval by bootstrap, from N resamples (1000 if N is left out).", low=0, bare=1000, metavar="[N]"
    )
    seed: int = option(12345, "Seed of the resamples.", low=0, high=LARGEST_SEED, metavar="N")
    format: str = option("text", "Form of the output.", short="-f", choices=("text", "json"))
    score_only: bool = option(False, "Print the numbers alone, without names and signatures.", short="-b")
    width: int = option(4, "Decimal places of a text's numbers.", short="-w", low=0, high=17, metavar="N")
    confusion: bool = option(False, "Also print the confusion matrix, rows gold.")
    report: bool = option(False, "Print what conlleval, or SQuAD's own script, prints instead.")
    fail_under: float | None = option(None, "End with status 1 if the one value is below this.", metavar="X")


class Asked(NamedTuple):
    """A metric by its name, and which of its values is wanted; "" is all."""

    kind: str
    name: str
    value: str = ""


def parse(names: Sequence[str]) -> list[list[Asked]]:
    """The metrics called `names`, in groups of those that are computed together.

    Raises:
        UsageError: no such metric, none at all, or metrics that read different things.
    """
    asked = list(dict.fromkeys(map(_find, names)))
    if not asked:
        raise UsageError("no metric is named")
    for metric in asked:
        if READS[metric.kind] != READS[asked[0].kind]:
            told = f"{asked[0].name} reads {READS[asked[0].kind]}, {metric.name} {READS[metric.kind]}"
            raise UsageError(f"metrics of one call read the same files: {told}", hint="call the command once for each")
    groups: dict[str, list[Asked]] = {}
    for metric in asked:
        groups.setdefault(metric.kind if metric.kind in TOGETHER else metric.name, []).append(metric)
    return list(groups.values())


def check_taken(groups: Iterable[Sequence[Asked]], *settings: Any) -> None:
    """Raises UsageError if an option differs from its default and no metric takes it."""
    asked = [metric for group in groups for metric in group]
    takers = {text for metric in asked for text in (metric.kind, metric.name, READS[metric.kind])}
    for setting in settings:
        for field in fields(setting):
            kinds = _TAKES.get(field.name, ())
            if kinds and getattr(setting, field.name) != field.default and not takers.intersection(kinds):
                told = ", ".join(_told(kind) for kind in kinds)
                raise UsageError(f"--{field.name.replace('_', '-')} is not for {asked[0].name}, but for {told}")


def _told(taker: str) -> str:
    names = METRICS.get(taker, ())
    return (
        taker if taker in ("squad2", "squad") else names[0] if len(names) == 1 else f"metrics of {taker.split(',')[0]}"
    )


def check_usage(groups: Sequence[Sequence[Asked]], evaluate: Evaluate, source: Source, report: Report) -> None:
    """Refuse options that do not go together, before anything is read. Raises UsageError."""
    check_taken(groups, evaluate, source, report)
    first, kind = groups[0][0], groups[0][0].kind
    single = len(groups) == 1 and len(groups[0]) == 1
    optional, none = READS[kind] == _CONLL, kind == "perplexity"
    refusals = (
        (not source.reference and not optional and not none, f"{first.name} needs the gold ones: missing option '-r'"),
        (source.reference and none, "perplexity takes no reference"),
        (len(source.reference) > 1 and READS[kind] != _TEXT, f"{first.name} takes one reference"),
        (evaluate.raw and evaluate.scheme != "conlleval", "--raw belongs to --scheme conlleval"),
        (evaluate.outside != "O" and not evaluate.raw, "--outside belongs to --raw"),
        (evaluate.threshold != 1 and evaluate.null_odds is None, "--threshold belongs to --null-odds"),
        (report.report and (not single or first.value), "--report is for one metric, and all of it"),
        (report.report and (report.confidence or report.score_only or report.format == "json" or report.confusion),
         "--report has a form of its own: no --confidence, --score-only, --confusion or --format json"),
        (report.score_only and report.format == "json", "--score-only and --format json exclude each other"),
        (report.confusion and report.score_only, "--confusion and --score-only exclude each other"),
        (report.fail_under is not None and first.name in LOWER_IS_BETTER,
         f"--fail-under: of {first.name}, lower values are better"),
        (report.fail_under is not None and report.report, "--fail-under and --report exclude each other"),
    )  # fmt: skip
    for found, message in refusals:
        if found:
            raise UsageError(message)


def _find(text: str) -> Asked:
    """The metric called `text`: NAME, NAME:VALUE or glue:TASK; case, hyphens and underscores do not matter."""
    task = text.lower().startswith("glue:")
    name, _, value = (text[5:] if task else text).partition(":")
    found = _NAMES.get(_plain(name))
    if found is None or (task and found.kind != "glue"):
        from difflib import get_close_matches

        known = METRICS["glue"] if task else [*_ALIASES, *(name for names in METRICS.values() for name in names)]
        close = get_close_matches(name.lower(), known, n=3)
        told = f" (did you mean {' or '.join(close)}?)" if close else ""
        raise UsageError(f"no such metric: {text}{told}", hint="'nlptools help evaluate' explains them")
    if value and (found.kind in ("numbers", "translation", "tags") or found.name in _ONE_VALUE):
        raise UsageError(f"{found.name} has only one value: no {text}")
    return found._replace(value=value)


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


_NAMES = {_plain(name): Asked(kind, name) for kind, names in METRICS.items() for name in names}
_NAMES |= {_plain(alias): _NAMES[_plain(name)] for alias, name in _ALIASES.items()}
