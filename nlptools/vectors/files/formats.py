"""Reads, writes and converts word vectors in all formats."""

from __future__ import annotations

import io
import os
import pkgutil
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from nlptools import messages
from nlptools.arrays import Array
from nlptools.configs.vectors import FOREIGN, FORMATS, NAMES, Convert
from nlptools.errors import OutputError, UsageError, display
from nlptools.files import compression, run_paths, streams
from nlptools.files.layout_names import check_output
from nlptools.vectors import quantization
from nlptools.vectors.files import directory, npy
from nlptools.vectors.rows import ArrayRows
from nlptools.vectors.table import Vectors, first_words, named_rows, normalized


class Codec(Protocol):
    """The code of a format: a module, or an object in a module."""

    def read(self, path: str, errors: str = "strict") -> Vectors:
        """The vectors in a file or directory."""

    def save(self, vectors: Vectors, path: str, *, force: bool = False) -> None:
        """Write vectors to a file or directory."""


class StreamCodec(Protocol):
    """The code of a format that pipes may have."""

    def read(self, path: str, errors: str = "strict", opened: io.BufferedReader | None = None) -> Vectors:
        """The vectors in a file, or in a stream that is open already."""


def codec(name: str) -> Codec:
    """The code that reads and writes a format. Raises UsageError for an unknown one."""
    if name not in NAMES:
        raise UsageError(f"no such format: {name}, expected one of {', '.join(NAMES)}")
    code: Codec = pkgutil.resolve_name(_place(name))
    return code


def _place(name: str) -> str:
    return f"nlptools.vectors.files.{FORMATS[name].code}"


# -- names ------------------------------------------------------------------------------------------------------------


def format_of(path: str) -> str:
    """The format that the name of a file or directory means, by the patterns of `nlptools.configs.vectors.FORMATS`.

    Standard output and pipes are word2vec's text, names without suffix directories. A suffix of compression is ignored.

    Raises:
        UsageError: no format has such a name.
    """
    if path.endswith("/") or os.path.isdir(path):
        return "bundle"
    if is_nameless(path):
        return "word2vec"
    name = compression.without_suffix(os.path.basename(path))
    if not os.path.splitext(name)[1]:
        return "bundle"
    patterns = [
        (pattern, row.name) for row in FORMATS.values() for pattern in row.patterns if fnmatchcase(name, pattern)
    ]
    if not patterns:
        for ending, cure in FOREIGN.items():
            if name.endswith(ending):
                raise UsageError(f"{display(path)}: {cure[0]}", hint=cure[1])
        raise UsageError(f"{display(path)}: no format has such a name: --from or --to names the format")
    return max(patterns, key=lambda pair: len(pair[0]))[1]


def source_format(path: str) -> str:
    """As `format_of`. An existing file that begins with the magic bytes of another format of this name has that format."""
    name = format_of(path)
    others = [row for row in FORMATS.values() if row.magic and row.name != name]
    others = [row for row in others if any(fnmatchcase(path, pattern) for pattern in row.patterns)]
    if others and os.path.isfile(path):
        with open(path, "rb") as stream:
            first = stream.read(16)
        return next((row.name for row in others if first.startswith(row.magic)), name)
    return name


def is_nameless(path: str) -> bool:
    """Whether `path` is standard input or a pipe, such as a shell's <(...): its first byte tells the format."""
    return path == "-" or streams.is_pipe_or_device(path)


# -- reading ----------------------------------------------------------------------------------------------------------


def load(
    path: str | os.PathLike[str], format: str | None = None, errors: str = "strict", lines: str | None = None
) -> Vectors:
    """The vectors in a file or directory, memory-mapped if the format allows it.

    Args:
        format: a name in `nlptools.configs.vectors.FORMATS`; None: by the name of the file (`source_format`), or the
            first byte of standard input or a pipe.
        errors: treatment of words that are not UTF-8: "strict", "replace", "ignore".
        lines: a text file with the words of an array (npy), one per line.

    Raises:
        InputError: no such file.
        BundleError: the file is damaged or has another format; names the line in formats with lines.
        DataError: the numbers of `lines` and of rows differ.
        UsageError: no such format, or no format has such a name.
    """
    name = os.fspath(path)
    result = contents(name, format, errors, bare=lines is not None)
    if not isinstance(result, Vectors):
        return named_rows(result, name, lines, errors)
    if lines is not None:
        raise UsageError(f"{display(name)}: --lines is for arrays (npy), and this file has its own words")
    return result


def load_to_search(path: str, format: str | None = None, errors: str = "strict", lines: str | None = None) -> Vectors:
    """As `load`, without repeated words, which would crowd out other neighbors: lines of a text may be repeated."""
    vectors = load(path, format, errors, lines)
    may_repeat = isinstance(vectors.rows, ArrayRows) and not os.path.isdir(path)
    return first_words(vectors) if may_repeat else vectors


