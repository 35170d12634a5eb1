"""Tokenization of text and its inverse: the command tokenize."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from nlptools import messages
from nlptools.configs.combinations import check_combinations
from nlptools.configs.text import Tokenize
from nlptools.environment import available_threads
from nlptools.errors import DataError, UsageError
from nlptools.files import streams
from nlptools.files.streams import LineBlock
from nlptools.text import tokenizer as tokenizers
from nlptools.text.east_asian import tokenizer_for
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import Tokenizer

_SHARE_BYTES = 1 << 18  # text per work item of a thread


def tokenize(
    lines: Iterable[str | LineBlock],
    tokenizer: str | Path | Tokenizer = "words",
    settings: Tokenize | None = None,
    before: int = 0,
) -> Iterator[str]:
    """The tokens or ids of each line, separated by single spaces; or, with `settings.decode`, the text of each.

    Args:
        lines: lines without their ends, or blocks of them (`streams.blocks`).
        tokenizer: a tokenizer, or the name or path of one; `settings.tokenizer` is ignored.
        settings: see `nlptools tokenize --help`.
        before: number of lines before these, for the seeds of --sample.

    Yields:
        One string per item of `lines`; for a block, its lines joined by newlines, without a newline at the end.

    Raises:
        UsageError: a setting that the tokenizer does not support.
        DataError: an id or token that the tokenizer does not have, with file and line.
    """
    settings = settings or Tokenize()
    if isinstance(tokenizer, (str, Path)):
        tokenizer = tokenizers.load(tokenizer, settings.vocab, settings.lowercase)
    work = _decoder(tokenizer, settings) if settings.decode else _encoder(tokenizer, settings, before)
    return _each(lines, work)


def tokenize_files(
    inputs: Sequence[str],
    settings: Tokenize,
    errors: str = "strict",
    single: bool = False,
    blocks: Iterable[LineBlock] | None = None,
    before: int = 0,
) -> Iterator[str]:
    """Like `tokenize`, for files (`-`: standard input) and the tokenizer of `settings`; yields one string per block of lines.

    Args:
        errors: handling of invalid UTF-8: "strict", "replace" or "ignore".
        single: yield one string per line.
        blocks: the text, if it is not the lines of the inputs.
        before: number of lines before these inputs, for the seeds of --sample.
    """
    check_combinations(settings)
    paths = streams.check_inputs(inputs)
    tokenizer = tokenizers.load(settings.tokenizer, settings.vocab, settings.lowercase)
    lines = blocks is None
    blocks = blocks or chain.from_iterable(streams.blocks(path, errors) for path in paths)
    if single:
        blocks = (LineBlock(b.path, b.start + i, [line]) for b in blocks for i, line in enumerate(b.lines))
    elif (
        lines
        and isinstance(tokenizer, SentencePiece)
        and not settings.decode
        and settings.sample is None  # which counts the lines
        and _are_long_files(paths)
    ):
        tokenizer.expect_many()
        blocks = chain.from_iterable(streams.blocks(path, errors, _SHARE_BYTES) for path in paths)
        threads = settings.threads or available_threads()
        return _side_by_side(blocks, _encoder(tokenizer, replace(settings, threads=1)), threads)
    return tokenize(_watched(blocks, tokenizer), tokenizer, settings, before)


def _watched(blocks: Iterable[LineBlock], tokenizer: Tokenizer) -> Iterator[LineBlock]:
    """`blocks`; warns if the first one has text in a script that the tokenizer does not split."""
    for number, block in enumerate(blocks):
        if not number and tokenizer.kind in ("words", "13a", "intl") and (better := tokenizer_for(block.lines)):
            messages.warn(f"{tokenizer.kind} does not split Chinese, Japanese and Korean; use {better} or char")
        yield block


def _are_long_files(paths: Sequence[str]) -> bool:
    """Whether all inputs are regular files, long enough together for several threads; a pipe must not be read ahead."""
    return all(os.path.isfile(path) for path in paths) and sum(map(os.path.getsize, paths)) > 4 * streams.BLOCK_BYTES


def _side_by_side(blocks: Iterable[LineBlock], work: Callable[[LineBlock], str], threads: int) -> Iterator[str]:
    """`work` of each block, in order, in `threads` threads.

    The package releases the GIL while it tokenizes, so that the ids of another block are formatted meanwhile; and a pool
    costs less than the threads that the package would start for every block.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    with ThreadPoolExecutor(threads) as pool:
        pending: list[Future[str]] = []
        for block in blocks:
            pending.append(pool.submit(work, block))
            if len(pending) > threads + 1:
                yield pending.pop(0).result()
        for future in pending:
            yield future.result()


def _each(lines: Iterable[str | LineBlock], work: Callable[[LineBlock], str]) -> Iterator[str]:
    for number, item in enumerate(lines, 1):
        yield work(item if isinstance(item, LineBlock) else LineBlock("<text>", number, [item]))


