"""nlptools eval-vectors: word vectors on analogies and word similarity."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.configs import Common
from nlptools.configs.eval_vectors import EvalVectors
from nlptools.errors import UsageError


@make_command(
    "eval-vectors",
    EvalVectors,
    exit_codes=(0, 2, 65, 66, 69, 74, 78, 130, 141, 143),
)
@click.argument("vectors", nargs=-1, required=True, type=click.Path(path_type=str))
def command(vectors: tuple[str, ...], evalvectors: EvalVectors, common: Common) -> None:
    """Score word vectors on analogies and on word similarity.

    VECTORS are files of word vectors, or directories from convert. Requires --analogies FILE, --pairs FILE or both.
    """
    evalvectors.check()
    if [*vectors, *evalvectors.analogies, *evalvectors.pairs].count("-") > 1:
        raise UsageError("'-' (standard input) may occur only once")
    from nlptools.files import streams
    from nlptools.vectors import evaluation, score_table
    from nlptools.vectors.files import formats

    evaluation.check_vectors(vectors, evalvectors.source_format)
    tests = evaluation.read_tests(evalvectors, common.encoding_errors)
    scores: list[list[evaluation.EvaluationScore]] = []
    write = {"jsonl": score_table.json_lines, "tsv": score_table.tsv}.get(evalvectors.to)
    with streams.LineWriter() as out:
        for path in vectors:
            table = formats.load(path, evalvectors.source_format, common.encoding_errors)
            scores.append(evaluation.score(table, tests, evalvectors))
            if write is not None:
                out.write_lines(write(scores[-1]))
        if write is None:
            out.write_lines(score_table.table(scores))
