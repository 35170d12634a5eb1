"""nlptools bleu: score translations."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import without_blas_threads
from nlptools.configs import Common
from nlptools.configs.bleu import Bleu, Chrf, Input, Report, Significance, Ter, check, metric_options
from nlptools.errors import CheckFailed, UsageError


@make_command(
    "bleu",
    Input,
    Bleu,
    Chrf,
    Ter,
    Significance,
    Report,
    formats=(
        "References and translations are text, one segment per line, detokenized unless --tokenize none is given; "
        "line n of each belongs to line n of all others. The output is one line for each metric: name and signature, "
        "which records how the score was computed, the score, and for BLEU the precisions by order of n-grams, the brevity "
        "penalty, the ratio of the lengths, and the lengths in tokens. Several systems give a table on a terminal, and "
        "otherwise a line for each system and metric, without header, with columns separated by tabs: file, metric, score, "
        "signature; with --paired-bs the mean over the resamples and half the width of the 95% interval; and with a test "
        "the p-value, empty for the baseline. --verbose writes to standard error how BLEU comes about: the n-grams that match, "
        "their precisions and the mean of these, and the brevity penalty. With several "
        "references an n-gram may match any of them; chrF takes the best reference, TER the nearest. Files of "
        "--statistics have a line that describes the metric, a line with the names of the columns, and a line of "
        "numbers for each segment; --merge scores the sum of any number of them.\n\n"
        "BLEU: Papineni et al. 2002 (P02-1040), from 0 to 100. chrF: Popovic 2015 (W15-3049), chrF++ with "
        "--chrf-word-order 2: Popovic 2017 (W17-4770), from 0 to 100. TER: Snover et al. 2006, edits per 100 words of "
        "the reference, lower is better. Intervals: Koehn 2004 (W04-3250). Randomization: Riezler and Maxwell 2005 "
        "(W05-0908). Scores, signatures and random draws equal those of sacrebleu 2.6, including its quirks: a perfect match "
        "may print as 100.00000000000004 with enough digits, --lowercase comes before the tokenizer, zh splits the same "
        "ranges of characters. But lines end at a line feed only, and unequal numbers of lines are an error."
    ),
    examples=(
        ("Score translations against one reference", "nlptools bleu ref.txt < hyp.txt"),
        ("Against two references, compressed", "nlptools bleu ref.a.txt.gz ref.b.txt.gz -i hyp.txt"),
        (
            "BLEU and chrF++ with 95% intervals",
            "nlptools bleu ref.txt -i hyp.txt -m bleu chrf --chrf-word-order 2 --confidence",
        ),
        ("Are two systems better than a baseline?", "nlptools bleu ref.txt -i base.txt a.txt b.txt --paired-bs"),
        ("Only the number, with two decimals", "nlptools bleu ref.txt -i hyp.txt --score-only --width 2"),
        ("Count on one machine, score on another", "nlptools bleu ref.1.txt -i hyp.1.txt --statistics 1.tsv"),
        ("Score the parts together", "nlptools bleu --merge 1.tsv 2.tsv"),
        ("Stop a script when quality drops", "nlptools bleu ref.txt -i hyp.txt --fail-under 27.5 || exit 1"),
    ),
    exit_codes=(0, 1, 2, 65, 66, 73, 74, 130, 141, 143),
)
@click.argument("references", nargs=-1, metavar="REF...", type=click.Path(path_type=str))
def command(
    references: tuple[str, ...],
    input: Input,
    bleu: Bleu,
    chrf: Chrf,
    ter: Ter,
    significance: Significance,
    report: Report,
    common: Common,
) -> None:
    """Score translations with BLEU, chrF and TER.

    Translations are read from standard input, or from the files of --input, one for each system. References stand before
    --input. Scores and signatures equal those of sacrebleu to the last digit. Memory does not grow with the input unless
    intervals or tests are requested.
    """
    check(references, input, bleu, significance, report)
    if report.format is None:
        several = len(input.input) > 1 and not sys.stdout.isatty()
        report = dataclasses.replace(report, format="tsv" if several else "text")
    without_blas_threads()
    from nlptools import messages
    from nlptools.files import streams
    from nlptools.metrics.translation import corpus, segments, statistics_files, systems
    from nlptools.metrics.translation import report as forms

    if input.merge:
        metric, statistics = statistics_files.merge(references, keep_rows=significance.resampled)
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
        blocks = segments.read(names, references, input.num_refs, common.encoding_errors)
        if "bleu" in bleu.metrics and bleu.tokenize != "none" and not bleu.force:
            blocks = _watched(blocks, bleu.tokenize)
        if report.sentence:
            _score_sentences(metrics[0], blocks, report)
            return
        statistics = _count(metrics, len(names), blocks, significance.resampled, report.statistics)
    compared = systems.compare(statistics, names, significance, report.signature)
    with streams.Output() as out:
        out.write_lines(forms.lines(compared, report, significance, sys.stdout.isatty()))
    for scores in compared.scores:
        for name, each in zip(names, scores, strict=True):
            for step in each.steps():
                messages.detail(f"{name}: {step}" if len(names) > 1 else step)
    score = compared.scores[0][0].score
    if report.fail_under is not None and score < report.fail_under:
        raise CheckFailed(f"the score {score:.{max(report.width, 2)}f} is below {report.fail_under:g}")


def _score_sentences(metric: Any, blocks: Iterator[Any], report: Report) -> None:
    """Write a line for each segment as it is read."""
    from nlptools.errors import DataError
    from nlptools.files import streams
    from nlptools.metrics.translation.report import sentence_lines

    empty = True
    with streams.Output() as out:
        for (system,), references in blocks:
            out.write_lines(sentence_lines(metric, metric.statistics(system, references), references, report))
            empty = False
    if empty:
        raise DataError("no segments: translations and references are empty")


def _count(metrics: list[Any], num_systems: int, blocks: Iterator[Any], keep_rows: bool, path: str | None) -> Any:
    """Add up the statistics of all blocks, and also write them to `path` unless it is None."""
    from contextlib import nullcontext

    from nlptools.files import streams
    from nlptools.metrics.translation import corpus, statistics_files

    statistics = corpus.CorpusStatistics(metrics, num_systems, keep_rows)
    with streams.Output(path) if path is not None else nullcontext() as out:
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


def _watched(blocks: Iterator[Any], tokenizer: str) -> Iterator[Any]:
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