def contents(
    path: str, format: str | None = None, errors: str = "strict", *, types: str = "f", bare: bool = False
) -> Vectors | Array:
    """Words and vectors as `load` returns them; or an array (N, D) of `types`, from npy in a stream or without its words.

    `bare`: read npy without its words. Raises as `load` does.
    """
    if format in (None, "npy") and is_nameless(path):
        opened = streams.open_bytes(path)
        kind = format or _piped_format(opened)
        if kind == "npy":
            return npy.read_arrays(path, types, opened)
        piped: StreamCodec = pkgutil.resolve_name(_place(kind))
        return piped.read(path, errors, opened)
    run_paths.restore(path)
    kind = format or source_format(path)
    return npy.load_array(path, types) if kind == "npy" and bare else codec(kind).read(path, errors)


def _piped_format(stream: io.BufferedReader) -> str:
    """The format with the first byte of a stream, which is not consumed; without such a format, word2vec's text."""
    first = stream.peek(1)[:1]
    piped = (row.name for row in FORMATS.values() if row.piped and first == row.magic[:1])
    return next(piped, "word2vec")


# -- writing ----------------------------------------------------------------------------------------------------------


def save(vectors: Vectors, path: str, format: str | None = None, *, force: bool = False) -> None:
    """Write vectors to a file or directory, or to standard output (`-`).

    Raises:
        OutputError: it exists and `force` is not set.
        UsageError: no such format, or a word that the format cannot represent.
        StreamError: a write failed.
    """
    kind = format or format_of(path)
    code = codec(kind)
    check_standard_output(path, kind)
    code.save(vectors, path, force=force)


def check_target(target: str, kind: str, force: bool, *, lines_beside: bool = True, streamed: bool = False) -> None:
    """Check, before anything is read, that vectors can be written.

    Args:
        lines_beside: whether npy gets a second file with its words or lines.
        streamed: the vectors are written by `array_writer`, which needs no second file.

    Raises:
        UsageError: a binary format for a terminal, or a format of several files for standard output.
        OutputError: a file exists and `force` is not set, or there is no such directory.
    """
    check_standard_output(target, kind, streamed=streamed)
    if target == "-":
        return
    if kind != "bundle":
        check_output(target, {"tsv": "table"}.get(kind, kind if kind in ("npy", "jsonl", "hdf5") else "text"))
    folder = Path(target).parent
    if kind == "bundle":
        directory.check_target(target, force)
    if not folder.is_dir():
        raise OutputError(f"{display(target)}: there is no directory {display(str(folder))}")
    names = [] if kind == "bundle" else [target]
    if kind == "npy" and lines_beside and not streams.is_pipe_or_device(target):
        names.append(npy.words_beside(target))
    for name in names:
        if os.path.isfile(name) and not force:
            raise OutputError(f"{display(name)}: exists", hint="--force replaces it")


def check_standard_output(target: str, kind: str, *, streamed: bool = False) -> None:
    """The part of `check_target` for `-`. Raises UsageError."""
    if target != "-":
        return
    if kind == "bundle" or (kind == "npy" and not streamed):
        form = "a directory" if kind == "bundle" else "two files"
        raise UsageError(f"{kind} is {form}: it cannot go to standard output")
    if FORMATS[kind].binary and os.isatty(1):
        raise UsageError(f"{kind} is binary: not written to a terminal", hint="use a file, a pipe or a text format")


def convert(
    source: str, target: str, settings: Convert, errors: str = "strict", *, given: Callable[[], Vectors] | None = None
) -> None:
    """Read `source` and write `target`: `nlptools convert`.

    `given`: reads `source` instead of `load` if it is no file of vectors.

    Raises:
        UsageError: options that exclude each other.
        InputError, BundleError, OutputError, StreamError: see `load` and `save`.
    """
    if given is not None and settings.source_format is not None:
        raise UsageError(f"--from does not apply to {display(source)}, a model directory")
    kind = "" if given is not None else settings.source_format or source_format(source)
    to = settings.target_format or _target_format(target, kind)
    settings.check(to)
    check_target(target, to, settings.force)
    whole = load(source, settings.source_format, errors) if given is None else given()
    vectors = first_words(whole, settings.restrict)
    if settings.normalize:
        vectors = normalized(vectors)
    keeps_ngrams = settings.quantize == "none" and FORMATS[to].ngrams
    if vectors.subwords is not None and len(vectors.subwords.buckets) and not keeps_ngrams:
        messages.note("n-grams are left out: unknown words will have no vectors")
    if settings.quantize != "none":
        result = quantization.quantized(vectors, settings.quantize, settings.subvectors, settings.seed)
        directory.save(vectors, target, force=settings.force, quantized=result)
        messages.note(quantization.measure(vectors, result).summary(settings.quantize))
    else:
        save(vectors, target, to, force=settings.force)


def _target_format(target: str, source: str) -> str:
    """The format of the name; a `.bin` made from fastText's `.bin` is fastText's."""
    name = format_of(target)
    return "fasttext" if name == "word2vec-binary" and source == "fasttext" else name