def _encoder(tokenizer: Tokenizer, settings: Tokenize, lines_before: int = 0) -> Callable[[LineBlock], str]:
    """The function from a block of text to a block of tokens or ids."""
    ids, threads = settings.to == "ids", settings.threads or available_threads()
    if ids and tokenizer.vocab is None:
        raise UsageError(f"the tokenizer '{tokenizer.kind}' has no vocabulary", hint="give it a --vocab FILE")
    before, after = _marks(tokenizer, settings)
    if settings.sample is not None or settings.nbest:
        segment = _segmenter(tokenizer, settings, lines_before)
        return lambda block: "\n".join(
            "\t".join([" ".join([*before, *map(str, row), *after]) for row in segment(line)]) for line in block.lines
        )
    if isinstance(tokenizer, SentencePiece) and not before and not after:
        fast = tokenizer.text_of_ids if ids else tokenizer.text_of_pieces
        return lambda block: fast(block.lines, threads)

    def encode(block: LineBlock) -> str:
        try:
            rows: list[list[str]]
            if ids:
                rows = [list(map(str, row)) for row in tokenizer.encode_lines(block.lines, threads)]
            else:
                rows = tokenizer.tokens_lines(block.lines, threads)
        except DataError as error:
            raise _placed(error, block, lambda line: tokenizer.encode(line)) from None
        return "\n".join([" ".join([*before, *row, *after]) for row in rows])

    return encode


def _marks(tokenizer: Tokenizer, settings: Tokenize) -> tuple[list[str], list[str]]:
    """The tokens or ids to add before and after a line: lists of one or none."""
    vocab = tokenizer.vocab
    marks: tuple[list[str], list[str]] = ([], [])
    requests = ((settings.bos, ("bos", "cls"), "beginning"), (settings.eos, ("eos", "sep"), "end"))
    for mark, (requested, roles, place) in zip(marks, requests):
        if not requested:
            continue
        ids = [] if vocab is None else [vocab.roles[role] for role in roles if role in vocab.roles]
        if vocab is None or not ids:
            raise UsageError(f"--{roles[0]}: this tokenizer has no token for the {place} of a sentence")
        mark.append(str(ids[0]) if settings.to == "ids" else vocab.token(ids[0]))
    return marks


def _segmenter(tokenizer: Tokenizer, settings: Tokenize, before: int) -> Callable[[str], Sequence[Sequence[int | str]]]:
    """The function from a line to its segmentations: a random one, or the best ones; `before` is the number of lines before."""
    if not isinstance(tokenizer, SentencePiece):
        raise UsageError(f"{'--nbest' if settings.nbest else '--sample'} needs a SentencePiece model")
    ids, alpha, count = settings.to == "ids", settings.sample, before
    if alpha is None:
        return lambda line: tokenizer.nbest(line, settings.nbest, ids)

    def sample(line: str) -> Sequence[Sequence[int | str]]:
        nonlocal count
        count += 1
        # one generator per input line, so that the result does not depend on blocks and threads
        pieces = tokenizer.sample(line, alpha, random.Random(f"{settings.seed} {count}"))
        return [tokenizer.ids_of(pieces) if ids else pieces]

    return sample


def _decoder(tokenizer: Tokenizer, settings: Tokenize) -> Callable[[LineBlock], str]:
    """The function from a block of tokens or ids to a block of text."""
    if settings.to == "ids":
        if tokenizer.vocab is None:
            raise UsageError(f"the tokenizer '{tokenizer.kind}' has no vocabulary", hint="give it a --vocab FILE")
        size = len(tokenizer.vocab)
    threads = settings.threads or available_threads()

    def decode(block: LineBlock) -> str:
        if settings.to == "ids":
            rows = [_ids(line, size, block.path, number) for number, line in enumerate(block.lines, block.start)]
            if isinstance(tokenizer, SentencePiece):
                texts = tokenizer.decode_lines(rows, threads)
            else:
                texts = [tokenizer.decode(row) for row in rows]
        else:
            try:
                texts = [tokenizer.decode_tokens([t for t in line.split(" ") if t]) for line in block.lines]
            except DataError as error:
                raise _placed(error, block, lambda line: tokenizer.decode_tokens(line.split())) from None
        return "\n".join([_one_line(text) if "\n" in text else text for text in texts])

    return decode


def _ids(line: str, size: int, path: str, number: int) -> list[int]:
    """The ids of a line. Raises DataError."""
    try:
        ids = list(map(int, line.split()))
    except ValueError:
        ids = [-1]
    if ids and not (0 <= min(ids) <= max(ids) < size and line.isascii() and "_" not in line and "+" not in line):
        invalid = next(
            (w for w in line.split() if not (w.isascii() and w.isdigit() and len(w) < 19 and int(w) < size)), line
        )
        raise DataError(f"not an id: {invalid[:40]!r}, expected a number from 0 to {size - 1}", path=path, line=number)
    return ids


def _one_line(text: str) -> str:
    messages.warn("line ends inside a decoded text became spaces", kind="line ends inside a decoded text", most=1)
    return text.replace("\n", " ")


def _placed(error: DataError, block: LineBlock, work: Callable[[str], object]) -> DataError:
    """The same error with the number of the line that raises it."""
    for number, line in enumerate(block.lines, block.start):
        try:
            work(line)
        except DataError as line_error:
            return DataError(str(line_error), path=block.path, line=number)
    return error
