"""Tokenization of text and its inverse, and learning of vocabularies: the commands tokenize and build-vocab."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from nlptools import messages
from nlptools.configs.combinations import check_combinations
from nlptools.configs.text import SENTENCEPIECE_KINDS, BuildVocab, Tokenize
from nlptools.environment import available_threads
from nlptools.errors import DataError, OutputError, UsageError, display, reason
from nlptools.files import atomic, streams
from nlptools.files.streams import LineBlock
from nlptools.text import learning, sentencepiece_file
from nlptools.text import tokenizer as tokenizers
from nlptools.text.east_asian import tokenizer_for
from nlptools.text.huggingface import HuggingFace
from nlptools.text.pieces import SentencePiece
from nlptools.text.tokenizer import Tokenizer

_SHARE_BYTES = 1 << 18  # text per work item of a thread
DEFAULT_SIZE = 8000  # pieces; spm_train's

# -- tokenize ---------------------------------------------------------------------------------------------------------


def tokenize(
    lines: Iterable[str | LineBlock], tokenizer: str | Path | Tokenizer = "words", settings: Tokenize | None = None
) -> Iterator[str]:
    """The tokens or ids of each line, separated by single spaces; or, with `settings.decode`, the text of each.

    Args:
        lines: lines without their ends, or blocks of them (`streams.blocks`).
        tokenizer: a tokenizer, or the name or path of one; `settings.tokenizer` is ignored.
        settings: see `nlptools tokenize --help`.

    Yields:
        One string per item of `lines`; for a block, its lines joined by newlines, without a newline at the end.

    Raises:
        UsageError: a setting that the tokenizer does not support.
        DataError: an id or token that the tokenizer does not have, with file and line.
    """
    settings = settings or Tokenize()
    if isinstance(tokenizer, (str, Path)):
        tokenizer = tokenizers.load(tokenizer, settings.vocab, settings.lowercase)
    work = _decoder(tokenizer, settings) if settings.decode else _encoder(tokenizer, settings)
    return _each(lines, work)


def tokenize_files(
    inputs: Sequence[str],
    settings: Tokenize,
    errors: str = "strict",
    single: bool = False,
    blocks: Iterable[LineBlock] | None = None,
) -> Iterator[str]:
    """Like `tokenize`, for files (`-`: standard input) and the tokenizer of `settings`; yields one string per block of lines.

    Args:
        errors: handling of invalid UTF-8: "strict", "replace" or "ignore".
        single: yield one string per line.
        blocks: the text, if it is not the lines of the inputs.
    """
    check_combinations(settings)
    paths = streams.check_inputs(inputs)
    tokenizer = tokenizers.load(settings.tokenizer, settings.vocab, settings.lowercase)
    lines = blocks is None
    blocks = blocks or chain.from_iterable(streams.blocks(path, errors) for path in paths)
    if single:
        blocks = (LineBlock(b.path, b.start + i, [line]) for b in blocks for i, line in enumerate(b.lines))
    elif lines and isinstance(tokenizer, SentencePiece) and not settings.decode and _are_long_files(paths):
        tokenizer.expect_many()
        blocks = chain.from_iterable(streams.blocks(path, errors, _SHARE_BYTES) for path in paths)
        threads = settings.threads or available_threads()
        return _side_by_side(blocks, _encoder(tokenizer, replace(settings, threads=1)), threads)
    return tokenize(_watched(blocks, tokenizer), tokenizer, settings)


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


def _encoder(tokenizer: Tokenizer, settings: Tokenize) -> Callable[[LineBlock], str]:
    """The function from a block of text to a block of tokens or ids."""
    ids, threads = settings.to == "ids", settings.threads or available_threads()
    if ids and tokenizer.vocab is None:
        raise UsageError(f"the tokenizer '{tokenizer.kind}' has no vocabulary", hint="give it a --vocab FILE")
    before, after = _marks(tokenizer, settings)
    if settings.sample is not None or settings.nbest:
        segment = _segmenter(tokenizer, settings)
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


def _segmenter(tokenizer: Tokenizer, settings: Tokenize) -> Callable[[str], Sequence[Sequence[int | str]]]:
    """The function from a line to its segmentations: a random one, or the best ones."""
    if not isinstance(tokenizer, SentencePiece):
        raise UsageError(f"{'--nbest' if settings.nbest else '--sample'} needs a SentencePiece model")
    ids, alpha, count = settings.to == "ids", settings.sample, 0
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


# -- build-vocab ------------------------------------------------------------------------------------------------------


def build_vocab(
    inputs: Sequence[str],
    settings: BuildVocab,
    errors: str = "strict",
    blocks: Iterable[streams.LineBlock] | None = None,
) -> list[str]:
    """Learn a vocabulary from files (`-`: standard input) and write it; returns the names of the files written.

    Args:
        settings: see `nlptools build-vocab --help`.
        errors: handling of invalid UTF-8: "strict", "replace" or "ignore".
        blocks: the lines of the files, if they are tables.

    Raises:
        UsageError: options that cannot be combined.
        DataError: no training data, or a vocabulary size that is too small for it.
        OutputError: the output exists, or cannot be created.
    """
    _check_vocab_settings(settings)
    outputs = _outputs(settings)
    if blocks is None:
        blocks = chain.from_iterable(streams.blocks(path, errors) for path in streams.check_inputs(inputs))
    rows: Iterator[list[str]] = (block.lines for block in blocks)
    if settings.max_lines:
        rows = iter([_draw(chain.from_iterable(rows), settings.max_lines, settings.seed)])
    if settings.kind == "words":
        return _build_words(rows, settings)
    lines = chain.from_iterable(rows)
    if settings.kind in SENTENCEPIECE_KINDS:
        return _build_sentencepiece(lines, settings, outputs)
    return _build_directory(lines, settings, outputs[0])


def _check_vocab_settings(settings: BuildVocab) -> None:
    check_combinations(settings)
    if any(any(c in token for c in " \t\r\n") for token in settings.special or ()):
        raise UsageError("--special: special tokens cannot contain spaces")


def _outputs(settings: BuildVocab) -> list[Path]:
    """The files, or the directory, to write. Raises OutputError if they exist or cannot be created."""
    if settings.kind == "words":  # streams.Output has its own checks
        return []
    path = Path(settings.output)
    outputs = [path]
    if settings.kind in SENTENCEPIECE_KINDS:
        stem = settings.output.removesuffix(".model")
        outputs = [Path(stem + ".model"), Path(stem + ".vocab")]
    for output in outputs:
        exists = output.exists() and not (settings.kind in ("wordpiece", "byte-bpe") and _is_empty_directory(output))
        if exists and not settings.force:
            raise OutputError(f"{display(str(output))}: exists", hint="--force replaces it")
        if not output.parent.is_dir():
            raise OutputError(f"{display(str(output))}: no such directory: {display(str(output.parent))}")
        if not os.access(output.parent, os.W_OK):
            raise OutputError(f"{display(str(output))}: permission denied")
    return outputs


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _draw(lines: Iterable[str], size: int, seed: int) -> list[str]:
    """A random sample of `size` lines, all with the same probability (reservoir sampling: Vitter 1985, algorithm R)."""
    generator = random.Random(seed)
    drawn: list[str] = []
    for count, line in enumerate(lines):
        if count < size:
            drawn.append(line)
        elif (place := generator.randrange(count + 1)) < size:
            drawn[place] = line
    return drawn


def _build_words(blocks: Iterable[Sequence[str]], settings: BuildVocab) -> list[str]:
    tokenizer = tokenizers.load(settings.tokenizer, lowercase=settings.lowercase)
    with streams.LineWriter(settings.output, force=settings.force) as output:
        counts = learning.count_words(blocks, tokenizer)
        special = learning.WORD_SPECIAL if settings.special is None else settings.special
        vocab = learning.word_vocab(counts, special, settings.size, settings.min_count)
        output.write_lines(list(vocab.lines()))
    messages.detail(f"{counts.total()} words, {len(counts)} distinct words, {len(vocab)} vocabulary entries")
    return [settings.output]


def _build_sentencepiece(lines: Iterable[str], settings: BuildVocab, outputs: Sequence[Path]) -> list[str]:
    model = learning.train_sentencepiece(
        lines,
        settings.kind,
        settings.size or DEFAULT_SIZE,
        coverage=settings.coverage,
        special=settings.special or (),
        lowercase=settings.lowercase,
        threads=settings.threads,
    )
    pieces = sentencepiece_file.check(model, str(outputs[0]))
    _report_size(len(pieces.texts), settings)
    table = "".join(f"{text}\t{score:g}\n" for text, score in zip(pieces.texts, pieces.scores, strict=True))
    atomic.write_whole(outputs[1], table)
    atomic.write_whole(outputs[0], model)
    return [str(path) for path in outputs]


def _build_directory(lines: Iterable[str], settings: BuildVocab, directory: Path) -> list[str]:
    size = settings.size or DEFAULT_SIZE
    shared: dict[str, Any] = {
        "min_count": settings.min_count,
        "lowercase": settings.lowercase,
        "threads": settings.threads,
    }
    if settings.kind == "wordpiece":
        shared["strip_accents"] = settings.strip_accents
        trained = learning.train_wordpiece(lines, size, special=settings.special or (), **shared)
    else:
        special = learning.BYTE_BPE_SPECIAL if settings.special is None else settings.special
        trained = learning.train_byte_bpe(lines, size, special=special, **shared)
    tokenizer = HuggingFace(trained, str(directory))
    _report_size(len(tokenizer.vocab), settings)
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"{display(str(directory))}: {reason(error)}") from None
    return [str(directory / name) for name in tokenizer.save(directory)]


def _report_size(pieces: int, settings: BuildVocab) -> None:
    """Report the number of pieces; warn if it is less than requested, except for character models."""
    requested = settings.size or DEFAULT_SIZE
    if pieces < requested and settings.kind != "char":
        messages.warn(f"the vocabulary has {pieces} pieces instead of {requested}: the text is too short for more")
    messages.detail(f"{pieces} pieces")
