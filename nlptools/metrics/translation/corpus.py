"""Scores of corpora of translations, counted block by block.

Without resampling only the sums are kept, so memory does not grow with the corpus.
Shapes: S segments, C statistics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from nlptools import messages
from nlptools.configs.evaluate import Evaluate
from nlptools.configs.metrics import TRANSLATION, MetricRequest
from nlptools.errors import DataError
from nlptools.metrics.metric import Evaluation, Items, MetricData, Table, signature_text
from nlptools.metrics.paired import check_references
from nlptools.metrics.translation.bleu import Bleu, BleuScore
from nlptools.metrics.translation.metric import CorpusMetric, CorpusScore, References, corpus_evaluation
from nlptools.metrics.translation.segments import reference_counts
from nlptools.text.east_asian import tokenizer_for
from nlptools.version import __version__

Texts = Iterable[str]
BLOCK = 8192  # segments taken from an iterable at a time
VERSIONS = {"nlptools": f"nlptools-{__version__}", "sacrebleu": "2.6.0"}  # the sacrebleu version with equal scores


def metric_class(name: str) -> type[CorpusMetric]:
    """The class of a metric: `bleu`, `chrf` or `ter`. Raises KeyError."""
    module, cls = TRANSLATION[name].split(":")
    found: type[CorpusMetric] = getattr(import_module(f"nlptools.metrics.translation.{module}"), cls)
    return found


def requested(requests: Sequence[MetricRequest], data: MetricData, options: Evaluate) -> Evaluation:
    """The metric, with its default options, that `nlptools evaluate` is asked for."""
    metric: CorpusMetric = metric_class(requests[0].metric)()
    check_references(data.predictions, data.references)
    if isinstance(metric, Bleu) and (better := tokenizer_for(data.predictions)):
        command = f"nlptools bleu --tokenize {better}"
        messages.warn(f"BLEU's tokenizer 13a does not split Chinese, Japanese and Korean; use {command}, or char")
    sides = [[text and text.rstrip() for text in lines] for lines in (data.predictions, *data.references)]
    table = _statistics(metric, sides[0], sides[1:])
    evaluation = corpus_evaluation(metric, table, (("nrefs", str(len(data.references))),))
    return dataclasses.replace(evaluation, names=(requests[0].metric,))


def signature(
    metric: CorpusMetric, num_references: int | None, resampling: Items = (), version: str = "nlptools"
) -> Items:
    """The signature of a score of translations, as (key, value) in order.

    Args:
        num_references: None if segments differ in it.
        resampling: number of resamples or trials, and the seed, if there are any.
        version: a key of VERSIONS.
    """
    references = "var" if num_references is None else str(num_references)
    return (("nrefs", references), *resampling, *metric.signature(), ("version", VERSIONS[version]))


# -- texts in memory ----------------------------------------------------------------------------------------------------


def bleu(hypotheses: Texts, references: Sequence[Iterable[str | None]], **options: object) -> BleuScore:
    """BLEU of `hypotheses` against one or several `references`, each an iterable of as many segments.

    Args:
        references: one iterable per reference, not one list of references per segment; None where a segment has
            no such reference.
        options: see `nlptools.metrics.translation.bleu.Bleu`, such as `tokenize="intl"` or `lowercase=True`.

    Raises:
        DataError: the numbers of segments differ, there are none, or a segment has no reference.
        UsageError: no references, a string where an iterable of segments is expected, or a wrong option.
    """
    score = _score(metric_class("bleu")(**options), hypotheses, references)
    assert isinstance(score, BleuScore)
    return score


def chrf(hypotheses: Texts, references: Sequence[Iterable[str | None]], **options: object) -> CorpusScore:
    """chrF of `hypotheses`; for options see `nlptools.metrics.translation.chrf.Chrf`. Otherwise as `bleu`."""
    return _score(metric_class("chrf")(**options), hypotheses, references)


def ter(hypotheses: Texts, references: Sequence[Iterable[str | None]], **options: object) -> CorpusScore:
    """Translation edit rate of `hypotheses`; for options see `nlptools.metrics.translation.ter.Ter`. Otherwise as `bleu`."""
    return _score(metric_class("ter")(**options), hypotheses, references)


def _score(metric: CorpusMetric, hypotheses: Texts, references: Sequence[Iterable[str | None]]) -> CorpusScore:
    texts: Any = hypotheses if isinstance(hypotheses, str) else list(hypotheses)
    sides = [reference if isinstance(reference, str) else list(reference) for reference in references]
    table = _statistics(metric, texts, sides)
    numbers = set(reference_counts(sides))
    items = signature(metric, numbers.pop() if len(numbers) == 1 else None)
    return dataclasses.replace(metric.score(table.sum(axis=0)), signature=signature_text(items))


def _statistics(metric: CorpusMetric, hypotheses: list[str], references: References) -> Table:
    table = metric.statistics(hypotheses, references)
    if not len(table):
        raise DataError("no texts: translations and references are empty")
    return table


# -- statistics of a corpus -------------------------------------------------------------------------------------------


class CorpusStatistics:
    """The statistics of several systems under several metrics, added block by block."""

    def __init__(self, metrics: Sequence[CorpusMetric], num_systems: int, keep_rows: bool = False) -> None:
        self.metrics, self.keep_rows = metrics, keep_rows
        self.segments = 0
        self._reference_counts: set[int] = set()
        self._tables: list[list[list[Table]]] = [[[] for _ in metrics] for _ in range(num_systems)]

    def add(self, systems: Sequence[list[str]], references: References) -> list[list[Table]]:
        """Count one more block; returns its statistics (S, C), by system and metric."""
        added = [[metric.statistics(system, references) for metric in self.metrics] for system in systems]
        self.add_tables(added, set(reference_counts(references)))
        return added

    def add_tables(self, added: Sequence[Sequence[Table]], reference_counts: set[int]) -> None:
        """Add statistics (S, C), by system and metric, and the numbers of references of their segments."""
        for tables, new in zip(self._tables, added, strict=True):
            for kept, table in zip(tables, new, strict=True):
                kept.append(table)
                if not self.keep_rows:  # one row after another: sums of means do not depend on where the blocks end
                    kept[:] = [np.concatenate(kept).sum(axis=0, keepdims=True)]
        self.segments += len(added[0][0])
        self._reference_counts |= reference_counts

    @property
    def num_references(self) -> int | None:
        """The number of references of each segment; None if segments differ in it."""
        return self._reference_counts.copy().pop() if len(self._reference_counts) == 1 else None

    def tables(self) -> list[list[Table]]:
        """All rows (S, C), or one row with their sum, by system and metric. Raises DataError when there are none."""
        if not self.segments:
            raise DataError("no segments: translations and references are empty")
        return [[np.concatenate(kept) for kept in tables] for tables in self._tables]
