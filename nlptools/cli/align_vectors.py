"""nlptools align-vectors: one language's word vectors in another's space."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.alignment import Align, Precision, Written
from nlptools.errors import UsageError

if TYPE_CHECKING:
    from nlptools.metrics.metric import Evaluation
    from nlptools.vectors.alignment import BilingualAlignment


@make_command(
    "align-vectors",
    Align,
    Written,
    Precision,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path())
def command(source: str, target: str, align: Align, written: Written, precision: Precision, common: Common) -> None:
    """Rotate the word vectors of one language onto another's.

    Learns the rotation from a dictionary, so that the vectors of SOURCE become neighbors of their translations in
    TARGET, and writes all rotated vectors of SOURCE.
    """
    _check(source, target, align, written, precision)
    from nlptools import messages
    from nlptools.vectors import alignment, bilingual
    from nlptools.vectors.files import formats

    names = {"dictionary": align.dictionary, **({"test": precision.test} if precision.test else {})}
    pairs = {kind: bilingual.read_dictionary(path, common.encoding_errors) for kind, path in names.items()}
    one, two = (formats.load(path, align.source_format, common.encoding_errors) for path in (source, target))
    known = {kind: bilingual.look_up(words, one, two, align.restrict) for kind, words in pairs.items()}
    for kind, part in known.items():
        messages.note(bilingual.coverage(part, kind))
    if precision.held_out:
        known["dictionary"], known["test"] = bilingual.hold_out(known["dictionary"], precision.held_out, precision.seed)
    elif "test" in known:
        bilingual.warn_seen(known["dictionary"], known["test"])
    result = alignment.align(
        one, two, known["dictionary"], normalize=align.normalize, refine=align.refine, restrict=align.restrict
    )
    if "test" in known:
        drawn = f"{precision.held_out:g},seed={precision.seed}" if precision.held_out else "no"
        _report(result.precision(known["test"], drawn), precision, written.force)
    _write(result, align, written)


def _check(source: str, target: str, align: Align, written: Written, precision: Precision) -> None:
    """Check options and files before anything is read. Raises UsageError, InputError, OutputError."""
    from nlptools.files import streams
    from nlptools.vectors.files import formats

    written.check()
    read = [path for path in (align.dictionary, precision.test) if path is not None]
    if read:
        streams.check_inputs(read)
    if [source, target, align.dictionary, precision.test].count("-") > 1:
        raise UsageError("'-' (standard input) may occur only once")
    outputs = [path for path in (written.output, written.target_output, precision.report) if path is not None]
    if len(set(outputs)) < len(outputs):
        raise UsageError("-o, --target-output and --report must differ", hint="-o FILE frees standard output")
    for path in (written.output, written.target_output):
        if path is not None:
            formats.check_target(path, written.target_format or formats.format_of(path), written.force)


def _report(evaluation: Evaluation, precision: Precision, force: bool) -> None:
    """Write the precision to standard error, for people, and to --report."""
    from nlptools import messages
    from nlptools.configs.evaluate import EvaluationReport
    from nlptools.files import streams
    from nlptools.metrics import report as forms
    from nlptools.metrics.significance import results

    form = "jsonl" if (precision.report or "").endswith(".jsonl") else "text"
    report = EvaluationReport(confidence=precision.confidence, seed=precision.seed, to=form)
    for result in results(evaluation, report.confidence, report.seed):
        interval = f" ± {result.ci:.4f}" if result.ci is not None else ""
        messages.note(f"{result.name}  {result.value:.4f}{interval}")
    messages.note(evaluation.signature(**report.resampling))
    if precision.report is not None:
        with streams.LineWriter(precision.report, force=force, layout=form) as out:
            out.write_lines(forms.lines([evaluation], report))


def _write(alignment: BilingualAlignment, align: Align, written: Written) -> None:
    from nlptools import messages
    from nlptools.vectors.files import formats

    if any(
        table.subwords is not None and len(table.subwords.buckets) for table in (alignment.source, alignment.target)
    ):
        messages.note("n-grams are left out: unknown words will have no vectors")
    if align.normalize == "center" and not written.both and written.target_output is None:
        messages.note("compare only with centered vectors of TARGET, which --target-output or --both writes")
    whole = alignment.joined(written.both) if written.both else alignment.rotated_source()
    formats.save(whole, written.output, written.target_format, force=written.force)
    if written.target_output is not None:
        formats.save(alignment.normalized_target(), written.target_output, written.target_format, force=written.force)
