"""nlptools rerank: texts in the order in which they answer their queries."""

from __future__ import annotations

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Compute, LineOutput
from nlptools.configs.rerank import Rerank
from nlptools.errors import UsageError


@make_command(
    "rerank",
    Rerank,
    Compute,
    LineOutput,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@filter_inputs
def command(
    model: str, inputs: tuple[str, ...], rerank: Rerank, compute: Compute, lines: LineOutput, common: Common
) -> None:
    """Sort the texts of each query by how well they answer it.

    MODEL is a directory of finetune --task rank, a CrossEncoder of sentence-transformers with one label, or an encoder of
    single texts, which gives cosines. Lines are QUERY TAB TEXT; neighboring lines with the same query are sorted, the best
    first, with the score after the other fields.
    """
    from nlptools.files import layout_names, streams
    from nlptools.formats import ranked_lines
    from nlptools.inference import uses
    from nlptools.inference.loading import load
    from nlptools.inference.reranking import WINDOW, reranked

    names = streams.check_inputs(inputs)
    if len(rerank.columns) != 2:
        raise UsageError("--columns: expected two keys, of the query and of the text")
    layout = rerank.layout
    if layout == "auto":
        layout = "jsonl" if layout_names.named_layout(names[0]) == "jsonl" else "table"
    layout_names.check_output(lines.output, layout)
    with streams.LineWriter(lines.output, force=lines.force, line_buffered=lines.line_buffered, layout=None) as out:
        ranker = load(model, use=uses.RERANK, settings=rerank, compute=compute)
        blocks = streams.batches(names, 1 if lines.line_buffered else WINDOW, common.encoding_errors)
        groups = ranked_lines.groups(blocks, layout, rerank.columns)
        for line, score in reranked(ranker, groups, rerank.top_k, 1 if lines.line_buffered else WINDOW):
            out.write_lines([line.with_score(score)])
        ranker.finish()
