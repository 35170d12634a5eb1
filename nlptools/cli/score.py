"""nlptools score: log-probabilities and perplexity."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from nlptools.cli.input_shares import leave_if_done, refuse_tables, remaining_lines, shard_of
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs, is_model
from nlptools.configs import Common, Compute, LineOutput
from nlptools.configs.scoring import Score
from nlptools.configs.shares import Shares
from nlptools.errors import DataError, UsageError

if TYPE_CHECKING:
    from nlptools.files.streams import LineWriter
    from nlptools.formats.stimuli import Stimuli
    from nlptools.inference.language_model import TextLanguageModel
    from nlptools.inference.uses import Scores
    from nlptools.json_types import JsonObject


@make_command(
    "score",
    Score,
    Compute,
    Shares,
    LineOutput,
    opens_models=True,
    exit_codes=(0, 2, 3, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@filter_inputs
def command(
    model: str,
    inputs: tuple[str, ...],
    score: Score,
    compute: Compute,
    shares: Shares,
    lines: LineOutput,
    common: Common,
) -> None:
    """Write log-probabilities of lines and tokens, surprisals of words, or the perplexity of a text.

    MODEL is a directory of train-lm, a published decoder ('nlptools help models' lists them), a GGUF file, or an ARPA
    file of n-grams (.arpa, .arpa.gz); with --masked, a directory of pretrain-bert, or a published encoder with its
    head for masked tokens. Each line is scored independently, unless --carry is given.

    On a CPU, the scores of a Transformer do not depend on --batch-tokens in any digit (with --choices: in fp32). With
    other models and on a GPU, batches change rounding: by about 1e-5 in fp32, 0.1 in bf16.
    """
    score.check()
    others = list(itertools.takewhile(is_model, inputs))
    _check_shares(shares, score, bool(others))
    if others:
        _compare([model, *others], inputs[len(others) :], score, compute, lines, common)
        return
    from nlptools.corpora import text_lines
    from nlptools.files import streams
    from nlptools.inference import mixture_directory, uses
    from nlptools.inference.loading import load

    layout = "json" if score.per == "total" else "jsonl" if score.json or score.choices else "text"
    streams.check_inputs(inputs, [score.tune] if score.tune else [])
    names = _remaining(inputs, score, shares, lines.output)
    if score.save is not None:
        mixture_directory.check_target(score.save, lines.force)
    with streams.LineWriter(
        lines.output,
        force=lines.force,
        line_buffered=lines.line_buffered,
        layout=layout,
        append=score.per == "line" and shares.skip_done,
    ) as out:
        errors = common.encoding_errors
        if score.choices:
            chooser = load(model, *score.mixed, use=uses.CHOOSE, settings=score, compute=compute, errors=errors)
            _score_choices(chooser, names, score, lines, common, out)
            return
        loaded = load(model, *score.mixed, settings=score, compute=compute, errors=errors)
        if score.tune is not None:
            from nlptools.inference.tuning import tune

            held_out = [score.tune]
            score = tune(loaded, lambda: text_lines.blocks(held_out, common.encoding_errors), score, score.tune)
        if score.save is not None and loaded.mixed is not None:
            mixture_directory.save(score.save, loaded.mixed.parts.bundles, loaded.mixed.weights)
        if score.per == "total":
            _write_total(_perplexity(loaded, names, score, common), out)
            return
        for rows in _records(loaded, names, score, 1 if lines.line_buffered else 1024, common.encoding_errors):
            out.write_lines(rows)
        loaded.unknown.report()


def _check_shares(shares: Shares, score: Score, several: bool) -> None:
    """Raise UsageError where the scores of a line depend on other lines."""
    if shares.shard and (several or score.per == "total"):
        raise UsageError("--shard is for --per line, token and word: a perplexity is of the whole text")
    if (shares.shard or shares.skip_done) and score.one_stream:
        raise UsageError("--shard and --skip-done cannot be combined with scores that depend on the lines before")


def _remaining(inputs: tuple[str, ...], score: Score, shares: Shares, output: str) -> list[str]:
    """The inputs that are left to score."""
    refuse_tables(shares, inputs, score.text_column is not None)
    if score.per == "line":
        return remaining_lines(inputs, shares, output)
    leave_if_done(shares, output)
    return shard_of(inputs, shares)


def _write_total(result: JsonObject, out: LineWriter) -> None:
    """Write an object. JSON has no infinity: a perplexity too large for a float becomes null."""
    import json
    import math

    plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in result.items()}
    out.write(json.dumps(plain, indent=1, ensure_ascii=False) + "\n")


def _records(model: Scores, names: list[str], score: Score, size: int, errors: str) -> Iterator[Iterator[str]]:
    """The output for at most `size` lines or records at a time."""
    if score.text_column is not None:
        from nlptools.formats import stimuli

        for window in stimuli.read(names, score.text_column, size, errors):
            yield _table(model, window, score)
    else:
        from nlptools.corpora import text_lines

        for block in text_lines.batches(names, size, errors):
            yield _rows(model, block.lines, score)


def _rows(model: Scores, lines: Sequence[str], score: Score) -> Iterator[str]:
    """The output for some lines."""
    from nlptools.inference import score_rows

    if score.per == "line":
        return score_rows.total_lines(model.totals(lines, score), model.total_columns, score)
    if score.per == "token":
        return score_rows.token_lines(model.score_batch(lines, score), score)
    return score_rows.word_lines(model.words(lines, score), score)


def _table(model: Scores, records: Stimuli, score: Score) -> Iterator[str]:
    """The output for some records of a table."""
    from nlptools.inference import score_rows

    if score.per == "line":
        return score_rows.total_table(records, model.totals(records.texts, score), model.total_columns)
    return score_rows.word_table(records, model.words(records.texts, score), score)


def _perplexity(model: Scores, names: list[str], score: Score, common: Common) -> JsonObject:
    """The perplexities of a text; reports unknown tokens. Raises DataError for an empty text."""
    from nlptools.corpora import text_lines

    result = model.perplexity(text_lines.blocks(names, common.encoding_errors), score)
    if result["tokens"] == 0:
        raise DataError("no text to score: the input is empty")
    model.unknown.report()
    return result


def _compare(
    models: list[str], inputs: tuple[str, ...], score: Score, compute: Compute, lines: LineOutput, common: Common
) -> None:
    """Write a table of several models, each alone."""
    from nlptools.files import progress, streams
    from nlptools.inference import choices, score_tables, uses
    from nlptools.inference.loading import load

    if not score.choices and score.per != "total":
        raise UsageError(f"several models ({', '.join(models)}) require --choices or --per total")
    if score.mixed or score.tune or score.save:
        raise UsageError("--with, --tune and --save require a single MODEL")
    names = streams.check_inputs(inputs)
    if "-" in names:
        raise UsageError("several models read the same input: expected the names of files, not standard input")
    with streams.LineWriter(lines.output, force=lines.force, line_buffered=True) as out:
        head = score_tables.accuracy_header(score) if score.choices else score_tables.perplexity_header()
        for number, model in enumerate(models):
            errors = common.encoding_errors
            if score.choices:
                scorer = choices.ChoiceScorer(
                    load(model, use=uses.CHOOSE, settings=score, compute=compute, errors=errors), score
                )
                for items in scorer.objects(names, common.encoding_errors):
                    progress.done(len(items))
                rows = list(score_tables.accuracy_rows(model, scorer))
            else:
                result = _perplexity(load(model, settings=score, compute=compute, errors=errors), names, score, common)
                rows = [score_tables.perplexity_row(model, result)]
            out.write_lines(rows if number else [head, *rows])


def _score_choices(
    loaded: TextLanguageModel, names: list[str], score: Score, lines: LineOutput, common: Common, out: LineWriter
) -> None:
    import json

    from nlptools.errors import DataError
    from nlptools.files import progress
    from nlptools.files.line_records import json_line
    from nlptools.inference import choices

    scorer = choices.ChoiceScorer(loaded, score)
    for items in scorer.objects(names, common.encoding_errors, 1 if lines.line_buffered else choices.WINDOW):
        if score.per == "line":
            out.write_lines(map(json_line, items))
        progress.done(len(items))
    if score.per == "total":
        if not scorer.accuracy.answered:
            raise DataError("no record has an answer")
        out.write(json.dumps(scorer.total(), indent=1, ensure_ascii=False) + "\n")
    else:
        scorer.note()
