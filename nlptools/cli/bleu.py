"""nlptools bleu: score translations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import without_blas_threads
from nlptools.configs import Common
from nlptools.configs.bleu import METRICS, TOKENIZERS, Bleu, Chrf, Input, Report, Significance, Ter
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
        "which tells how the score was made, the score, and for BLEU the precisions by order of n-grams, the brevity "
        "penalty, the ratio of the lengths, and the lengths in tokens. Several systems give a table. With several "
        "references an n-gram may match any of them; chrF takes the best reference, TER the nearest. Files of "
        "--statistics have a line that says what was counted, a line with the names of the columns, and a line of "
        "numbers for each segment; --merge adds any number of them, with the score of the whole.\n\n"
        "BLEU: Papineni et al. 2002 (P02-1040), from 0 to 100. chrF: Popovic 2015 (W15-3049), chrF++ with "
        "--chrf-word-order 2: Popovic 2017 (W17-4770), from 0 to 100. TER: Snover et al. 2006, edits per 100 words of "
        "the reference, lower is better. Intervals: Koehn 2004 (W04-3250). Randomization: Riezler and Maxwell 2005 "
        "(W05-0908). Scores, signatures and random draws are those of sacrebleu 2.6, its quirks too: a perfect match may "
        "print as 100.00000000000004 with enough digits, --lowercase comes before the tokenizer, zh splits the ranges of "
        "characters that it splits there. But lines end at a line feed only, and unequal numbers of lines are an error."
    ),
    examples=(
        ("Score translations against one reference", "nlptools bleu ref.txt < hyp.txt"),
        ("Against two references, compressed", "nlptools bleu ref.a.txt.gz ref.b.txt.gz -i hyp.txt"),
        (
            "BLEU and chrF++ with 95% intervals",
            "nlptools bleu ref.txt -i hyp.txt -m bleu,chrf --chrf-word-order 2 --confidence",
        ),
        ("Are two systems better than a baseline?", "nlptools bleu ref.txt -i base.txt -i a.txt -i b.txt --paired-bs"),
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

    The translations come on standard input, or from --input, once for each system. Scores and signatures are those of
    sacrebleu, to the last digit. Memory does not grow with the input, unless intervals or tests are asked for.
    """
    _check(references, input, bleu, significance, report)
    without_blas_threads()
    from nlptools.files import streams
    from nlptools.metrics.translation import comparison, corpus_scores

    if input.merge:
        from nlptools.metrics.translation import statistics_files

        metric, counted = statistics_files.merge(references, keep_rows=_resampled(significance))
        names = ["merged"]
        if report.fail_under is not None and metric.name == "TER":
            raise UsageError("--fail-under is for bleu or chrf")
    else:
        names = _systems(input.input, paired=bool(significance.paired_bs or significance.paired_ar))
        streams.check_inputs([*names, *references])
        metrics = [_metric(name, bleu, chrf, ter, report) for name in sorted(set(bleu.metrics))]
        texts = corpus_scores.read(names, references, input.num_refs, common.encoding_errors)
        watched = "bleu" in bleu.metrics and bleu.tokenize != "none" and not bleu.force
        blocks = _watched(texts) if watched else texts
        if report.sentence:
            _score_sentences(metrics[0], blocks, report)
            return
        counted = _count(metrics, len(names), blocks, _resampled(significance), report.statistics)
    found = comparison.compare(counted, names, significance, report.signature)
    with streams.Output() as out:
        out.write_lines(found.lines(report, significance))
    score = found.score().score
    if report.fail_under is not None and score < report.fail_under:
        raise CheckFailed(f"the score {score:.{max(report.width, 2)}f} is below {report.fail_under:g}")


def _resampled(significance: Significance) -> bool:
    return bool(significance.confidence or significance.paired_bs or significance.paired_ar)


def _score_sentences(metric: Any, blocks: Iterator[Any], report: Report) -> None:
    """Write a line for each segment as it comes."""
    from nlptools.errors import DataError
    from nlptools.files import streams
    from nlptools.metrics.translation.comparison import sentence_lines

    empty = True
    with streams.Output() as out:
        for (system,), references in blocks:
            out.write_lines(sentence_lines(metric, metric.statistics(system, references), references, report))
            empty = False
    if empty:
        raise DataError("no segments: translations and references are empty")


def _count(metrics: list[Any], num_systems: int, blocks: Iterator[Any], keep_rows: bool, path: str | None) -> Any:
    """Add up the statistics of all blocks, and write them to `path` if there is one."""
    from contextlib import nullcontext

    from nlptools.files import streams
    from nlptools.metrics.translation.corpus_scores import Counted

    counted = Counted(metrics, num_systems, keep_rows)
    with streams.Output(path) if path is not None else nullcontext() as out:
        if out is not None:
            from nlptools.metrics.translation import statistics_files

            out.write_lines(statistics_files.header(metrics[0]))
        for systems, references in blocks:
            added = counted.add(systems, references)
            if out is not None:
                out.write_lines(statistics_files.rows(added[0][0], references))
        counted.tables()  # nothing to count is an error, before the file gets its name
    return counted


