"""A directory of vectors: arrays in `.npy`, a list of words, a description and a manifest.

`config.json` has the kind, format version, counts, dimensions, type of numbers and n-grams; `manifest.json`, written last,
the size and SHA-256 of each file. `vectors.npy` and `vocab.tsv` are as `nlptools.vectors.files.npy` describes. int8 vectors
have one factor per row in `scales.npy`. Product quantization has codes in `vectors.npy`, a byte per part, which name rows of
`centroids.npy` (256, D) in the columns of that part; and `scales.npy`. Vectors with n-grams have `word_rows.npy`,
`subwords.npy` and, if known, `output.npy`. Arrays are mapped when they are read, which takes no time whatever their size;
sizes are compared with the manifest, SHA-256 sums are not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlptools.errors import BundleError, InputError, display, reason
from nlptools.files import atomic, whole_directory
from nlptools.files.streams import Output
from nlptools.vectors import checks
from nlptools.vectors.files.npy import load_array, read_words, write_array, write_words
from nlptools.vectors.product_quantization import CENTROIDS, Product, ProductRows
from nlptools.vectors.rows import ArrayRows, Floats, Rows
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.table import Vectors

MANIFEST, CONFIG = "manifest.json", "config.json"
_FORMAT = 1
_MOST_JSON = 1 << 20
_EXTRA = {"buckets": "subwords.npy", "own": "word_rows.npy", "output": "output.npy"}  # field of Subwords -> file


class Quantized(NamedTuple):
    """int8 rows (V, D) and float32 scales (V,); row times scale is about the vector."""

    rows: NDArray[Any]
    scales: Floats


def read(directory: str, errors: str = "strict") -> Vectors:
    """The vectors in a directory.

    Raises:
        InputError: no such directory.
        BundleError: a file is missing, does not have the size in the manifest, or contradicts the others.
    """
    path = Path(directory)
    if not path.is_dir():
        raise InputError(f"{display(directory)}: no such directory of vectors")
    config = _read_json(path / CONFIG)
    if config.get("kind") != "vectors" or config.get("format") != _FORMAT:
        checks.refuse(str(path / CONFIG), 'not a directory of vectors: expected "kind": "vectors" and "format": 1')
    _check_sizes(path)
    rows = _read_rows(path, config.get("quantized", "none"))
    words, counts = read_words(str(path / "vocab.tsv"), errors)
    subwords = _read_subwords(path, config, rows.shape) if "subwords" in config else None
    return Vectors(words, rows, subwords=subwords, counts=counts, path=directory)


def _read_rows(path: Path, quantized: object) -> Rows:
    """The rows in `vectors.npy` and, for `quantized` "int8" or "pq", the files it needs. Raises BundleError."""
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
    entry = config["subwords"]
    try:
        shortest, longest = int(entry["shortest"]), int(entry["longest"])
        settings = {str(name): float(value) for name, value in entry["settings"].items()}
    except (TypeError, KeyError, ValueError, AttributeError):
        checks.refuse(str(path / CONFIG), 'expected shortest, longest and settings under "subwords"')
    output = load_array(str(path / _EXTRA["output"])) if (path / _EXTRA["output"]).is_file() else None
    buckets, own = (load_array(str(path / _EXTRA[name])) for name in ("buckets", "own"))
    fits = own.shape == shape and buckets.shape[1] == shape[1] and 0 <= shortest <= longest <= 1 << 16
    if not fits or (output is not None and output.shape != shape):
        checks.refuse(str(path), "the arrays of n-grams do not fit the vectors")
    return Subwords(shortest, longest, buckets, own, output, settings)


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
    """Raise OutputError unless vectors can be written to a directory at `path`; see `whole_directory.check_target`."""
    whole_directory.check_target(path, "vectors", _holds_vectors, force=force)


def _holds_vectors(path: Path) -> bool:
    try:
        return _read_json(path / CONFIG).get("kind") == "vectors"
    except BundleError:
        return False


def save(vectors: Vectors, path: str, *, force: bool = False, quantized: Quantized | Product | None = None) -> None:
    """Write a directory, whole or not at all; the vectors as they are, or `quantized`.

    Raises:
        OutputError: see `check_target`.
        StreamError: a write failed.
    """
    check_target(path, force)
    with whole_directory.replacing(path) as folder:
        write_files(folder, vectors, quantized)


def write_files(
    folder: Path, vectors: Vectors, quantized: Quantized | Product | None = None, *, force: bool = False
) -> None:
    """Write the files into an existing directory, the manifest last. Raises OutputError, StreamError."""
    shape = (len(vectors), vectors.dimensions)
    config: dict[str, Any] = {"kind": "vectors", "format": _FORMAT, "words": shape[0], "dimensions": shape[1]}
    arrays: list[tuple[str, tuple[int, ...], Iterable[NDArray[Any]], str]] = []
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
        subwords = vectors.subwords
        config["subwords"] = {"shortest": subwords.shortest, "longest": subwords.longest, "settings": subwords.settings}
        for name, file in _EXTRA.items():
            array = getattr(subwords, name)
            if array is not None:
                arrays.append((file, array.shape, _parts(array), "<f4"))
    for file, sizes, parts, dtype in arrays:
        with Output(str(folder / file), force=force) as out:
            write_array(out, sizes, parts, dtype)
    with Output(str(folder / "vocab.tsv"), force=force) as out:
        write_words(vectors, out)
    atomic.write_whole(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    names = [CONFIG, "vocab.tsv", *(file for file, *_ in arrays)]
    files = {name: {"size": (folder / name).stat().st_size, "sha256": _sha256(folder / name)} for name in names}
    atomic.write_whole(folder / MANIFEST, json.dumps({"format": _FORMAT, "files": files}, indent=2) + "\n")


def _parts(array: NDArray[Any]) -> Iterable[NDArray[Any]]:
    return (array[start : start + 16384] for start in range(0, len(array), 16384))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while data := stream.read(1 << 22):
            digest.update(data)
    return digest.hexdigest()
