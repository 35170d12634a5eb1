"""nlptools neighbors: the nearest words of words and expressions, the nearest lines of lines and of vectors."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import click

from nlptools.cli.input_shares import leave_if_done, remaining_lines, shard_of
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, LineOutput
from nlptools.configs.shares import Shares
from nlptools.configs.vectors import Neighbors
from nlptools.errors import DataError, UsageError

if TYPE_CHECKING:
    from nlptools.arrays import Floats
    from nlptools.files.streams import LineBlock
    from nlptools.inference.uses import Embeds
    from nlptools.vectors.nearest import NearestWords, SearchesVectors
    from nlptools.vectors.table import Vectors

_NUMBERS = {
    "euclidean": "the numbers are Euclidean distances, the smallest first",
    "dot": "the numbers are dot products",
}


@make_command(
    "neighbors",
    Neighbors,
    Shares,
    LineOutput,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("vectors", type=click.Path())
@filter_inputs
def command(
    vectors: str, inputs: tuple[str, ...], neighbors: Neighbors, shares: Shares, lines: LineOutput, common: Common
) -> None:
    """Find the nearest words of words and expressions, or the nearest lines of a text.

    VECTORS is a file of word vectors, a directory from convert, the vectors that embed writes for the lines of a text,
    or, with --corpus, a model.
    """
    neighbors.check()
    from nlptools import messages
    from nlptools.files import input_parts, streams

    if vectors == "-" and (not inputs or "-" in inputs):
        raise UsageError("VECTORS and the queries cannot both come from standard input")
    streams.check_inputs(inputs, [] if neighbors.corpus is None else [neighbors.corpus])
    names, layout, append = _remaining(inputs, neighbors.to, shares, lines.output)
    if neighbors.metric != "cosine":
        messages.note(_NUMBERS[neighbors.metric])
    read = input_parts.lines_before(inputs, names) if neighbors.to == "tsv" else 0
    answered, missing = 0, 0
    with contextlib.ExitStack() as stack:
        table, embedder = _opened(vectors, neighbors, common.encoding_errors, stack)
        search = _search(table, neighbors)
        out = stack.enter_context(
            streams.LineWriter(
                lines.output, force=lines.force, line_buffered=lines.line_buffered, layout=layout, append=append
            )
        )
        for part in streams.batches(names, 1 if lines.line_buffered else 1024, common.encoding_errors):
            answers = _answers(table, part, neighbors, embedder, search)
            answered += sum(answer is not None for _, answer in answers)
            missing += sum(answer is not None and answer.neighbors is None for _, answer in answers)
            if neighbors.to == "tsv":
                out.write_lines(_rows(table, answers, read))
            else:
                more = {} if neighbors.metric == "cosine" else {"metric": neighbors.metric}
                show = partial(_json, more=more) if neighbors.to == "jsonl" else _fields
                out.write_lines([show(query, answer) for query, answer in answers])
            read += len(answers)
    if embedder is not None:
        embedder.finish()
    search.finish()
    if missing:
        why = (
            "have words without a vector"
            if table.noun == "word"
            else "are no line of the text: --model embeds any text"
        )
        messages.warn(f"{missing:,} of {answered:,} queries {why}")


def _remaining(inputs: tuple[str, ...], to: str, shares: Shares, output: str) -> tuple[list[str], str, bool]:
    """The queries that remain, the layout of the output, and whether it is continued. With --to tsv, a query has several rows
    or none.
    """
    if to == "tsv":
        leave_if_done(shares, output)
        return shard_of(inputs, shares), "table", False
    return remaining_lines(inputs, shares, output), to, shares.skip_done


def _opened(
    vectors: str, settings: Neighbors, errors: str, stack: contextlib.ExitStack
) -> tuple[Vectors, Embeds | None]:
    """The searched vectors, and the model that turns queries into vectors, if any.

    Raises UsageError if the two have vectors of different lengths.
    """
    model = vectors if settings.corpus is not None else settings.model
    if model is None:
        return _loaded(vectors, settings, errors), None
    from nlptools.configs.embed import Embed
    from nlptools.inference.loading import load

    if settings.corpus is not None:
        from nlptools.inference.embedding.lines import searchable

        embedder = load(model, settings=Embed(), errors=errors)
        return stack.enter_context(searchable(embedder, settings.corpus, errors)), embedder
    table, embedder = _loaded(vectors, settings, errors), load(model, settings=Embed(), errors=errors)
    if embedder.dimensions != table.dimensions:
        message = f"the vectors of {model} have {embedder.dimensions} dimensions, the vectors of {table.path} {table.dimensions}"
        raise UsageError(message, hint="embed the queries with the options of VECTORS, and search with --embedded")
    return table, embedder


def _search(table: Vectors, settings: Neighbors) -> SearchesVectors:
    """The search for queries that are vectors."""
    if settings.index is not None:
        from nlptools.vectors.graph_index import GraphIndex

        return GraphIndex.opened(settings.index, table, settings.metric)
    from nlptools.vectors.nearest import ExactSearch

    return ExactSearch(table, settings.metric, settings.restrict)


def _loaded(vectors: str, settings: Neighbors, errors: str) -> Vectors:
    from nlptools.vectors.files.formats import load_to_search

    return load_to_search(vectors, settings.source_format, errors, settings.lines_file)


def _answers(
    table: Vectors, block: LineBlock, settings: Neighbors, embedder: Embeds | None, search: SearchesVectors
) -> list[tuple[str, NearestWords | None]]:
    """Each query and its answer; None for empty lines."""
    from nlptools.vectors.nearest import NearestWords, neighbors

    result: list[tuple[str, NearestWords | None]] = [(line, None) for line in block.lines]
    filled = [number for number, line in enumerate(block.lines) if line]
    queries = [block.lines[number] for number in filled]
    if not queries:
        return result
    if settings.embedded or embedder is not None:
        if embedder is not None:
            rows = embedder.embed(queries)
        else:
            numbers = [block.start + number for number in filled]
            queries, rows = _embedded(queries, block.path, numbers, table.dimensions)
        answers = [NearestWords(words) for words in search.nearest_to(rows, settings.neighbors)]
    else:
        answers = neighbors(
            table,
            queries,
            settings.neighbors,
            method=settings.method,
            metric=settings.metric,
            restrict=settings.restrict,
        )
    for number, query, answer in zip(filled, queries, answers, strict=True):
        result[number] = query, answer
    return result


def _embedded(lines: list[str], path: str, numbers: list[int], dimensions: int) -> tuple[list[str], Floats]:
    """The texts of JSON lines, and their vectors (N, D). Raises DataError."""
    import numpy as np

    from nlptools.vectors.files.json_lines import parse_record

    records = [parse_record(line, path, number) for number, line in zip(numbers, lines, strict=True)]
    for number, (_, row) in zip(numbers, records, strict=True):
        if len(row) != dimensions:
            message = f"expected {dimensions} numbers, as in VECTORS, found {len(row)}"
            raise DataError(message, path=path, line=number)
    return [text for text, _ in records], np.stack([row for _, row in records])


def _fields(query: str, answer: NearestWords | None) -> str:
    from nlptools.files.line_records import escape

    pairs = answer.neighbors or [] if answer is not None else []
    return "\t".join([escape(query), *(f"{escape(word)}\t{score:.4f}" for word, score in pairs)])


def _rows(table: Vectors, answers: list[tuple[str, NearestWords | None]], before: int) -> list[str]:
    """A line for each neighbor of the answers to some queries, which come after `before` others."""
    from nlptools.files.line_records import escape

    found = [(number, answer.neighbors or []) for number, (_, answer) in enumerate(answers, before + 1) if answer]
    places = table.words.find({word for _, pairs in found for word, _ in pairs})
    return [
        f"{number}\t{rank}\t{table.origin(places[word]) + 1}\t{score:.4f}\t{escape(word)}"
        for number, pairs in found
        for rank, (word, score) in enumerate(pairs, 1)
    ]


def _json(query: str, answer: NearestWords | None, more: Mapping[str, str]) -> str:
    import json

    record: dict[str, object] = {"query": query, **more, "neighbors": []}
    if answer is not None:
        record["neighbors"] = [[word, round(score, 6)] for word, score in answer.neighbors or []]
        if answer.unknown:
            record["unknown"] = list(answer.unknown)
    return json.dumps(record, ensure_ascii=False)
