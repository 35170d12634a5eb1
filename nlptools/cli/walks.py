"""nlptools walks: random walks over a graph."""

from __future__ import annotations

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common, Lines
from nlptools.configs.sequences import Walks


@make_command(
    "walks",
    Walks,
    Lines,
    formats=(
        "Input is an edge list: per line two nodes and optionally a weight, separated by spaces or tabs, in .csv "
        "files by commas; a node is any text without these. A first line such as source,target,weight names the "
        "columns. Empty lines and lines that begin with # are skipped. Repeated edges are one edge; with --weighted "
        "their weights are added. Without --weighted, third fields are ignored. A weight of 0 defines two nodes and "
        "no edge.\n\n"
        "The output is one walk per line: the names of its nodes, separated by single spaces. There are --walks rounds, "
        "each with one walk from every node, in a new random order of nodes. A walk ends early at a node without "
        "outgoing edges. The same input, options and seed give the same bytes.\n\n"
        "With --p 1 and --q 1, each step goes to a neighbor in proportion to the weight of the edge (DeepWalk: Perozzi et "
        "al. 2014, arXiv 1403.6652). Otherwise the weight is multiplied by 1/p for the previous node, by 1 for nodes to "
        "which an edge leads from there, by 1/q for all others (node2vec: Grover and Leskovec 2016, arXiv 1607.00653)."
    ),
    examples=(
        ("DeepWalk", "nlptools walks karate.edgelist > walks.txt"),
        ("node2vec, walks that stay near", "nlptools walks --p 0.25 --q 4 graph.txt > walks.txt"),
        ("A weighted, directed graph", "nlptools walks --weighted --directed --length 40 citations.tsv > walks.txt"),
        (
            "How often each node is visited",
            "nlptools walks graph.txt | tr ' ' '\\n' | sort | uniq -c | sort -nr | head",
        ),
    ),
    exit_codes=(0, 2, 65, 66, 73, 74, 130, 141, 143),
)
@inputs_argument
def command(inputs: tuple[str, ...], walks: Walks, lines: Lines, common: Common) -> None:
    """Draw random walks over a graph, as node2vec and DeepWalk do.

    Reads the edges of all inputs, or standard input, as one graph. Memory grows with the edges, not with the walks.
    """
    from nlptools.files import streams
    from nlptools.sequences import graph as graphs
    from nlptools.sequences import walks as drawing

    drawing.check(walks.p, walks.q)
    graph = graphs.read(streams.all_blocks(inputs, common.encoding_errors), walks.weighted, walks.directed)
    chunks = drawing.walks(graph, walks.p, walks.q, walks.length, walks.walks, walks.seed, walks.threads)
    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered) as output:
        for rows in drawing.names(graph, chunks):
            output.write_lines(list(map(" ".join, rows)))
