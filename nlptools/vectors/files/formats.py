"""The formats of vectors by name, which one a path means, and reading, writing and converting all of them."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nlptools import messages
from nlptools.configs.vectors import FORMATS, Convert
from nlptools.errors import DataError, OutputError, UsageError, display
from nlptools.files import streams
from nlptools.files.streams import Output
from nlptools.vectors import checks, quantization
from nlptools.vectors.files import array_reader, directory, fasttext, word2vec
from nlptools.vectors.files import text as text_format
from nlptools.vectors.files.array_writer import ArrayWriter
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.table import ArrayRows, Floats, Rows, Vectors, Words

_STYLES = {"word2vec": text_format.WORD2VEC, "vec": text_format.VEC, "glove": text_format.GLOVE}
_MAGIC = fasttext.MAGIC.to_bytes(4, "little")


def format_of(path: str) -> str:
    """The format that the name of a file means; `.bin` is word2vec's. Raises UsageError.

    `.vec` is fastText's text, `.npy` an array with `NAME.vocab.tsv`, `.jsonl` JSON lines, `.txt` and `.w2v` the text of
    word2vec, and so is standard output; names that begin with `glove.` and `.glove` mean GloVe; a directory, or a name
    without suffix, is a directory of vectors. `.gz`, `.bz2`, `.xz` and `.zst` behind a suffix are no part of it.
    """
    if path == "-":
        return "word2vec"
    if path.endswith("/") or os.path.isdir(path):
        return "bundle"
    if is_nameless(path):
        return "word2vec"
    name = streams.without_compression(os.path.basename(path))
    suffix = os.path.splitext(name)[1]
    if name.startswith("glove.") and suffix == ".txt":
        return "glove"
    known = {".txt": "word2vec", ".w2v": "word2vec", ".bin": "word2vec-binary", ".vec": "vec", ".npy": "npy",
             ".jsonl": "jsonl", ".glove": "glove", "": "bundle"}  # fmt: skip
    if suffix not in known:
        raise UsageError(f"{display(path)}: no format is known by this name: --from or --to names one")
    return known[suffix]


def source_format(path: str) -> str:
    """As `format_of`, of a file that is there: a `.bin` that begins with fastText's number is fastText's."""
    found = format_of(path)
    if found == "word2vec-binary" and path.endswith(".bin") and os.path.isfile(path):
        with open(path, "rb") as stream:
            if stream.read(4) == _MAGIC:
                return "fasttext"
    return found


def is_nameless(path: str) -> bool:
    """Whether `path` is standard input or a pipe, such as a shell's <(...): its first byte tells what it brings."""
    return path == "-" or streams.is_pipe_or_device(path)


def load(
    path: str | os.PathLike[str], format: str | None = None, errors: str = "strict", lines: str | None = None
) -> Vectors:
    """The vectors in a file or directory, mapped where the format allows.

    Args:
        format: one of `nlptools.configs.vectors.FORMATS`; None: by the name of the file (`source_format`), or by the first
            byte of standard input and of a pipe: npy, jsonl, else word2vec.
        errors: what to do about words that are not UTF-8: "strict", "replace", "ignore".
        lines: a text of which the lines are the words of an array (npy), one for each row.

    Raises:
        InputError: no such file.
        BundleError: the file is damaged or of another format; with its line where it has lines.
        DataError: there are more or fewer lines than rows.
        UsageError: no such format, or no format is known by the name.
    """
    name = os.fspath(path)
    if format in (None, "npy") and is_nameless(name):
        found = load_nameless(name, format, errors)
    else:
        kind = format or source_format(name)
        array = kind == "npy" and lines is not None
        found = directory.load_array(name) if array else _load(name, kind, errors)
    if not isinstance(found, Vectors):
        return named_rows(found, name, lines, errors)
    if lines is not None:
        raise UsageError(f"{display(name)}: lines are for the rows of an array (npy), and this has words of its own")
    return found


