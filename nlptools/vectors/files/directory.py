"""A directory of vectors: arrays in `.npy`, a list of words, a description and a manifest.

`config.json` has the kind, format version, counts, dimensions, type of numbers and n-grams; `manifest.json`, written last,
the size and SHA-256 of each file. `vectors.npy` and `vocab.tsv` are as `nlptools.vectors.files.npy` describes. int8 vectors
have one factor per row in `scales.npy`. Product quantization has codes in `vectors.npy`, a byte per part: the row of
`centroids.npy` (256, D) in the columns of that part; and `scales.npy`. Vectors with n-grams have `word_rows.npy`,
`subwords.npy` and, if known, `output.npy`. Arrays are mapped when they are read, which takes no time, however large they are.
Sizes are compared with the manifest, SHA-256 sums are not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nlptools.arrays import Array, Floats
from nlptools.errors import BundleError, InputError, display
from nlptools.files import atomic, run_paths, whole_directory
from nlptools.files.artifacts import MANIFEST, is_inside, manifest_files, read_json, write_manifest
from nlptools.files.json_fields import child, number, whole
from nlptools.files.streams import LineWriter
from nlptools.json_types import JsonObject
from nlptools.vectors import checks
from nlptools.vectors.files.npy import load_array, read_words, write_array, write_words
from nlptools.vectors.product_quantization import CENTROIDS, Product, ProductRows
from nlptools.vectors.rows import ArrayRows, VectorRows
from nlptools.vectors.subwords import Subwords
from nlptools.vectors.table import Vectors

CONFIG = "config.json"
_FORMAT = 1
_EXTRA = {"buckets": "subwords.npy", "own": "word_rows.npy", "output": "output.npy"}  # field of Subwords -> file


class Quantized(NamedTuple):
    """int8 rows (V, D) and float32 scales (V,); row times scale is about the vector."""

    rows: Array
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
    run_paths.restore(path)
    config = read_json(path / CONFIG)
    if config.get("kind") != "vectors" or config.get("format") != _FORMAT:
        checks.refuse(str(path / CONFIG), 'not a directory of vectors: expected "kind": "vectors" and "format": 1')
    _check_sizes(path)
    rows = _read_rows(path, config.get("quantized", "none"))
    words, counts = read_words(str(path / "vocab.tsv"), errors)
    subwords = _read_subwords(path, config, rows.shape) if "subwords" in config else None
    return Vectors(words, rows, subwords=subwords, counts=counts, path=directory)


def _read_rows(path: Path, quantized: object) -> VectorRows:
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


def _read_subwords(path: Path, config: JsonObject, shape: tuple[int, ...]) -> Subwords:
    where = display(str(path / CONFIG))
    entry = child(config, "subwords", where)
    shortest, longest = whole(entry, "shortest", where), whole(entry, "longest", where)
    numbers = child(entry, "settings", where)
    settings = {name: number(numbers, name, where) for name in numbers}
    output = load_array(str(path / _EXTRA["output"])) if (path / _EXTRA["output"]).is_file() else None
    buckets, own = (load_array(str(path / _EXTRA[name])) for name in ("buckets", "own"))
    fits = own.shape == shape and buckets.shape[1] == shape[1] and 0 <= shortest <= longest <= 1 << 16
    if not fits or (output is not None and output.shape != shape):
        checks.refuse(str(path), "the arrays of n-grams do not fit the vectors")
    return Subwords(shortest, longest, buckets, own, output, settings)


def _check_sizes(path: Path) -> None:
    for name, entry in manifest_files(path).items():
        if not is_inside(name) or not isinstance(entry, dict) or not (path / name).is_file():
            checks.refuse(str(path / MANIFEST), f"lists {name!r}, which is not there")
        if (path / name).stat().st_size != entry.get("size"):
            checks.refuse(str(path / name), f"damaged: not the {entry.get('size')} bytes of {MANIFEST}")


def check_target(path: str, force: bool) -> None:
    """Raise OutputError unless vectors can be written to a directory at `path`; see `whole_directory.check_target`."""
    whole_directory.check_target(path, "vectors", holds_vectors, force=force)


def holds_vectors(path: Path) -> bool:
    """Whether a directory holds word vectors, by its description."""
    try:
        run_paths.restore(path)
        return read_json(path / CONFIG).get("kind") == "vectors"
    except BundleError:
        return False


def save(vectors: Vectors, path: str, *, force: bool = False, quantized: Quantized | Product | None = None) -> None:
    """Write a directory, whole or not at all; the vectors unchanged, or `quantized`.

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
    config: JsonObject = {"kind": "vectors", "format": _FORMAT, "words": shape[0], "dimensions": shape[1]}
    arrays: dict[str, Array] = {}
    if isinstance(quantized, Product):
        config["quantized"] = "pq"
        arrays = {"vectors.npy": quantized.codes, "scales.npy": quantized.scales, "centroids.npy": quantized.centroids}
    elif quantized is not None:
        config["quantized"] = "int8"
        arrays = {"vectors.npy": quantized.rows, "scales.npy": quantized.scales}
    else:
        with LineWriter(str(folder / "vectors.npy"), force=force, layout="npy") as out:
            write_array(out, shape, (rows for _, rows in vectors.blocks()))
        if (subwords := vectors.subwords) is not None:
            lengths = {"shortest": subwords.shortest, "longest": subwords.longest}
            config["subwords"] = {**lengths, "settings": {**subwords.settings}}
            known = {file: getattr(subwords, name) for name, file in _EXTRA.items()}
            arrays = {file: array for file, array in known.items() if array is not None}
    for file, array in arrays.items():
        parts = (array[start : start + 16384] for start in range(0, len(array), 16384))
        with LineWriter(str(folder / file), force=force, layout=None) as out:
            write_array(out, array.shape, parts, "<f4" if array.dtype.kind == "f" else array.dtype.str)
    with LineWriter(str(folder / "vocab.tsv"), force=force) as out:
        write_words(vectors, out)
    atomic.write_whole(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    write_manifest(folder, list(dict.fromkeys([CONFIG, "vocab.tsv", "vectors.npy", *arrays])))
