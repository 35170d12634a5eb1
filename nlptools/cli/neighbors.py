"""nlptools neighbors: the nearest words of words and expressions, the nearest lines of lines and of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common, Lines
from nlptools.configs.vectors import Neighbors
from nlptools.errors import DataError, UsageError

if TYPE_CHECKING:
    from nlptools.files.streams import Block
    from nlptools.inference.embedding.contract import Embedder
    from nlptools.vectors.nearest import Answer
    from nlptools.vectors.table import Vectors


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
with the words in NAME.vocab.tsv, .jsonl JSON lines as nlptools-embed(1) writes them, a directory what nlptools-convert(1)
makes. Standard input (-, the queries are then in files) and pipes are JSON lines if they begin with {, arrays of npy one
behind the other if they begin with the first byte of these, else text of word2vec. Binary files and arrays in files are
mapped and not read into memory; with --restrict no more of them is read than the words of the queries and the first N, and
damage behind these is not told.

What nlptools-embed(1) makes of a text is such a file, in which lines are the words: a line that stands in it is a query, and
gets the lines nearest to it. Of equal lines the first stands for all. Other texts must become vectors: by --model, or, where
nlptools-embed(1) needs options, by itself, and --embedded takes what it writes. Both must be by the model and options that
made VECTORS. A query is then no expression, and may be among its own answers. An array without NAME.vocab.tsv has its lines
in --lines FILE; what a pipe brings may have none, and its rows have numbers from 0.""",
    examples=(
        ("The nearest words of a word:", "echo king | nlptools neighbors vectors.bin -k 5"),
        ("An analogy:", "echo 'king - man + woman' | nlptools neighbors glove.6B.300d.txt --method mul"),
        ("Words that have no vector:", "nlptools neighbors vectors.vec -k 1 words.txt | awk -F'\\t' 'NF == 1'"),
        (
            "Search by meaning, in a text that becomes vectors once:",
            "nlptools embed minilm/ notes.txt -o notes.npy; "
            "echo 'how do I get a refund?' | nlptools neighbors notes.npy --model minilm/ -k 5",
        ),
        (
            "With options for the queries:",
            "nlptools embed e5/ --prompt 'query: ' --to jsonl questions.txt | nlptools neighbors notes.npy --embedded",
        ),
        ("One neighbor per line:", "nlptools neighbors model.bin --json words.txt | jq -c '.neighbors[]'"),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("vectors", type=click.Path())
@inputs_argument
def command(vectors: str, inputs: tuple[str, ...], neighbors: Neighbors, lines: Lines, common: Common) -> None:
    """Find the nearest words of words and of expressions.

    VECTORS is a file of word vectors, a directory that convert made, or what embed made of the lines of a text.
    """
    from nlptools import messages
    from nlptools.files import streams

    if neighbors.embedded and neighbors.model is not None:
        raise UsageError("--embedded: the queries have vectors already, --model would make others")
    if (neighbors.embedded or neighbors.model is not None) and neighbors.method != "add":
        raise UsageError("--method is for expressions, which --embedded and --model do not take")
    if vectors == "-" and (not inputs or "-" in inputs):
        raise UsageError("VECTORS and the queries cannot both come from standard input")
    names = streams.check_inputs(inputs)
    from nlptools.vectors.files.formats import load_to_search

    table = load_to_search(vectors, neighbors.source_format, common.encoding_errors, neighbors.lines_file)
    embedder = None if neighbors.model is None else _embedder(neighbors.model, table, common.encoding_errors)
    asked, missing = 0, 0
    with streams.Output(lines.output, force=lines.force, line_buffered=lines.line_buffered) as out:
        size = 1 if lines.line_buffered else 1024
        for block in streams.all_blocks(names, common.encoding_errors):
            for start in range(0, len(block.lines), size):
                part = streams.Block(block.path, block.start + start, block.lines[start : start + size])
                found = _ask(table, part, neighbors, embedder)
                asked += sum(answer is not None for _, answer in found)
                missing += sum(answer is not None and answer.neighbors is None for _, answer in found)
                show = _json if neighbors.json else _fields
                out.write_lines([show(query, answer) for query, answer in found])
    if embedder is not None:
        embedder.finish()
    if missing:
        messages.warn(f"{missing:,} of {asked:,} queries have words without a vector")


def _embedder(model: str, table: Vectors, errors: str) -> Embedder:
    """What turns queries into vectors. Raises UsageError if these are no match for the table's."""
    from nlptools.configs.embed import Embed
    from nlptools.inference.loading import load

    embedder = load(model, settings=Embed(), errors=errors)
    if embedder.dimensions != table.dimensions:
        raise UsageError(
            f"{model} has {embedder.dimensions} dimensions, {table.path} has {table.dimensions}",
            hint="embed the queries with the same options as the lines, and search with --embedded",
        )
    return embedder


def _ask(
    table: Vectors, block: Block, settings: Neighbors, embedder: Embedder | None
) -> list[tuple[str, Answer | None]]:
    """Each query and its answer; empty lines have none."""
    from nlptools.vectors.nearest import Answer, nearest_to, neighbors

    asked: list[tuple[str, Answer | None]] = [(line, None) for line in block.lines]
    filled = [number for number, line in enumerate(block.lines) if line]
    queries = [block.lines[number] for number in filled]
    if not queries:
        return asked
    if settings.embedded or embedder is not None:
        if embedder is not None:
            rows = embedder.embed(queries)
        else:
            numbers = [block.start + number for number in filled]
            queries, rows = _embedded(queries, block.path, numbers, table.dimensions)
        nearest = nearest_to(table, rows, settings.neighbors, restrict=settings.restrict)
        answers = [Answer(found) for found in nearest]
    else:
        answers = neighbors(table, queries, settings.neighbors, method=settings.method, restrict=settings.restrict)
    for number, query, answer in zip(filled, queries, answers, strict=True):
        asked[number] = query, answer
    return asked


def _embedded(lines: list[str], path: str, numbers: list[int], dimensions: int) -> tuple[list[str], Any]:
    """The texts in JSON lines, and their vectors (N, D). Raises DataError."""
    import numpy as np

    from nlptools.vectors.files.array_reader import parse_record

    records = [parse_record(line, path, number) for number, line in zip(numbers, lines, strict=True)]
    for number, (_, row) in zip(numbers, records, strict=True):
        if len(row) != dimensions:
            told = f"expected {dimensions} numbers, as the vectors have, found {len(row)}"
            raise DataError(told, path=path, line=number)
    return [text for text, _ in records], np.stack([row for _, row in records])


def _fields(query: str, answer: Answer | None) -> str:
    from nlptools.files.line_records import escape

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