def load_to_search(path: str, format: str | None = None, errors: str = "strict", lines: str | None = None) -> Vectors:
    """As `load`, without repetitions, which would take the places of other neighbors: lines, unlike words, are repeated."""
    found = load(path, format, errors, lines)
    whole = isinstance(found.rows, ArrayRows) and not os.path.isdir(path)  # text, npy, jsonl: what may have lines
    return first_words(found) if whole else found


def load_nameless(
    path: str, format: str | None = None, errors: str = "strict", types: str = "f"
) -> Vectors | np.ndarray[Any, Any]:
    """What standard input or a pipe brings: words and vectors, or of npy an array (N, D) of `types`. Raises as `load`."""
    opened = streams.open_bytes(path)
    kind = format or array_reader.recognized(opened)
    return array_reader.read_arrays(path, types, opened) if kind == "npy" else _load(path, kind, errors, opened)


def named_rows(array: np.ndarray[Any, Any], path: str, lines: str | None = None, errors: str = "strict") -> Vectors:
    """The rows (N, D) of an array with the lines of a text as words, or numbers from 0.

    Raises:
        DataError: there are more or fewer lines than rows, or invalid UTF-8.
        InputError: no such text.
    """
    if lines is None:
        return Vectors([str(i) for i in range(len(array))], array, path=path)
    words = list(streams.lines(lines, errors))
    if len(words) != len(array):
        raise DataError(f"{len(words):,} lines for the {len(array):,} vectors of {display(path)}", path=lines)
    return Vectors(words, array, path=path)


def _load(name: str, kind: str, errors: str, opened: io.BufferedReader | None = None) -> Vectors:
    if kind in _STYLES:
        return _without_repeats(text_format.read(name, _STYLES[kind], errors, opened))
    if kind == "word2vec-binary":
        return word2vec.read(name, errors)
    if kind == "fasttext":
        return fasttext.read(name, errors)
    if kind == "npy":
        return directory.read_npy(name, errors)
    if kind == "jsonl":
        return array_reader.read_records(name, errors, opened)
    if kind == "bundle":
        return directory.read(name, errors)
    raise UsageError(f"no such format: {kind}, expected one of {', '.join(FORMATS)}")


def save(vectors: Vectors, path: str, format: str | None = None, *, force: bool = False) -> None:
    """Write vectors to a file, or to standard output (`-`).

    Raises:
        OutputError: it exists and `force` is not set.
        UsageError: no such format, or a word that the format has no room for.
        StreamError: a write failed.
    """
    kind = format or format_of(path)
    if kind == "bundle":
        directory.write(vectors, path, force=force)
    elif kind == "npy":
        if path == "-":
            raise UsageError("npy is two files: it cannot go to standard output")
        directory.write_npy(vectors, path, force=force)
    elif kind == "jsonl":
        with ArrayWriter(path, kind, vectors.dimensions, force=force) as writer:
            for start, rows in vectors.blocks():
                writer.write(rows, vectors.words[start : start + len(rows)])
    elif kind in ("fasttext", "word2vec-binary", *_STYLES):
        with Output(path, force=force) as out:
            if kind == "fasttext":
                fasttext.write(vectors, out)
            elif kind == "word2vec-binary":
                word2vec.write(vectors, out)
            else:
                text_format.write(vectors, out, _STYLES[kind])
    else:
        raise UsageError(f"no such format: {kind}, expected one of {', '.join(FORMATS)}")


def convert(source: str, target: str, settings: Convert, errors: str = "strict") -> None:
    """Read `source`, write `target`: `nlptools convert`.

    Raises:
        UsageError: options that do not go together.
        InputError, BundleError, OutputError, StreamError: see `load` and `save`.
    """
    kind = settings.source_format or source_format(source)
    to = settings.target_format or _target_format(target, kind)
    settings.check(to)
    check_target(target, to, settings.force)
    vectors = first_words(load(source, settings.source_format, errors), settings.restrict)
    if settings.normalize:
        vectors = normalized(vectors)
    keeps = settings.quantize == "none" and to in ("fasttext", "bundle")
    if vectors.subwords is not None and len(vectors.subwords.buckets) and not keeps:
        messages.note("n-grams are left out: unknown words will have no vectors")
    if settings.quantize != "none":
        made = quantization.quantized(vectors, settings.quantize, settings.subvectors, settings.seed)
        directory.write(vectors, target, force=settings.force, quantized=made)
        messages.note(quantization.measure(vectors, made).told(settings.quantize))
    else:
        save(vectors, target, to, force=settings.force)


