"""nlptools embed: lines, words or tokens to vectors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from nlptools.cli.options import command as make_command
from nlptools.cli.options import inputs_argument
from nlptools.configs import Common, Compute, Lines
from nlptools.configs.embed import Embed, EmbedWords

if TYPE_CHECKING:
    from nlptools.files.streams import Block

_WINDOW = 8192  # lines sorted by length together


@make_command(
    "embed",
    Embed,
    EmbedWords,
    Compute,
    Lines,
    formats="""The output has one vector for each input line, in order; an empty line has the vector of the model's special
tokens. npy: one numpy array, whose header is completed at the end, with the lines in NAME.vocab.tsv; on a pipe, consecutive
arrays, one for every window of lines, which neighbors and project read as one. jsonl: {"text", "embedding"} on each line. tsv:
the line and its numbers, separated by tabs. word2vec: the text format of word2vec. --unit token writes {"text", "tokens",
"vectors"} for each line, --unit word {"text", "words", "vectors"}; as npy, the vectors of all lines are in one array, and
--index FILE has a line for each vector: line number, number of the token or word in its line (both from 1), and the token or
word, separated by tabs. Special tokens are left out.""",
    examples=(
        ("Write vectors of lines for numpy:", "nlptools embed minilm/ sentences.txt -o sentences.npy"),
        (
            "Search a file by meaning, with any text as query:",
            "nlptools embed minilm/ notes.txt -o notes.npy && nlptools neighbors notes.npy --model minilm/",
        ),
        ("Draw a map of lines:", "nlptools embed minilm/ lines.txt --to jsonl | nlptools project - -o map.html"),
        (
            "Write vectors of words, the concatenation of the last four layers:",
            "nlptools embed bert/ --unit word --layers concat:-4: --to jsonl < lines.txt",
        ),
        ("Average word vectors:", "nlptools embed vectors.txt lines.txt --to tsv"),
    ),
    exit_codes=(0, 2, 65, 66, 69, 73, 74, 78, 130, 141, 143),
)
@click.argument("model", type=click.Path())
@inputs_argument
def command(
    model: str,
    inputs: tuple[str, ...],
    embed: Embed,
    embedwords: EmbedWords,
    compute: Compute,
    lines: Lines,
    common: Common,
) -> None:
    """Turn lines, words or tokens into vectors.

    MODEL is the directory of a BERT, an ELECTRA, a sentence-transformers model or a language model, or a file of word
    vectors. The vector of a line does not depend on the lines that are read with it, except for rounding: up to about
    3e-7 per component in fp32 and 4e-3 in bf16, of vectors of length 1. Word vectors are the same to the last bit.
    """
    embed.check()
    from nlptools.files import streams
    from nlptools.files.prefetch import one_ahead
    from nlptools.inference.loading import load

    names = streams.check_inputs(inputs)
    _check_outputs(embed, lines)
    embedder = load(model, compute=compute, settings=embed, words=embedwords, errors=common.encoding_errors)
    windows = _windows(streams.all_blocks(names, common.encoding_errors), 1 if lines.line_buffered else _WINDOW)
    prepared = one_ahead((texts, embedder.prepare(texts)) for texts in windows)
    options: dict[str, Any] = {"dtype": embed.dtype, "force": lines.force, "line_buffered": lines.line_buffered}
    output = (lines.output, embed.to, embedder.dimensions)
    if embed.unit == "sentence":
        from nlptools.vectors.files.array_writer import ArrayWriter

        with ArrayWriter(*output, **options) as array:
            for texts, ready in prepared:
                array.write(embedder.embed(texts, ready), texts)
    else:
        from nlptools.inference.embedding.unit_writer import UnitWriter

        with UnitWriter(*output, embed.unit, index=embed.index, **options) as units:
            for texts, ready in prepared:
                units.write(embedder.embed_units(texts, ready), texts)
    embedder.finish()


def _check_outputs(embed: Embed, lines: Lines) -> None:
    """Raise OutputError for an output file that exists, and UsageError for binary data to a terminal, before loading a model."""
    import os

    from nlptools.errors import OutputError, UsageError, display
    from nlptools.files.compression import SUFFIXES
    from nlptools.vectors.files.npy import words_beside

    if embed.to == "npy" and lines.output == "-" and os.isatty(1):
        raise UsageError("npy is binary: not written to a terminal", hint="-o FILE, a pipe, or --to jsonl or tsv")
    names = [lines.output, embed.index]
    is_array = embed.to == "npy" and embed.unit == "sentence" and not lines.output.endswith(SUFFIXES)
    if is_array and lines.output != "-" and (os.path.isfile(lines.output) or not os.path.exists(lines.output)):
        names.append(words_beside(lines.output))
    for name in names:
        if name not in (None, "-") and os.path.isfile(name) and not lines.force:
            raise OutputError(f"{display(name)}: exists", hint="--force replaces it")


def _windows(blocks: Iterable[Block], size: int) -> Iterator[list[str]]:
    """The lines of the blocks in order, at most `size` at a time, each block in parts of nearly equal size."""
    for block in blocks:
        parts = -(-len(block.lines) // size)
        for i in range(parts):
            yield block.lines[len(block.lines) * i // parts : len(block.lines) * (i + 1) // parts]
