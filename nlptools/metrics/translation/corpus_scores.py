"""Scores of whole corpora of translations, from texts and from files.

Everything is read and counted in blocks. Without resampling only the sums are kept, so memory does not grow.
Shapes: S segments, C statistics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from itertools import islice
from typing import Any

import numpy as np

from nlptools import messages
from nlptools.errors import DataError, UsageError, display
from nlptools.files import streams
from nlptools.metrics.translation.bleu import Bleu, BleuScore
from nlptools.metrics.translation.metric import Score, Table, TranslationMetric, check_lengths
from nlptools.metrics.translation.report import VARIABLE, signature

Texts = Iterable[str]
References = Sequence[Sequence["str | None"]]
_CLASSES = {"bleu": "bleu:Bleu", "chrf": "chrf:Chrf", "ter": "ter:Ter"}  # imported on use
_BLOCK = 8192  # segments taken from an iterable at a time


def metric_class(name: str) -> Any:
    """The class of a metric: `bleu`, `chrf` or `ter`. Raises KeyError."""
    module, cls = _CLASSES[name].split(":")
    return getattr(import_module(f"nlptools.metrics.translation.{module}"), cls)


# -- texts in memory ----------------------------------------------------------------------------------------------------


def bleu(hypotheses: Texts, references: Sequence[Iterable[str | None]], **options: Any) -> BleuScore:
    """BLEU of `hypotheses` against one or several `references`, each an iterable of as many segments.

    Args:
        references: one iterable per reference, not one list of references per segment; None stands where a segment
            has no such reference.
        options: those of `nlptools.metrics.translation.bleu.Bleu`, such as `tokenize="intl"` or `lowercase=True`.

    Raises:
        DataError: the numbers of segments differ, there are none, or a segment has no reference.
        UsageError: no references, a string where an iterable of segments is expected, or a wrong option.
    """
    scored = _score(Bleu(**options), hypotheses, references)
    assert isinstance(scored, BleuScore)
    return scored


def chrf(hypotheses: Texts, references: Sequence[Iterable[str | None]], **options: Any) -> Score:
    """chrF of `hypotheses`; options are those of `nlptools.metrics.translation.chrf.Chrf`. Otherwise as `bleu`."""
    return _score(metric_class("chrf")(**options), hypotheses, references)


def ter(hypotheses: Texts, references: Sequence[Iterable[str | None]], **options: Any) -> Score:
    """Translation edit rate of `hypotheses`; options are those of `nlptools.metrics.translation.ter.Ter`. Otherwise as `bleu`."""
    return _score(metric_class("ter")(**options), hypotheses, references)


def _score(metric: TranslationMetric, hypotheses: Texts, references: Sequence[Iterable[str | None]]) -> Score:
    if isinstance(hypotheses, str) or isinstance(references, str) or any(isinstance(r, str) for r in references):
        raise UsageError("expected hypotheses as a list of segments, and references as a list of such lists")
    counted = Counted([metric], 1)
    if not references:
        raise UsageError("expected at least one reference")
    sources: list[Iterator[Any]] = [iter(hypotheses), *map(iter, references)]
    while any(block := [list(islice(source, _BLOCK)) for source in sources]):
        if len(set(map(len, block))) > 1:
            first, *others = (
                counted.segments + len(part) + sum(1 for _ in source) for part, source in zip(block, sources)
            )
            check_lengths(first, others)
        counted.add(block[:1], block[1:])
    made = signature(metric, counted.num_references)
    return dataclasses.replace(metric.score(counted.totals()[0][0]), signature=made.text())


# -- files ------------------------------------------------------------------------------------------------------------


class Counted:
    """The statistics of several systems under several metrics, added block by block."""

    def __init__(self, metrics: Sequence[TranslationMetric], num_systems: int, keep_rows: bool = False) -> None:
        self.metrics, self.keep_rows = metrics, keep_rows
        self.segments = 0
        self._reference_counts: set[int] = set()
        self._tables: list[list[list[Table]]] = [[[] for _ in metrics] for _ in range(num_systems)]

    def add(self, systems: Sequence[list[str]], references: References) -> list[list[Table]]:
        """Count one more block; returns its tables (S, C), by system and metric."""
        added = [[metric.statistics(system, references) for metric in self.metrics] for system in systems]
        self.add_tables(added, set(reference_counts(references)))
        return added

    def add_tables(self, added: Sequence[Sequence[Table]], reference_counts: set[int]) -> None:
        """Add statistics (S, C), by system and metric, of segments with so many references."""
        for tables, new in zip(self._tables, added, strict=True):
            for kept, table in zip(tables, new, strict=True):
                self._keep(kept, table)
        self.segments += len(added[0][0])
        self._reference_counts |= reference_counts

    def _keep(self, kept: list[Table], table: Table) -> None:
        if self.keep_rows:
            kept.append(table)
        else:
            # row after row, whatever the blocks: sums of means do not depend on where the blocks end
            kept[:] = [np.concatenate([*kept, table]).sum(axis=0, keepdims=True)]

    @property
    def num_references(self) -> int:
        """Of each segment; `VARIABLE` if they differ."""
        return self._reference_counts.copy().pop() if len(self._reference_counts) == 1 else VARIABLE

    def tables(self) -> list[list[Table]]:
        """All rows (S, C), or one row with their sum, by system and metric. Raises DataError when there are none."""
        if not self.segments:
            raise DataError("no segments: translations and references are empty")
        return [[np.concatenate(kept) for kept in tables] for tables in self._tables]

    def totals(self) -> list[list[Table]]:
        """The sums (C,), by system and metric. Raises DataError when there are no segments."""
        return [[table.sum(axis=0) for table in tables] for tables in self.tables()]


def reference_counts(references: References) -> list[int]:
    """How many references each segment has."""
    if all(None not in reference for reference in references):
        return [len(references)] * (len(references[0]) if references else 0)
    return [sum(text is not None for text in segment) for segment in zip(*references)]


def read(
    systems: Sequence[str], references: Sequence[str], num_refs: int = 1, errors: str = "strict"
) -> Iterator[tuple[list[list[str]], References]]:
    """Blocks of parallel segments of files: (by system, by reference), white space at their ends cut off.

    With a `num_refs` other than 1 the one file of references has that many fields in each line, or with 0 any number.
    A byte order mark stays, as a character of the first line: sacrebleu counts it. A warning names the file.

    Raises:
        DataError: unequal numbers of lines or of fields.
        InputError, StreamError: see `streams.blocks`.
    """
    before = 0
    paths = [*systems, *references]
    for block in streams.zip_blocks(paths, errors, keep_bom=True):
        if not before:
            _warn_of_marks(paths, [lines[0] for lines in block])
        texts = [list(map(str.rstrip, lines)) for lines in block]
        given: References = texts[len(systems) :]
        if num_refs != 1:
            given = _split_fields(texts[-1], num_refs, references[0], before)
        before += len(texts[0])
        yield texts[: len(systems)], given


def _warn_of_marks(paths: Sequence[str], first_lines: Sequence[str]) -> None:
    """Warn of files that begin with a byte order mark."""
    for path, line in zip(paths, first_lines, strict=True):
        if line.startswith("\ufeff"):
            messages.warn(
                f"{display(path)}: begins with a byte order mark; the score counts it as a character, as sacrebleu does"
            )


def _split_fields(lines: list[str], num_refs: int, path: str, before: int) -> list[list[str | None]]:
    rows = [line.split("\t", num_refs - 1) if num_refs else line.split("\t") for line in lines]
    for i, row in enumerate(rows):
        if num_refs and len(row) != num_refs:
            raise DataError(f"{len(row)} references, expected {num_refs}", path=path, line=before + i + 1)
    return [[row[k] if k < len(row) else None for row in rows] for k in range(max(map(len, rows)))]