def _target_format(target: str, source: str) -> str:
    """The format of the name, with fastText's binary made of fastText's binary."""
    found = format_of(target)
    return "fasttext" if found == "word2vec-binary" and source == "fasttext" else found


def check_target(target: str, kind: str, force: bool) -> None:
    """Refuse what `save` could not write, before anything is read. Raises UsageError, OutputError."""
    if kind == "bundle":
        if target == "-":
            raise UsageError("a directory cannot go to standard output")
        directory.check_target(target, force)
    folder = Path(target).parent
    if target != "-" and not folder.is_dir():
        raise OutputError(f"{display(target)}: there is no directory {display(str(folder))}")
    if kind == "npy" and target == "-":
        raise UsageError("npy is two files: it cannot go to standard output")
    names = [target, directory.words_beside(target)] if kind == "npy" else [target]
    for name in names:
        if kind != "bundle" and target != "-" and os.path.isfile(name) and not force:
            raise OutputError(f"{display(name)}: exists", hint="--force replaces it")


# -- parts of tables --------------------------------------------------------------------------------------------------


class _Chosen:
    """Some rows of others."""

    def __init__(self, rows: Rows, places: np.ndarray[Any, Any]) -> None:
        self.shape: tuple[int, int] = (len(places), rows.shape[1])
        self._rows, self._places = rows, places

    def read(self, start: int, end: int) -> Floats:
        return self._rows.take(self._places[start:end].tolist())

    def take(self, places: Sequence[int]) -> Floats:
        return self._rows.take(self._places[list(places)].tolist())


class _Unit:
    """Other rows at length 1; rows of zeros stay."""

    def __init__(self, rows: Rows) -> None:
        self.shape = rows.shape
        self._rows = rows

    def read(self, start: int, end: int) -> Floats:
        return self._scaled(self._rows.read(start, end))

    def take(self, places: Sequence[int]) -> Floats:
        return self._scaled(self._rows.take(places))

    def _scaled(self, rows: Floats) -> Floats:
        lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
        lengths[lengths == 0] = 1
        return np.asarray(rows / lengths[:, None], np.float32)


def normalized(vectors: Vectors) -> Vectors:
    """The same words with vectors of length 1; n-grams, which add up to other lengths, are left out."""
    return Vectors(vectors.words, _Unit(vectors.rows), counts=vectors.counts, path=vectors.path)


def first_words(vectors: Vectors, count: int = 0) -> Vectors:
    """The first `count` words (0: all), without repetitions, of which the first is kept with a warning."""
    words = vectors.words.list()
    if count and count < len(words):
        words = words[:count]
    keep = checks.keep_first(words, vectors.path)
    if keep is None and len(words) == len(vectors):
        return vectors
    return _choose(vectors, keep if keep is not None else list(range(len(words))))


def _without_repeats(vectors: Vectors) -> Vectors:
    keep = checks.keep_first(vectors.words.list(), vectors.path)
    if keep is None:
        return vectors
    return Vectors(Words.of(vectors.words[i] for i in keep), vectors.matrix[keep], path=vectors.path)


def _choose(vectors: Vectors, keep: list[int]) -> Vectors:
    places = np.array(keep, np.int64)
    words, kept = Words.of(vectors.words[i] for i in keep), vectors.subwords
    if kept is not None:
        output = None if kept.output is None else kept.output[places]
        kept = Subwords(kept.shortest, kept.longest, kept.buckets, kept.own[places], output, kept.settings)
    counts = None if vectors.counts is None else [vectors.counts[i] for i in keep]
    return Vectors(words, _Chosen(vectors.rows, places), subwords=kept, counts=counts, path=vectors.path)
