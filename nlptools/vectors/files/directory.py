"""Vectors as `.npy` with a list of words, and as a directory of such files.

`NAME.npy` has its words in `NAME.vocab.tsv` beside it, a word per line, or word TAB count. A directory holds
`config.json` (kind, counts, dimensions, number type, n-grams), `vectors.npy`, `vocab.tsv`, and `manifest.json` with the
size and SHA-256 of each, written last. int8 vectors have a `scales.npy`, one factor per row; those of product
quantization have a byte per part in `vectors.npy`, `scales.npy`, and `centroids.npy` (256, D), of which a code names a
row and the part the columns. Vectors with n-grams have `word_rows.npy`, `subwords.npy` and, where training left them,
`output.npy`. Arrays are mapped when they are read, which
takes no time whatever their size; sizes are compared with the manifest, sums are not.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nlptools.errors import BundleError, InputError, OutputError, display, reason
from nlptools.files import atomic, line_records, streams
from nlptools.files.line_records import escape
from nlptools.files.streams import Output
from nlptools.vectors import checks
from nlptools.vectors.files import array_reader
from nlptools.vectors.product_quantization import CENTROIDS, Product, ProductRows
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.table import ArrayRows, Floats, Rows, Vectors, Words

MANIFEST, CONFIG = "manifest.json", "config.json"
_FORMAT = 1
_MOST_JSON = 1 << 20
_EXTRA = {"buckets": "subwords.npy", "own": "word_rows.npy", "output": "output.npy"}


# -- .npy -------------------------------------------------------------------------------------------------------------


def words_beside(path: str) -> str:
    """The name of the list of words, or lines, of `NAME.npy`."""
    return str(Path(path).with_suffix(".vocab.tsv"))


def read_npy(path: str, errors: str = "strict") -> Vectors:
    """The vectors of `NAME.npy` and `NAME.vocab.tsv`. Raises InputError, BundleError."""
    array = load_array(path)
    if not os.path.exists(words_beside(path)):
        hint = "neighbors and project take the words of the rows from --lines FILE"
        raise InputError(
            f"{display(words_beside(path))}: no such file, expected the words of {display(path)}", hint=hint
        )
    words, counts = _read_words(words_beside(path), errors)
    return Vectors(words, array, counts=counts, path=path)


def load_array(path: str, types: str = "f") -> np.ndarray[Any, Any]:
    """A matrix, or with "1" in `types` a vector, mapped. Raises InputError, BundleError.

    What has several arrays, or is compressed, or no file, is read instead.
    """
    if "1" not in types and (path == "-" or path.endswith(streams.COMPRESSED) or streams.is_pipe_or_device(path)):
        return array_reader.read_arrays(path, types)
    try:
        array = np.load(path, mmap_mode="r")
    except FileNotFoundError:
        raise InputError(f"{display(path)}: no such file") from None
    except OSError as error:
        raise InputError(f"{display(path)}: {reason(error)}") from None
    except (ValueError, EOFError, SyntaxError, TypeError, OverflowError) as error:
        raise BundleError(f"{display(path)}: not a readable array: {' '.join(str(error).split())[:120]}") from None
    expected = 1 if "1" in types else 2
    if not isinstance(array, np.ndarray) or array.ndim != expected or array.dtype.kind not in types:
        checks.refuse(path, f"expected {'a vector' if expected == 1 else 'a matrix'} of numbers")
    if expected == 2 and not 1 <= array.shape[1] <= checks.MOST_DIMENSIONS:
        checks.refuse(path, f"{array.shape[1]} dimensions")
    return array_reader.read_arrays(path, types) if _goes_on(array, path) else array


def _goes_on(array: np.ndarray[Any, Any], path: str) -> bool:
    """Whether another array stands behind the first one in a file, as when the output of a pipe is kept."""
    if array.ndim != 2 or not isinstance(array, np.memmap):
        return False
    with open(path, "rb") as stream:
        stream.seek(array.offset + array.nbytes)
        return stream.read(len(array_reader.MAGIC)) == array_reader.MAGIC


def _read_words(path: str, errors: str) -> tuple[Words, list[int] | None]:
    """Words and, if all lines have them, counts."""
    with streams.open_bytes(path) as stream:
        data = stream.read()
    text = checks.decode_words(data, path, errors)
    if not any(mark in text for mark in "\\\t\r"):  # nothing to take apart
        plain = text.removesuffix("\n")
        return Words(plain, plain.count("\n") + 1 if text else 0), None
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    fields = [line_records.fields(line) for line in lines]
    for number, row in enumerate(fields, 1):
        if len(row) > 2 or (len(row) == 2 and not (row[1].isascii() and row[1].isdigit())) or "\n" in row[0]:
            checks.refuse(path, "expected a word, or a word, a tab and a count", line=number)
    counts = [int(row[1]) for row in fields if len(row) == 2]
    return Words.of(row[0] for row in fields), counts if len(counts) == len(fields) else None


def write_npy(vectors: Vectors, path: str, *, force: bool = False) -> None:
    """Write `NAME.npy` and `NAME.vocab.tsv`. Raises OutputError if one of them exists, StreamError."""
    with Output(words_beside(path), force=force) as words, Output(path, force=force) as out:
        _write_words(vectors, words)
        _write_array(out, (len(vectors), vectors.dimensions), (rows for _, rows in vectors.blocks()))


def _write_words(vectors: Vectors, out: Output) -> None:
    words, counts = vectors.words.list(), vectors.counts
    for start in range(0, len(words), 1 << 16):
        part = words[start : start + (1 << 16)]
        ends = ["\n"] * len(part) if counts is None else [f"\t{n}\n" for n in counts[start : start + len(part)]]
        out.write("".join(escape(word) + end for word, end in zip(part, ends, strict=True)))


def _write_array(
    out: Output, shape: tuple[int, ...], parts: Iterable[np.ndarray[Any, Any]], dtype: str = "<f4"
) -> None:
    """An array in the format of numpy, from parts of its rows."""
    header = repr({"descr": dtype, "fortran_order": False, "shape": shape})
    header += " " * (-(len(header) + 11) % 64) + "\n"  # the data begins at a multiple of 64 bytes
    out.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode("ascii"))
    for part in parts:
        out.write(np.ascontiguousarray(part, dtype).tobytes())


# -- directories ------------------------------------------------------------------------------------------------------


class Quantized(NamedTuple):
    """int8 rows (V, D) and float32 scales (V,); row times scale is about the vector."""

    rows: np.ndarray[Any, Any]
    scales: Floats


def read(directory: str, errors: str = "strict") -> Vectors:
    """The vectors in a directory.

    Raises:
        InputError: no such directory.
        BundleError: a file is missing, of another size than the manifest says, or contradicts the others.
    """
    path = Path(directory)
    if not path.is_dir():
        raise InputError(f"{display(directory)}: no such directory of vectors")
    config = _read_json(path / CONFIG)
    if config.get("kind") != "vectors" or config.get("format") != _FORMAT:
        checks.refuse(str(path / CONFIG), 'not a directory of vectors: expected "kind": "vectors" and "format": 1')
    _check_sizes(path)
    rows = _read_rows(path, config.get("quantized", "none"))
    words, counts = _read_words(str(path / "vocab.tsv"), errors)
    subwords = _read_subwords(path, config, rows.shape) if "subwords" in config else None
    return Vectors(words, rows, subwords=subwords, counts=counts, path=directory)


def _read_rows(path: Path, quantized: object) -> Rows:
    """The rows behind `vectors.npy`, whose numbers `quantized` tells: "none", "int8" or "pq". Raises BundleError."""
    if quantized not in ("none", "int8", "pq"):
        checks.refuse(str(path / CONFIG), f'"quantized" is {quantized!r}, expected "int8" or "pq"')
    array = load_array(str(path / "vectors.npy"), "f" if quantized == "none" else "i" if quantized == "int8" else "u")
    if quantized == "none":
        return ArrayRows(array)
    scales = load_array(str(path / "scales.npy"), "f1")
    if len(scales) != len(array) or array.dtype.itemsize != 1 or not np.isfinite(scales).all():
        checks.refuse(str(path / "scales.npy"), f"expected {len(array):,} finite scales of rows of single bytes")
    if quantized == "int8":
        return ArrayRows(array, scales)
    centroids = load_array(str(path / "centroids.npy"))
    if len(centroids) > CENTROIDS or array.shape[1] > centroids.shape[1] or not np.isfinite(centroids).all():
        checks.refuse(
            str(path / "centroids.npy"),
            f"expected up to {CENTROIDS} finite centroids of at least {array.shape[1]:,} numbers",
        )
    return ProductRows(Product(array, np.array(centroids, np.float32), scales), str(path / "vectors.npy"))


def _read_subwords(path: Path, config: dict[str, Any], shape: tuple[int, ...]) -> Subwords:
    told = config["subwords"]
    try:
        shortest, longest = int(told["shortest"]), int(told["longest"])
        settings = {str(name): float(value) for name, value in told["settings"].items()}
    except (TypeError, KeyError, ValueError, AttributeError):
        checks.refuse(str(path / CONFIG), 'expected shortest, longest and settings under "subwords"')
    output = load_array(str(path / _EXTRA["output"])) if (path / _EXTRA["output"]).is_file() else None
    found = Subwords(
        shortest, longest, load_array(str(path / _EXTRA["buckets"])), load_array(str(path / _EXTRA["own"])), output, settings
    )  # fmt: skip
    fits = found.own.shape == shape and found.buckets.shape[1] == shape[1] and 0 <= shortest <= longest <= 1 << 16
    if not fits or (output is not None and output.shape != shape):
        checks.refuse(str(path), "the arrays of n-grams do not fit the vectors")
    return found


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MOST_JSON:
            checks.refuse(str(path), "larger than 1 MiB")
        data = json.loads(path.read_bytes())
    except OSError as error:
        raise BundleError(f"{display(str(path))}: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{display(str(path))}: not valid JSON: {error}") from None
    if not isinstance(data, dict):
        checks.refuse(str(path), "expected a JSON object")
    return data


def _check_sizes(path: Path) -> None:
    files = _read_json(path / MANIFEST).get("files")
    if not isinstance(files, dict):
        checks.refuse(str(path / MANIFEST), 'expected an object under "files"')
    for name, entry in files.items():
        if Path(name).name != name or not isinstance(entry, dict) or not (path / name).is_file():
            checks.refuse(str(path / MANIFEST), f"lists {name!r}, which is not there")
        if (path / name).stat().st_size != entry.get("size"):
            checks.refuse(str(path / name), f"damaged: not the {entry.get('size')} bytes of {MANIFEST}")


def check_target(path: str, force: bool) -> None:
    """Raise OutputError unless a directory can be made at `path`: not there, empty, or ours and `force`."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise OutputError(f"{display(path)}: is a file, expected a directory of vectors")
    if target.is_dir() and any(target.iterdir()):
        if not force:
            raise OutputError(f"{display(path)}: exists", hint="--force replaces it")
        try:
            ours = _read_json(target / CONFIG).get("kind") == "vectors"
        except BundleError:
            ours = False
        if not ours:
            raise OutputError(f"{display(path)}: holds something else than vectors, and is not replaced")


