"""nlptools bleu: score translations."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import without_blas_threads
from nlptools.configs import Common
from nlptools.configs.bleu import (
    BleuOptions,
    BleuReport,
    ChrfOptions,
    Input,
    Significance,
    TerOptions,
    check,
    metric_options,
)
from nlptools.configs.shares import Shares, shard
from nlptools.errors import CheckFailed, UsageError

if TYPE_CHECKING:
    from nlptools.metrics.translation.corpus import CorpusStatistics
    from nlptools.metrics.translation.metric import CorpusMetric
    from nlptools.metrics.translation.segments import Block


@make_command(
    "bleu",
    Input,
    BleuOptions,
    ChrfOptions,
    TerOptions,
    Significance,
    BleuReport,
    Shares,
    exit_codes=(0, 1, 2, 65, 66, 73, 74, 130, 141, 143),
)
@click.argument("references", nargs=-1, metavar="REF...", type=click.Path(path_type=str))
def command(
    references: tuple[str, ...],
    input: Input,
    bleu: BleuOptions,
    chrf: ChrfOptions,
    ter: TerOptions,
    significance: Significance,
    report: BleuReport,
    shares: Shares,
    common: Common,
) -> None:
    """Score translations with BLEU, chrF and TER.

    REF are the reference files and come before --input. Translations are read from standard input, or from the files of
    --input, one file per system. Scores and signatures are identical to sacrebleu's, to the last digit. Memory grows with
    the input only for intervals and tests.
    """
    check(references, input, bleu, significance, report)
    if (shares.shard or shares.skip_done) and report.statistics is None:
        raise UsageError("--shard and --skip-done need --statistics: a score is of all segments")
    counted = report.statistics is not None and shares.skip_done and os.path.exists(report.statistics)
    if report.format is None:
        several = len(input.input) > 1 and not sys.stdout.isatty()
        report = dataclasses.replace(report, format="tsv" if several else "text")
    without_blas_threads()
    from nlptools import messages
    from nlptools.files import streams
    from nlptools.metrics.translation import corpus, statistics_files, systems
    from nlptools.metrics.translation import report as forms

    if input.merge or counted:
        paths = [str(report.statistics)] if counted else references
        metric, statistics = statistics_files.merge(paths, keep_rows=significance.resampled)
        names = ["merged"]
        if report.fail_under is not None and metric.name == "TER":
            raise UsageError("--fail-under is for bleu or chrf")
    else:
        names = _systems(input.input)
        streams.check_inputs([*names, *references])
        metrics = [
            corpus.metric_class(name)(**metric_options(name, bleu, chrf, ter, report.sentence))
            for name in sorted(set(bleu.metrics))
        ]
        blocks = _blocks(names, references, input, shares, common)
        if "bleu" in bleu.metrics and bleu.tokenize != "none" and not bleu.force:
            blocks = _watched(blocks, bleu.tokenize)
        if report.sentence:
            _score_sentences(metrics[0], blocks, report)
            return
        statistics = _count(metrics, len(names), blocks, significance.resampled, report.statistics)
    compared = systems.compare(statistics, names, significance, report.signature)
    with streams.LineWriter() as out:
        out.write_lines(forms.lines(compared, report, significance, sys.stdout.isatty()))
    for scores in compared.scores:
        for name, each in zip(names, scores, strict=True):
            for step in each.steps():
                messages.detail(f"{name}: {step}" if len(names) > 1 else step)
    score = compared.scores[0][0].score
    if report.fail_under is not None and score < report.fail_under:
        raise CheckFailed(f"the score {score:.{max(report.width, 2)}f} is below {report.fail_under:g}")


def _blocks(
    names: list[str], references: tuple[str, ...], input: Input, shares: Shares, common: Common
) -> Iterator[Block]:
    """The segments of systems and references, or of the shard."""
    from nlptools.files import input_parts
    from nlptools.metrics.translation import segments

    parts = [*names, *references]
    if shares.shard:
        parts = input_parts.parallel_shard(parts, *shard(shares.shard))
    return segments.read(parts[: len(names)], parts[len(names) :], input.num_refs, common.encoding_errors)


def _score_sentences(metric: CorpusMetric, blocks: Iterator[Block], report: BleuReport) -> None:
    """Write a line for each segment while reading."""
    from nlptools.errors import DataError
    from nlptools.files import streams
    from nlptools.metrics.translation.report import sentence_lines

    empty = True
    with streams.LineWriter() as out:
        for (system,), references in blocks:
            out.write_lines(sentence_lines(metric, metric.statistics(system, references), references, report))
            empty = False
    if empty:
        raise DataError("no segments: translations and references are empty")


def _count(
    metrics: list[CorpusMetric], num_systems: int, blocks: Iterator[Block], keep_rows: bool, path: str | None
) -> CorpusStatistics:
    """Add up the statistics of all blocks, and also write them to `path` unless it is None."""
    from contextlib import nullcontext

    from nlptools.files import streams
    from nlptools.metrics.translation import corpus, statistics_files

    statistics = corpus.CorpusStatistics(metrics, num_systems, keep_rows)
    with streams.LineWriter(path, force=None) if path is not None else nullcontext() as out:
        if out is not None:
            out.write_lines(statistics_files.header(metrics[0]))
        for systems, references in blocks:
            added = statistics.add(systems, references)
            if out is not None:
                out.write_lines(statistics_files.rows(added[0][0], references))
        statistics.tables()  # raises without segments, before the file gets its name
    return statistics


def _systems(paths: tuple[str, ...]) -> list[str]:
    """The files of translations, the baseline once; standard input if there are none."""
    from nlptools import messages

    systems = list(dict.fromkeys(paths or ("-",)))
    for path in paths[1:]:
        if path == paths[0]:
            messages.note(f"{path} is the baseline; not compared with itself")
    return systems


def _watched(blocks: Iterator[Block], tokenizer: str) -> Iterator[Block]:
    """`blocks`; warns of text in a script that the tokenizer does not split, and at the end of text that looks tokenized."""
    from nlptools import messages
    from nlptools.text.east_asian import tokenizer_for

    tokenized: dict[int, int] = {}
    for number, block in enumerate(blocks):
        if not number and tokenizer in ("13a", "intl") and (better := tokenizer_for(block[0][0])):
            messages.warn(
                f"--tokenize {tokenizer} does not split Chinese, Japanese and Korean; use {better} or char"
                " (--force silences this)"
            )
        for i, lines in enumerate(block[0]):
            tokenized[i] = tokenized.get(i, 0) + sum(line.endswith(" .") for line in lines)
        yield block
    most = max(tokenized.values(), default=0)
    if most >= 100:
        messages.warn(
            f"{most} translations end in ' .': they look tokenized, which changes the score; "
            "detokenize them (--force silences this)"
        )
