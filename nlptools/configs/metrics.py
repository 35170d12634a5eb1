"""The table of metrics that `nlptools evaluate` computes: one row for each group, and names to metrics.

A new metric is a module in `nlptools/metrics` with a function `requested(requests, data, options)` that returns a
`metric.Evaluation`, and a row here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from nlptools.errors import UsageError

AVERAGED = ("precision", "recall", "f1")
_AVERAGED_NAMES = tuple(f"{score}_{average}" for average in ("macro", "micro", "weighted") for score in AVERAGED)

LINES, TEXTS, TAGS = "labels or numbers, one per line", "texts, one per line", "tagged sentences in columns"
CHAINS = "documents with coreference chains in the last column"
UNIVERSAL = "sentences in CoNLL-U"
ANSWERS, TOKENS = "questions and answers as JSON", "log-probabilities and numbers of tokens, one line each"
RANKINGS = "rankings of documents as TREC's runs"
READ_OPTIONS = {  # options for reading, by what a file holds
    LINES: ("column", "gold_column", "header", "gold_header", "delimiter", "by_length"),
    TEXTS: ("column", "gold_column", "header", "gold_header", "delimiter", "escaped", "by_length"),
    TAGS: ("skip_docstart",),
    TOKENS: ("by_length",),
}


@dataclass(frozen=True)
class MetricGroup:
    """Metrics that are computed from the same statistics.

    Attributes:
        metrics: their names.
        reads: what their files hold.
        compute: `module:function`; see `requested` in the modules of `nlptools.metrics`.
        listed: the names as the help of --metric lists them.
        options: the options of `Evaluate` and `Report` that the metrics take.
        together: all requested metrics of a group are computed in one go.
        single: the metrics that have only one value; None for all.
        references: how many reference files: "one", "any" number from 1, "none", or "optional".
        aliases: other name -> metric.
        lower_is_better: whether low values are good.
        cut: metrics that also exist as NAME@K: of the first K documents of a ranking.
        merge: `module:function` that adds statistics files and computes the metrics; see `metrics.statistics_files`.
    """

    metrics: tuple[str, ...]
    reads: str
    compute: str
    listed: str
    options: tuple[str, ...] = ()
    together: bool = False
    single: tuple[str, ...] | None = ()
    references: str = "one"
    aliases: dict[str, str] = field(default_factory=dict)
    lower_is_better: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    merge: str = ""


TRANSLATION = {"bleu": "bleu:Bleu", "chrf": "chrf:Chrf", "ter": "ter:Ter"}  # below nlptools.metrics.translation

CHAIN_METRICS = ("muc", "b-cubed", "ceaf-e", "lea", "conll")

GROUPS = {
    "labels": MetricGroup(
        metrics=("accuracy", "balanced_accuracy", *AVERAGED, "support", "matthews", *_AVERAGED_NAMES),
        reads=LINES,
        compute="nlptools.metrics.classification:requested",
        merge="nlptools.metrics.classification:requested",
        listed="accuracy (acc), balanced_accuracy, precision, recall, f1, support, matthews (mcc)",
        options=("average", "positive", "labels", "confusion", "report"),
        together=True,
        single=("accuracy", "balanced_accuracy", "matthews", *_AVERAGED_NAMES),
        aliases={"acc": "accuracy", "mcc": "matthews"},
    ),
    "numbers": MetricGroup(
        metrics=("pearson", "spearman", "kendall"),
        reads=LINES,
        compute="nlptools.metrics.correlation:requested",
        listed="pearson, spearman, kendall",
        together=True,
        single=None,
    ),
    "glue": MetricGroup(
        metrics=("cola", "sst-2", "mrpc", "qqp", "sts-b", "mnli", "mnli-m", "mnli-mm", "qnli", "rte", "wnli", "ax"),
        reads=LINES,
        compute="nlptools.metrics.glue:requested",
        merge="nlptools.metrics.glue:requested",
        listed="a task of GLUE (cola, sst-2, mrpc, qqp, sts-b, mnli, qnli, rte, wnli, ax)",
        options=("confusion",),
        aliases={"mnli-matched": "mnli-m", "mnli-mismatched": "mnli-mm"},
    ),
    "entities": MetricGroup(
        metrics=("entity-f1",),
        reads=TAGS,
        compute="nlptools.metrics.spans:requested",
        merge="nlptools.metrics.spans:merged",
        listed="entity-f1",
        options=("average", "scheme", "raw", "outside", "report"),
        references="optional",
    ),
    "tags": MetricGroup(
        metrics=("tagging-accuracy",),
        reads=TAGS,
        compute="nlptools.metrics.tags:requested",
        listed="tagging-accuracy",
        options=("labels", "confusion", "report"),
        single=None,
        references="optional",
    ),
    "coreference": MetricGroup(
        metrics=CHAIN_METRICS,
        reads=CHAINS,
        compute="nlptools.metrics.coreference:requested",
        merge="nlptools.metrics.coreference:merged",
        listed="conll (muc, b-cubed, ceaf-e, lea)",
        together=True,
        single=("conll",),
        aliases={"bcub": "b-cubed", "b3": "b-cubed"},
    ),
    "universal": MetricGroup(
        metrics=("upos", "xpos", "feats", "ufeats", "alltags", "feats-f1", "uas", "las", "clas"),
        reads=UNIVERSAL,
        compute="nlptools.metrics.universal:requested",
        merge="nlptools.metrics.universal:merged",
        listed="upos (xpos, feats, ufeats, alltags, feats-f1), uas, las (clas)",
        options=("subtypes", "report"),
        single=None,
    ),
    "squad": MetricGroup(
        metrics=("squad",),
        reads=ANSWERS,
        compute="nlptools.metrics.squad:requested",
        merge="nlptools.metrics.squad:merged",
        listed="squad",
        options=("report",),
    ),
    "squad2": MetricGroup(
        metrics=("squad2",),
        reads=ANSWERS,
        compute="nlptools.metrics.squad:requested",
        merge="nlptools.metrics.squad:merged",
        listed="squad2",
        options=("null_odds", "threshold", "report"),
    ),
    "rouge": MetricGroup(
        metrics=(*(f"rouge{n}" for n in range(1, 10)), "rougeL", "rougeLsum"),
        reads=TEXTS,
        compute="nlptools.metrics.rouge:requested",
        merge="nlptools.metrics.rouge:merged",
        listed="rouge1 to rouge9, rougeL, rougeLsum",
        options=("stem", "tokenize"),
        together=True,
        references="any",
    ),
    "translation": MetricGroup(
        metrics=tuple(TRANSLATION),
        reads=TEXTS,
        compute="nlptools.metrics.translation.corpus:requested",
        listed=", ".join(TRANSLATION),
        single=None,
        references="any",
        lower_is_better=("ter",),
    ),
    "perplexity": MetricGroup(
        metrics=("perplexity",),
        reads=TOKENS,
        compute="nlptools.metrics.perplexity:requested",
        merge="nlptools.metrics.perplexity:merged",
        listed="perplexity",
        options=("log_base",),
        references="none",
        lower_is_better=("perplexity",),
    ),
    "retrieval": MetricGroup(
        metrics=("ndcg", "map", "mrr"),
        reads=RANKINGS,
        compute="nlptools.metrics.retrieval:requested",
        merge="nlptools.metrics.retrieval:merged",
        listed="ndcg, map, mrr (ndcg@10, recall@100, precision@5, hit@1 and so on)",
        together=True,
        single=None,
        cut=("ndcg", "map", "mrr", "recall", "precision", "hit"),
    ),
}


class MetricRequest(NamedTuple):
    """A metric by name, and which of its values is wanted; "" for all."""

    group: str
    metric: str
    value: str = ""


def parse(names: Sequence[str]) -> list[list[MetricRequest]]:
    """The metrics called `names`, in groups that are computed together.

    Raises:
        UsageError: no such metric, none at all, or metrics that read different files.
    """
    requests = list(dict.fromkeys(map(find, names)))
    if not requests:
        raise UsageError("no metric is named")
    groups: dict[str, list[MetricRequest]] = {}
    for request in requests:
        first, reads = GROUPS[requests[0].group].reads, GROUPS[request.group].reads
        if reads != first:
            message = f"{requests[0].metric} reads {first}, {request.metric} {reads}"
            raise UsageError(
                f"metrics of one call read the same files: {message}", hint="call the command once for each"
            )
        groups.setdefault(request.group if GROUPS[request.group].together else request.metric, []).append(request)
    return list(groups.values())


def find(text: str) -> MetricRequest:
    """The metric called `text`: NAME, NAME:VALUE or glue:TASK; case, hyphens and underscores do not matter.

    Raises:
        UsageError: no such metric, or a metric with one value has no value of that name.
    """
    glue, name, value = _parts(text)
    key, metric = _named(glue, name)
    if not key:
        from difflib import get_close_matches

        close = get_close_matches(name.lower(), {name for _, name in _names(glue).values()}, n=3)
        suggestion = f" (did you mean {' or '.join(close)}?)" if close else ""
        raise UsageError(f"no such metric: {text}{suggestion}", hint="'nlptools help evaluate' explains them")
    single = GROUPS[key].single
    if value and (single is None or metric in single):
        raise UsageError(f"{metric} has only one value: no {text}")
    return MetricRequest(key, metric, value)


def is_metric(argument: str) -> bool:
    """Whether an argument after a metric is also a metric. Raises UsageError if it may also be a file."""
    glue, name, _ = _parts(argument)
    metric = bool(_named(glue, name)[0])
    if metric and Path(argument).exists():
        raise UsageError(
            f"{argument!r} is a metric and a file",
            hint=f"the metric: separated by a comma, not by a space; the file: ./{argument}",
        )
    return metric


def _parts(text: str) -> tuple[bool, str, str]:
    """(whether `text` begins with glue:, name, value)"""
    glue = text.lower().startswith("glue:")
    name, _, value = (text[5:] if glue else text).partition(":")
    return glue, name, value


def cutoff(metric: str) -> tuple[str, int | None]:
    """`ndcg@10` -> ("ndcg", 10); without cutoff None."""
    name, _, k = metric.partition("@")
    return name, int(k) if k else None


def _named(glue: bool, text: str) -> tuple[str, str]:
    """The group and the metric of a name; "" if there is none."""
    name, at, k = text.partition("@")
    if not at:
        return _names(glue).get(_plain(name), ("", ""))
    if re.fullmatch("[1-9][0-9]{0,5}", k):
        for key, group in GROUPS.items():
            if _plain(name) in group.cut:
                return key, f"{_plain(name)}@{k}"
    return "", ""


def _names(glue: bool) -> dict[str, tuple[str, str]]:
    """Plain name or alias -> group and metric; of GLUE's tasks only, if `glue`."""
    groups = {"glue": GROUPS["glue"]} if glue else GROUPS
    names = {_plain(name): (key, name) for key, group in groups.items() for name in group.metrics}
    return names | {_plain(a): (key, name) for key, group in groups.items() for a, name in group.aliases.items()}


def takers(option: str) -> list[str]:
    """The groups of metrics, or the kinds of files, that an option is for; none for an option of all metrics."""
    groups = [key for key, group in GROUPS.items() if option in group.options]
    return groups or [reads for reads, options in READ_OPTIONS.items() if option in options]


def title(taker: str) -> str:
    """A group or a kind of files in words, for messages."""
    metrics = GROUPS[taker].metrics if taker in GROUPS else ()
    return metrics[0] if len(metrics) == 1 else f"metrics of {taker.split(',')[0]}"


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
