"""nlptools phrases: join words that belong together."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from nlptools.cli.input_shares import refuse_tables, remaining_lines
from nlptools.cli.options import command as make_command
from nlptools.cli.options import filter_inputs
from nlptools.configs import Common, LineOutput
from nlptools.configs.sequences import ENGLISH, MAX_VOCAB, MIN_COUNT, THRESHOLDS, Phrases
from nlptools.configs.shares import Shares
from nlptools.errors import UsageError

if TYPE_CHECKING:
    from nlptools.files.streams import LineBlock
    from nlptools.sequences.phrases import Rule


@make_command(
    "phrases",
    Phrases,
    Shares,
    LineOutput,
    exit_codes=(0, 2, 65, 66, 73, 74, 78, 130, 141, 143),
)
@filter_inputs
def command(inputs: tuple[str, ...], phrases: Phrases, shares: Shares, lines: LineOutput, common: Common) -> None:
    """Join words that belong together into one token, such as new_york.

    Reads the inputs one after the other, or standard input, finds words that occur together more often than by chance,
    and writes one line per line.
    """
    _check(phrases, shares)
    rule = None if phrases.model else _rule(phrases)
    from nlptools.corpora import text_lines
    from nlptools.files import streams
    from nlptools.sequences import phrase_file
    from nlptools.sequences.phrases import join, learn_and_join

    refuse_tables(shares, inputs)
    blocks = text_lines.blocks(remaining_lines(inputs, shares, lines.output), common.encoding_errors)
    if rule is None:
        models = phrase_file.load(phrases.model or "", phrases.scoring, phrases.threshold)
        with streams.LineWriter(lines.output, force=lines.force, append=shares.skip_done) as output:
            for text in join(_single(blocks) if lines.line_buffered else blocks, models):
                output.write(text)
        return
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(streams.LineWriter(lines.output, force=lines.force))
        learned = None
        if phrases.save is not None:
            kept = stack.enter_context(streams.LineWriter(phrases.save, force=lines.force))
            learned = functools.partial(phrase_file.save, kept)
        limit = MAX_VOCAB if phrases.max_vocab is None else phrases.max_vocab
        for text in learn_and_join(blocks, rule, phrases.passes or 1, limit, learned):
            output.write(text)


def _single(blocks: Iterator[LineBlock]) -> Iterator[LineBlock]:
    """Blocks of one line."""
    return (
        block._replace(start=block.start + i, lines=[line]) for block in blocks for i, line in enumerate(block.lines)
    )


def _check(phrases: Phrases, shares: Shares) -> None:
    """Raise UsageError for options that exclude each other."""
    if (shares.shard or shares.skip_done) and not phrases.model:
        raise UsageError("--shard and --skip-done need --model: phrases are learned from the whole text")
    if phrases.save == "-":
        raise UsageError("--save needs a file: standard output is for the text")


def _rule(phrases: Phrases) -> Rule:
    """The rule of the options. Raises UsageError, and InputError for the file of connectors."""
    from nlptools.sequences.phrases import Rule

    scoring = phrases.scoring or "default"
    return Rule(
        scoring,
        THRESHOLDS[scoring] if phrases.threshold is None else phrases.threshold,
        MIN_COUNT if phrases.min_count is None else phrases.min_count,
        "_" if phrases.delimiter is None else phrases.delimiter,
        _connectors(phrases.connectors),
    )


def _connectors(value: str | None) -> tuple[str, ...]:
    """The words of --connectors: a list with commas, a file, or "english"."""
    if not value:
        return ()
    if value == "english":
        return ENGLISH
    if "," not in value and (os.sep in value or os.path.exists(value)):
        from nlptools.files import streams

        words = [line.strip(" \t") for line in streams.lines(value)]
    else:
        words = [word.strip() for word in value.split(",")]
    return tuple(dict.fromkeys(word for word in words if word))
