"""nlptools walks: random walks over a graph."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common, LineOutput
from nlptools.configs.sequences import Walks


@make_command(
    "walks",
    Walks,
    LineOutput,
    exit_codes=(0, 2, 65, 66, 73, 74, 130, 141, 143),
)
@inputs_argument
def command(inputs: tuple[str, ...], walks: Walks, lines: LineOutput, common: Common) -> None:
    """Draw random walks over a graph, as node2vec and DeepWalk do.

    Reads the edges of all inputs, or standard input, as one graph. Memory grows with the edges, not with the walks.
    """
    from nlptools.files import streams
    from nlptools.sequences import graph as graphs
    from nlptools.sequences import walks as drawing

    drawing.check(walks.p, walks.q)
    graph = graphs.read(streams.all_blocks(inputs, common.encoding_errors), walks.weighted, walks.directed)
    chunks = drawing.walks(graph, walks.p, walks.q, walks.length, walks.walks, walks.seed, walks.threads)
    with streams.LineWriter(lines.output, force=lines.force, line_buffered=lines.line_buffered) as output:
        for rows in drawing.names(graph, chunks):
            output.write_lines(list(map(" ".join, rows)))
