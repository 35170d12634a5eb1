"""Vocabularies from text, and from the vocabularies of its parts: the command build-vocab."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from nlptools import messages
from nlptools.configs.combinations import check_combinations
from nlptools.configs.text import SENTENCEPIECE_KINDS, BuildVocab
from nlptools.errors import OutputError, UsageError, display
from nlptools.files import atomic, streams, whole_directory
from nlptools.text import learning, sentencepiece_file
from nlptools.text import tokenizer as tokenizers
from nlptools.text.builtin import MARKER
from nlptools.text.huggingface import CONFIG, TEMPLATE, HuggingFace
from nlptools.text.vocab import Vocab

_SETTINGS = ("merges.txt", CONFIG, TEMPLATE, MARKER)  # of a tokenizer, next to its vocabulary
DEFAULT_SIZE = 8000  # pieces; spm_train's


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

    With `settings.merge`, the files are vocabularies of words; their counts are added.

    Raises:
        UsageError: options that cannot be combined.
        DataError: no training data, or a vocabulary size that is too small for it.
        OutputError: the output exists, or cannot be created.
    """
    _check_vocab_settings(settings)
    outputs = _outputs(settings)
    if settings.merge:
        return _merge_words(streams.check_inputs(inputs), settings)
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
    outputs = list(map(Path, vocab_files(settings)))
    for output in outputs:
        if settings.kind not in SENTENCEPIECE_KINDS:
            whole_directory.check_target(str(output), "a tokenizer", _holds_tokenizer, force=settings.force)
        elif output.exists() and not settings.force:
            raise OutputError(f"{display(str(output))}: exists", hint="--force replaces it")
        if not output.parent.is_dir():
            raise OutputError(f"{display(str(output))}: no such directory: {display(str(output.parent))}")
        if not os.access(output.parent, os.W_OK):
            raise OutputError(f"{display(str(output))}: permission denied")
    return outputs


def vocab_files(settings: BuildVocab) -> list[str]:
    """The names of the files, or of the directory, that `build_vocab` writes."""
    if settings.kind not in SENTENCEPIECE_KINDS:
        return [settings.output]
    stem = settings.output.removesuffix(".model")
    return [stem + ".model", stem + ".vocab"]


def _holds_tokenizer(path: Path) -> bool:
    """Whether a directory has the files of a tokenizer alone: a model would be lost."""
    return {file.name for file in path.iterdir()} <= {*tokenizers.BUNDLE_FILES, *_SETTINGS}


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
    return _write_words(lambda: learning.count_words(blocks, tokenizer), settings)


def _merge_words(paths: Sequence[str], settings: BuildVocab) -> list[str]:
    """Add the counts of vocabularies; special tokens, which the text does not have, count 0 in them."""

    def count() -> Counter[str]:
        counts: Counter[str] = Counter()
        for vocab in map(Vocab.load, paths):
            counts.update({token: n for token, n in zip(vocab.tokens, vocab.counts, strict=True) if n})
        return counts

    return _write_words(count, settings)


def _write_words(count: Callable[[], Counter[str]], settings: BuildVocab) -> list[str]:
    with streams.LineWriter(settings.output, force=settings.force) as output:
        counts = count()
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
    if settings.kind == "wordpiece":
        trained = learning.train_wordpiece(
            lines,
            size,
            special=settings.special or (),
            min_count=settings.min_count,
            lowercase=settings.lowercase,
            threads=settings.threads,
            strip_accents=settings.strip_accents,
        )
    else:
        special = learning.BYTE_BPE_SPECIAL if settings.special is None else settings.special
        trained = learning.train_byte_bpe(
            lines,
            size,
            special=special,
            min_count=settings.min_count,
            lowercase=settings.lowercase,
            threads=settings.threads,
        )
    tokenizer = HuggingFace(trained, str(directory))
    _report_size(len(tokenizer.vocab), settings)
    with whole_directory.replacing(str(directory)) as folder:
        names = tokenizer.save(folder)
    return [str(directory / name) for name in names]


def _report_size(pieces: int, settings: BuildVocab) -> None:
    """Report the number of pieces; warn if it is less than requested, except for character models."""
    requested = settings.size or DEFAULT_SIZE
    if pieces < requested and settings.kind != "char":
        messages.warn(f"the vocabulary has {pieces} pieces instead of {requested}: the text is too short for more")
    messages.detail(f"{pieces} pieces")
