"""Directories of static token vectors: the vector of a text is the mean of the vectors of its tokens.

Two layouts are read: model2vec's (config.json with `model_type` model2vec, `embeddings` in model.safetensors; with a vocabulary
of clusters also `mapping` and `weights`) and sentence-transformers' StaticEmbedding (`embedding.weight`, perhaps in a folder).
Both have a tokenizer.json. Directories are written in the first layout with a modules.json, so that both packages open them.
Shapes: V tokens, D dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlptools.arrays import Floats
from nlptools.errors import BundleError, InputError, display, reading
from nlptools.files import artifacts, atomic, hub_cache
from nlptools.json_types import JsonObject
from nlptools.text import tokenizer as tokenizers
from nlptools.text.boundaries import Boundaries
from nlptools.text.tokenizer import Tokenizer

MODEL_TYPE = "model2vec"
_MODULE = "StaticEmbedding"
_MODULES = "modules.json"
_EMBEDDINGS = ("embeddings", "embedding.weight")


@dataclass(frozen=True)
class StaticVectors:
    """Token vectors and their tokenizer.

    Attributes:
        path: the directory.
        table: (V, D) float32.
        normalize: whether the vector of a text is scaled to length 1.
        most: maximum number of tokens of a text; None: all.
    """

    path: Path
    table: Floats
    tokenizer: Tokenizer
    normalize: bool
    most: int | None = None


def locate(path: str | Path) -> Path | None:
    """The directory of static vectors that `path`, or a model of this name in the Hugging Face cache, is; None: another one."""
    try:
        where = hub_cache.locate(path)
    except (BundleError, InputError):
        return None  # the message comes when it is opened as a model
    return where if where.is_dir() and (_is_model2vec(where) or _static_folder(where) is not None) else None


def _is_model2vec(where: Path) -> bool:
    with suppress(BundleError, InputError):  # the message comes when it is opened as a model
        return (where / "config.json").is_file() and (
            artifacts.read_json(where / "config.json").get("model_type") == MODEL_TYPE
        )
    return False


def _modules(where: Path) -> list[tuple[str, str]]:
    """(class, folder) of the steps in modules.json; none without a valid one."""
    import json

    try:
        rows = json.loads((where / _MODULES).read_bytes())
        return [(str(row["type"]).rsplit(".", 1)[-1], str(row["path"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []


def _static_folder(where: Path) -> Path | None:
    """The folder of a StaticEmbedding that is the first step of a sentence-transformers directory."""
    kind, folder = next(iter(_modules(where)), ("", ""))
    inside = folder in ("", ".") or artifacts.is_inside(folder)
    return where / folder if kind == _MODULE and inside else None


def load(where: Path) -> StaticVectors:
    """The static vectors of a directory.

    Raises:
        BundleError: a damaged file, vectors that are not numbers, or another number of tokens than vectors.
    """
    artifacts.verify(where)
    folder = _static_folder(where) or where
    steps = [kind for kind, _ in _modules(where)]
    config = artifacts.read_json(where / "config.json") if _is_model2vec(where) else {}
    if strange := [kind for kind in steps if kind not in (_MODULE, "Normalize")]:
        raise BundleError(f"{display(str(where / _MODULES))}: a step {strange[0]!r:.80} is not supported")
    with reading(folder):
        table = _table(folder)
        tokenizer = tokenizers.load_path(folder)
    if tokenizer.vocab is None or len(tokenizer.vocab) > len(table):
        count = 0 if tokenizer.vocab is None else len(tokenizer.vocab)
        raise BundleError(f"{display(str(where))}: the tokenizer has {count} tokens, there are {len(table)} vectors")
    normalize, most = config.get("normalize", "Normalize" in steps), config.get("max_length")
    return StaticVectors(
        where, table, tokenizer, normalize is True, most if isinstance(most, int) and most > 0 else None
    )


def _table(folder: Path) -> Floats:
    """(V, D). Raises BundleError."""
    (file,) = artifacts.weight_files(folder)
    tensors = artifacts.load_arrays(file)
    found = next((tensors[name] for name in _EMBEDDINGS if name in tensors), None)
    if found is None or found.ndim != 2 or not np.issubdtype(found.dtype, np.floating):
        raise BundleError(f"{display(str(file))}: expected vectors under {' or '.join(_EMBEDDINGS)}")
    table: Floats = found.astype(np.float32)
    if "mapping" in tensors:
        mapping = tensors["mapping"]
        if mapping.ndim != 1 or mapping.min(initial=0) < 0 or mapping.max(initial=0) >= len(table):
            raise BundleError(f"{display(str(file))}: mapping has rows that do not exist")
        table = table[mapping]
    if "weights" in tensors:
        if tensors["weights"].shape != (len(table),):
            raise BundleError(f"{display(str(file))}: expected {len(table)} weights")
        table = table * tensors["weights"].astype(np.float32)[:, None]
    if not np.isfinite(table).all():
        raise BundleError(f"{display(str(file))}: holds values that are not finite")
    return table


def save_tokenizer(directory: Path, tokenizer: Tokenizer) -> list[str]:
    """Write a tokenizer; returns the names of its files. Raises BundleError for one that has no tokenizer.json."""
    names = tokenizer.save(directory)
    if "tokenizer.json" not in names and tokenizer.vocab is not None:
        names = tokenizer.save(directory, Boundaries.of_encoder(tokenizer.vocab))
    if "tokenizer.json" not in names:
        raise BundleError(f"the tokenizer cannot be written as tokenizer.json: {tokenizer.json_obstacle()}")
    return names


def save(directory: Path, table: Floats, names: Sequence[str], more: JsonObject, training: JsonObject) -> None:
    """Write vectors (V, D), as 16-bit floats, next to their tokenizer; the manifest last.

    Args:
        names: of the files of the tokenizer.
        more: more for config.json.
        training: how they were made.

    Raises StreamError: disk full or another write error.
    """
    from safetensors.numpy import save_file

    half = np.ascontiguousarray(table.astype(np.float16))
    atomic.fill_named(directory / "model.safetensors", lambda name: save_file({"embeddings": half}, name))
    config = {
        "model_type": MODEL_TYPE,
        "architectures": ["StaticModel"],
        "hidden_dim": table.shape[1],
        "seq_length": 1_000_000,
        "max_length": None,
        "normalize": True,
        "pooling": "mean",
        "embedding_dtype": "float16",
        **more,
    }
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(((".", _MODULE), ("1_Normalize", "Normalize")))
    ]
    (directory / "1_Normalize").mkdir(exist_ok=True)
    for name, data in (("config.json", config), (_MODULES, modules), ("training.json", training)):
        artifacts.write_json(directory / name, data)
    artifacts.write_manifest(directory, ["config.json", _MODULES, "training.json", "model.safetensors", *names])