def _check(references: tuple[str, ...], input: Input, bleu: Bleu, significance: Significance, report: Report) -> None:
    """Refuse what does not go together, before anything is loaded. Raises UsageError."""
    tests = [n for n in ("confidence", "paired_bs", "paired_ar") if getattr(significance, n)]
    num_systems = max(1, len(input.input))
    paired = bool({"paired_bs", "paired_ar"} & set(tests))
    wrong = set(bleu.metrics) - set(METRICS)
    tokenizer = bleu.tokenize in TOKENIZERS or bleu.tokenize.endswith(".model")
    refusals = (
        (not references, "missing argument 'REF...'" if not input.merge else "--merge expects files of statistics"),
        (wrong or not bleu.metrics, f"no such metric: {', '.join(sorted(wrong))}, expected {', '.join(METRICS)}"),
        (not tokenizer, f"no such tokenizer: {bleu.tokenize!r}, expected one of {', '.join(TOKENIZERS)} or a .model"),
        (len(tests) > 1, f"--{' and --'.join(tests)} exclude each other".replace("_", "-")),
        (paired and num_systems < 2, "a paired test compares systems: give --input at least twice"),
        (significance.confidence and num_systems > 1, "for several systems use --paired-bs, which gives intervals too"),
        (significance.holm and not paired, "--holm corrects the p-values of --paired-bs or --paired-ar"),
        (input.num_refs != 1 and len(references) > 1, "--num-refs splits the lines of one file of references"),
        (input.merge and (input.input or report.sentence or report.statistics), "--merge takes statistics, no texts"),
        (report.format == "latex" and num_systems < 2, "--format latex is for several systems"),
        (report.sentence and tests, "--sentence and intervals exclude each other"),
        (report.sentence and num_systems > 1, "--sentence is for one system"),
        (report.sentence and len(bleu.metrics) > 1, "--sentence is for one metric"),
        (report.sentence and report.statistics, "--sentence and --statistics exclude each other"),
        (report.statistics and (num_systems > 1 or len(bleu.metrics) > 1), "--statistics are of one system and metric"),
        (report.statistics == "-", "--statistics expects the name of a file; the score is on standard output"),
        (report.fail_under is not None and num_systems > 1, "--fail-under is for one system"),
        (report.fail_under is not None and tuple(bleu.metrics) not in (("bleu",), ("chrf",)), "--fail-under is for bleu or chrf"),
        (report.fail_under is not None and report.sentence, "--fail-under is for the whole corpus"),
    )  # fmt: skip
    for found, message in refusals:
        if found:
            raise UsageError(message, hint="'nlptools bleu --help' lists the options")


def _systems(paths: tuple[str, ...], paired: bool) -> list[str]:
    """The files of translations; none means standard input. In a paired test the baseline may stand twice."""
    from nlptools import messages

    systems: list[str] = []
    for path in paths or ("-",):
        if path in systems and not (paired and path == systems[0]):
            raise UsageError(f"--input {path} is given twice")
        if path in systems:
            messages.note(f"{path} is the baseline; not compared with itself")
        else:
            systems.append(path)
    if paired and len(systems) < 2:
        raise UsageError("a paired test compares systems: give --input at least twice")
    return systems


def _metric(name: str, bleu: Bleu, chrf: Chrf, ter: Ter, report: Report) -> Any:
    from nlptools.metrics.translation.corpus_scores import metric_class

    settings = {
        key.removeprefix(f"{name}_"): v for key, v in vars({"bleu": bleu, "chrf": chrf, "ter": ter}[name]).items()
    }
    if name == "bleu":
        settings["effective_order"] |= report.sentence
        del settings["metrics"], settings["force"]
    return metric_class(name)(**settings)


def _watched(blocks: Iterator[Any]) -> Iterator[Any]:
    """`blocks` as they are; warns at the end if translations look tokenized and would be tokenized again."""
    from nlptools import messages

    tokenized: dict[int, int] = {}
    for block in blocks:
        for i, lines in enumerate(block[0]):
            tokenized[i] = tokenized.get(i, 0) + sum(line.endswith(" .") for line in lines)
        yield block
    most = max(tokenized.values(), default=0)
    if most >= 100:
        messages.warn(
            f"{most} translations end in ' .': they look tokenized, which makes the score another one; "
            "detokenize them (--force silences this)"
        )