def write(vectors: Vectors, path: str, *, force: bool = False, quantized: Quantized | Product | None = None) -> None:
    """Write a directory, whole or not at all.

    Raises:
        OutputError: see `check_target`.
        StreamError: a write failed.
    """
    check_target(path, force)
    target = Path(path)
    try:
        made = Path(atomic.temporary_directory(target))
    except OSError as error:
        raise OutputError(f"{display(path)}: {reason(error)}") from None
    try:
        write_files(made, vectors, quantized)
        made.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        made.replace(target)
        atomic.sync_directory(target.absolute().parent)
    except OSError as error:
        raise OutputError(f"{display(path)}: {reason(error)}") from None
    finally:
        atomic.discard(made)


def write_files(
    made: Path, vectors: Vectors, quantized: Quantized | Product | None = None, *, force: bool = False
) -> None:
    """Write the files of vectors into a directory that is there, the manifest last. Raises as `write` does."""
    shape = (len(vectors), vectors.dimensions)
    config: dict[str, Any] = {"kind": "vectors", "format": _FORMAT, "words": shape[0], "dimensions": shape[1]}
    arrays: list[tuple[str, tuple[int, ...], Iterable[np.ndarray[Any, Any]], str]] = []
    if isinstance(quantized, Product):
        config["quantized"] = "pq"
        arrays.append(("vectors.npy", quantized.codes.shape, _parts(quantized.codes), "|u1"))
        arrays.append(("scales.npy", shape[:1], [quantized.scales], "<f4"))
        arrays.append(("centroids.npy", quantized.centroids.shape, [quantized.centroids], "<f4"))
    elif quantized is not None:
        config["quantized"] = "int8"
        arrays.append(("vectors.npy", shape, _parts(quantized.rows), "|i1"))
        arrays.append(("scales.npy", shape[:1], [quantized.scales], "<f4"))
    else:
        arrays.append(("vectors.npy", shape, (rows for _, rows in vectors.blocks()), "<f4"))
    if vectors.subwords is not None and quantized is None:
        kept = vectors.subwords
        config["subwords"] = {"shortest": kept.shortest, "longest": kept.longest, "settings": kept.settings}
        for name, file in _EXTRA.items():
            array = getattr(kept, name)
            if array is not None:
                arrays.append((file, array.shape, _parts(array), "<f4"))
    for file, sizes, parts, dtype in arrays:
        with Output(str(made / file), force=force) as out:
            _write_array(out, sizes, parts, dtype)
    with Output(str(made / "vocab.tsv"), force=force) as out:
        _write_words(vectors, out)
    atomic.write_whole(made / CONFIG, json.dumps(config, indent=2) + "\n")
    names = [CONFIG, "vocab.tsv", *(file for file, *_ in arrays)]
    files = {name: {"size": (made / name).stat().st_size, "sha256": _sha256(made / name)} for name in names}
    atomic.write_whole(made / MANIFEST, json.dumps({"format": _FORMAT, "files": files}, indent=2) + "\n")


def _parts(array: np.ndarray[Any, Any]) -> Iterable[np.ndarray[Any, Any]]:
    return (array[start : start + 16384] for start in range(0, len(array), 16384))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while data := stream.read(1 << 22):
            digest.update(data)
    return digest.hexdigest()
