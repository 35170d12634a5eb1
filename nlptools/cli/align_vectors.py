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
    from nlptools.vectors.alignment import Alignment


@make_command(
    "align-vectors",
    Align,
    Written,
    Precision,
    formats="""SOURCE, TARGET and the outputs are word vectors in any format of nlptools-convert(1), named as there; standard
output is word2vec. --both writes both languages to one table, a word of SOURCE and one of TARGET in turn, in which
nlptools-neighbors(1) finds words of one language for words of the other. N-grams of fastText are not written.

A dictionary has a word of SOURCE and a word of TARGET per line, separated by a tab or by spaces (MUSE's format); a word
with several translations has several lines. Pairs of words that are not both among the first --restrict words are left out
and counted on standard error. Case matters.

The rotation is the orthogonal matrix that brings the vectors of the dictionary's words nearest to those of their
translations (Schoenemann 1966; Xing et al. 2015, N15-1104), after --normalize (Artetxe et al. 2016, D16-1250). Outputs are
normalized. With --normalize center, compare them with the normalized vectors of TARGET, from --both or --target-output;
with unit and none, the original file of TARGET will do, since cosines do not depend on lengths. --refine adds pairs of
words that are each other's nearest by CSLS among the first 15,000 of each side (Conneau et al. 2018, arXiv 1710.04087), and
solves again. It helps with small or guessed dictionaries, such as words spelled alike, but not with good ones, and it may
add held-out words.

Precision at 1, 5 and 10 is the share of words with a translation among that many nearest words of TARGET, of which the
first --restrict are candidates; words without vector, or without a translation that has one, are not counted. csls reduces
the similarity of words that are near to everything (Conneau et al., k=10), cosine is the plain similarity. The values are
on standard error; --report writes them as nlptools-evaluate(1) does, one per line: name, value, number of words, unit,
signature, separated by tabs, with --confidence the mean of the resamples and half the width of the interval; or JSON.""",
    examples=(
        ("Two languages in one table, and the nearest words in both:",
         "nlptools align-vectors wiki.de.vec wiki.en.vec -d de-en.txt --both de:,en: -o both/\n"
         "echo de:hund | nlptools neighbors both/"),
        ("Its precision on held-out words of the dictionary:",
         "nlptools align-vectors de.txt en.txt -d de-en.txt --held-out 1000 --confidence -o /dev/null"),
        ("The test set of MUSE:",
         "nlptools align-vectors wiki.es.vec wiki.en.vec -d es-en.0-5000.txt --test es-en.5000-6500.txt -o es.npy "
         "--report -"),
        ("Without a dictionary, from words spelled alike:",
         "comm -12 <(tail -n +2 de.txt | cut -d' ' -f1 | sort) <(tail -n +2 en.txt | cut -d' ' -f1 | sort) |\n"
         "awk 'length > 3 { print $1, $1 }' | nlptools align-vectors de.txt en.txt -d - --refine 5 -o de/"),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)  # fmt: skip
@click.argument("source", type=click.Path())
@click.argument("target", type=click.Path())
def command(source: str, target: str, align: Align, written: Written, precision: Precision, common: Common) -> None:
    """Rotate one language's word vectors onto another's.

    Learns from a dictionary the rotation that makes the vectors of SOURCE neighbors of their translations in TARGET, and
    writes all vectors of SOURCE, rotated.
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
    precision.check()
    read = [path for path in (align.dictionary, precision.test) if path is not None]
    if read:
        streams.check_inputs(read)
    if [source, target, align.dictionary, precision.test].count("-") > 1:
        raise UsageError("'-' (standard input) may stand only once")
    outputs = [path for path in (written.output, written.target_output, precision.report) if path is not None]
    if len(set(outputs)) < len(outputs):
        raise UsageError("-o, --target-output and --report must differ", hint="-o FILE frees standard output")
    for path in (written.output, written.target_output):
        if path is not None:
            formats.check_target(path, written.target_format or formats.format_of(path), written.force)


def _report(evaluation: Evaluation, precision: Precision, force: bool) -> None:
    """Write the precision to standard error, for people, and to --report."""
    from nlptools import messages
    from nlptools.configs.evaluate import Report
    from nlptools.files import streams
    from nlptools.metrics import report as forms
    from nlptools.metrics.significance import results

    form = "jsonl" if (precision.report or "").endswith(".jsonl") else "text"
    report = Report(confidence=precision.confidence, seed=precision.seed, to=form)
    for result in results(evaluation, report.confidence, report.seed):
        interval = f" ± {result.ci:.4f}" if result.ci is not None else ""
        messages.note(f"{result.name}  {result.value:.4f}{interval}")
    messages.note(evaluation.signature(**report.resampling))
    if precision.report is not None:
        with streams.Output(precision.report, force=force, layout=form) as out:
            out.write_lines(forms.lines([evaluation], report))


def _write(alignment: Alignment, align: Align, written: Written) -> None:
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
