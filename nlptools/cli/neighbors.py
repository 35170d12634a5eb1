"""nlptools neighbors: the nearest words of words and expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common, Lines
from nlptools.configs.vectors import Neighbors

if TYPE_CHECKING:
    from nlptools.vectors.nearest import Answer


@make_command(
    "neighbors",
    Neighbors,
    Lines,
    formats="""Each line is a word, or an expression: words with + and - between spaces (king - man + woman). Hyphens belong
to words, and a word may hold spaces. A line that is in the vocabulary as it stands is a word. Each gives one line: the
query, then word and similarity of each neighbor, nearest first, all separated by tabs. Similarities are cosines, those of
--method mul the quotients of 3CosMul. The words of a query are not among its answers.

Words outside the vocabulary have vectors where the file has n-grams of fastText. A query with a word that has none is
written alone on its line; standard error counts them at the end. With --json each line is an object: query, neighbors (a
list of pairs), and unknown (a list of words) where some have no vector. An empty line gives an empty line (with --json,
an empty list).

The format of VECTORS follows from its name: .txt and .w2v the text of word2vec, .bin its binary form or, if it begins
with fastText's number, a model of fastText, .vec the text of fastText, glove.NAME.txt and .glove GloVe, .npy an array
with the words in NAME.vocab.tsv, a directory what nlptools-convert(1) makes; - is text of word2vec on standard input, the
queries are then in files. Binary files and arrays are mapped and not read into memory; with --restrict no more of them is
read than the words of the queries and the first N, and damage behind these is not told.""",
    examples=(
        ("The nearest words of a word:", "echo king | nlptools neighbors vectors.bin -k 5"),
        ("An analogy:", "echo 'king - man + woman' | nlptools neighbors glove.6B.300d.txt --method mul"),
        ("Words that have no vector:", "nlptools neighbors vectors.vec -k 1 words.txt | awk -F'\\t' 'NF == 1'"),
        ("One neighbor per line:", "nlptools neighbors model.bin --json words.txt | jq -c '.neighbors[]'"),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("vectors", type=click.Path())
@inputs_argument
def command(vectors: str, inputs: tuple[str, ...], neighbors: Neighbors, lines: Lines, common: Common) -> None:
    """Find the nearest words of words and of expressions.

    VECTORS is a file of word vectors, or a directory that convert made.
    """
    from nlptools import messages, streams
    from nlptools.errors import UsageError

    if vectors == "-" and (not inputs or "-" in inputs):
        raise UsageError("VECTORS and the queries cannot both come from standard input")
    names = streams.check_inputs(inputs)
    from nlptools.vectors.formats import load
    from nlptools.vectors.nearest import neighbors as search

    table = load(vectors, neighbors.source_format, common.encoding_errors)

    def ask(queries: list[str]) -> list[Answer]:
        return search(table, queries, neighbors.neighbors, method=neighbors.method, restrict=neighbors.restrict)

    asked, missing = 0, 0
    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered) as out:
        size = 1 if lines.line_buffered else 1024
        for block in streams.all_blocks(names, common.encoding_errors):
            for start in range(0, len(block.lines), size):
                queries = block.lines[start : start + size]
                filled = [query for query in queries if query]
                answers = iter(ask(filled))
                found = [(query, next(answers) if query else None) for query in queries]
                asked += len(filled)
                missing += sum(answer is not None and answer.neighbors is None for _, answer in found)
                show = _json if neighbors.json else _fields
                out.write_lines([show(query, answer) for query, answer in found])
    if missing:
        messages.warn(f"{missing:,} of {asked:,} queries have words without a vector")


def _fields(query: str, answer: Answer | None) -> str:
    from nlptools.line_records import escape

    pairs = answer.neighbors or [] if answer is not None else []
    return "\t".join([escape(query), *(f"{escape(word)}\t{score:.4f}" for word, score in pairs)])


def _json(query: str, answer: Answer | None) -> str:
    import json

    record: dict[str, object] = {"query": query, "neighbors": []}
    if answer is not None:
        record["neighbors"] = [[word, round(score, 6)] for word, score in answer.neighbors or []]
        if answer.unknown:
            record["unknown"] = list(answer.unknown)
    return json.dumps(record, ensure_ascii=False)
