"""nlptools embed: lines, words or tokens to vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from nlptools.cli.input_shares import leave_if_done, refuse_tables, remaining_lines, shard_of
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, Compute, LineOutput
from nlptools.configs.embed import Embed, EmbedWords
from nlptools.configs.shares import Shares
from nlptools.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nlptools.files.streams import LineBlock
    from nlptools.inference.embedding.hdf5_writer import Hdf5Writer
    from nlptools.inference.embedding.unit_writer import UnitWriter
    from nlptools.inference.uses import Embeds


@make_command(
    "embed",
    Embed,
    EmbedWords,
    Compute,
    Shares,
    LineOutput,
    opens_models=True,
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@filter_inputs
def command(
    model: str,
    inputs: tuple[str, ...],
    embed: Embed,
    embedwords: EmbedWords,
    compute: Compute,
    shares: Shares,
    lines: LineOutput,
    common: Common,
) -> None:
    """Turn lines, words or tokens into vectors.

    MODEL is a directory (BERT, ELECTRA, sentence-transformers, ELMo, language model, encoder-decoder) or a file of word vectors.
    Vectors do not depend on the other lines, except for rounding: up to about 3e-7 per component in fp32 and 4e-3 in
    bf16, for vectors of length 1. With word vectors, they are the same to the last bit.
    """
    embed = embed.for_output(lines.output)
    embed.check()
    from nlptools.corpora import text_lines
    from nlptools.files import progress, streams
    from nlptools.inference.embedding.lines import WINDOW
    from nlptools.inference.loading import load

    tables = bool(embed.text_column) or embed.delimiter is not None
    by_line = embed.similarity or (embed.unit == "sentence" and embed.to in ("jsonl", "tsv"))
    if tables or not embed.similarity:  # without columns, the lines of --similarity have both texts
        refuse_tables(shares, inputs, tables)
    if by_line:
        names = remaining_lines(inputs, shares, lines.output)
    else:
        leave_if_done(shares, lines.output, embed.index)
        names = shard_of(inputs, shares)
    append = by_line and shares.skip_done
    if not embed.similarity and not append:
        _check_outputs(embed, lines)
    asked = embed if embed.similarity else replace(embed, quantize=None)  # rounded with the first lines
    embedder = load(model, compute=compute, settings=asked, words=embedwords, errors=common.encoding_errors)
    size = 1 if lines.line_buffered else WINDOW
    if embed.similarity and not embed.text_column:
        blocks = streams.all_blocks(names, common.encoding_errors)  # a line has both texts
    else:
        blocks = text_lines.blocks(names, common.encoding_errors, embed.text_column, embed.delimiter)
    windows = _windows(embedder, blocks, size, embed.quantize)
    how: dict[str, Any] = {"force": lines.force, "line_buffered": lines.line_buffered, "append": append}
    if embed.similarity:
        _write_cosines(embedder, blocks, -(-size // 2), lines.output, how)
    elif embed.unit == "sentence":
        from nlptools.vectors.files.array_writer import ArrayWriter

        with ArrayWriter(lines.output, embed.to, embedder.dimensions, embed.dtype, keep_lines=False, **how) as array:
            for texts, ready in windows:
                array.write(embedder.embed(texts, ready), texts)
                progress.done(len(texts))
    else:
        with _unit_writer(embed, lines, embedder.dimensions) as units:
            for texts, ready in windows:
                units.write(embedder.embed_units(texts, ready), texts)
                progress.done(len(texts))
    embedder.finish()


def _write_cosines(embedder: Embeds, blocks: Iterable[LineBlock], size: int, output: str, how: dict[str, Any]) -> None:
    """The cosine of the texts of each line, `size` lines at a time."""
    from nlptools.files import progress, streams
    from nlptools.inference.embedding.lines import cosines

    with streams.LineWriter(output, **how) as out:
        for numbers in cosines(embedder, blocks, size):
            out.write_lines(["" if number is None else f"{number:.6f}" for number in numbers])
            progress.done(len(numbers))


def _windows(
    embedder: Embeds, blocks: Iterable[LineBlock], size: int, weights: str | None
) -> Iterator[tuple[list[str], Any]]:
    """As `lines.prepared`; before the first lines, the model is rounded to `weights` if given, and compared on them."""
    from nlptools.inference.embedding.lines import prepared

    if weights is None:
        return prepared(embedder, blocks, size)
    from nlptools.inference.quantization import check, compared

    check(embedder, weights)  # before anything is read
    return compared(embedder, weights, prepared(embedder, blocks, size))


def _unit_writer(embed: Embed, lines: LineOutput, dimensions: int) -> Hdf5Writer | UnitWriter:
    if embed.to == "hdf5":
        from nlptools.inference.embedding.hdf5_writer import Hdf5Writer

        return Hdf5Writer(lines.output)
    from nlptools.inference.embedding.unit_writer import UnitWriter

    return UnitWriter(
        lines.output,
        embed.to,
        dimensions,
        embed.unit,
        dtype=embed.dtype,
        index=embed.index,
        force=lines.force,
        line_buffered=lines.line_buffered,
    )


def _check_outputs(embed: Embed, lines: LineOutput) -> None:
    """Raise OutputError for an output file that exists, and UsageError for binary data to a terminal, before loading a model."""
    from nlptools.vectors.files.formats import check_target

    if embed.to == "hdf5":
        from nlptools.inference.embedding.hdf5_writer import check_package

        check_package()
        if lines.output == "-":
            raise UsageError("--to hdf5 needs --output FILE: it cannot go to standard output")
    check_target(lines.output, embed.to, lines.force, lines_beside=False, streamed=True)
    if embed.index is not None:
        check_target(embed.index, "tsv", lines.force, streamed=True)
