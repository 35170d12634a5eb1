"""The files of a model directory: JSON, tensors, and a manifest with the size and SHA-256 of each.

Files are written atomically, nothing is unpickled, names stay inside the directory, and sizes are checked before memory is
allocated.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nlptools.errors import BundleError, display, reason, shown
from nlptools.files import atomic, json_text
from nlptools.json_types import JsonObject

if TYPE_CHECKING:
    from nlptools.arrays import Array

T = TypeVar("T")
FORMAT = 1
MANIFEST = "manifest.json"
ADAPTER = (
    "adapter_config.json"  # of low-rank adapters; it may be edited when their base moves, so its sum is not checked
)
_JSON_BYTES = 64 << 20
_NAME_BYTES = 255  # of a file in Linux and macOS


# -- writing --------------------------------------------------------------------------------------------------------


def write_json(path: Path, data: object) -> None:
    """Write JSON atomically. Raises ValueError for numbers that are not finite, which `read_json` rejects."""
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    # bytes of a file name that are not UTF-8 are lone surrogates in Python, and become escapes, as JSON writes them
    atomic.write_whole(path, (text + "\n").encode("utf-8", "backslashreplace"))


def save_tensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write a safetensors file atomically. Raises StreamError."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    def write(name: str) -> None:  # into the file itself: the bytes of a whole file would be copies of all tensors
        try:
            save_file(dict(tensors), name, metadata={"format": "pt"})
        except SafetensorError as error:
            number = re.search(r"\(os error (\d+)\)", str(error))
            raise (OSError(int(number[1]), os.strerror(int(number[1]))) if number else OSError(str(error))) from None

    atomic.fill_named(path, write)


def write_manifest(directory: Path, names: list[str]) -> None:
    """Record size and SHA-256 of `names` in `directory`."""
    with ThreadPoolExecutor() as pool:
        sums = pool.map(sha256, [directory / name for name in names])
    files = {
        name: {"size": (directory / name).stat().st_size, "sha256": digest}
        for name, digest in zip(names, sums, strict=True)
    }
    write_json(directory / MANIFEST, {"format": FORMAT, "files": files})


def sha256(path: Path) -> str:
    """Hex digest of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while data := stream.read(1 << 22):
            digest.update(data)
    return digest.hexdigest()


# -- reading --------------------------------------------------------------------------------------------------------


_CONVERT = (  # {0}: a file of pickled weights
    """python -c "import torch, safetensors.torch as s; w = torch.load('{0}', weights_only=True); """
    """s.save_file({{k: w[k].clone() for k in w}}, 'model.safetensors', {{'format': 'pt'}})" converts them, in that directory"""
)


def load_weights(directory: Path, stem: str = "model") -> dict[str, Any]:
    """All weights of a directory, from one safetensors file or from shards. Raises BundleError."""
    tensors: dict[str, Any] = {}
    for path in weight_files(directory, stem):
        tensors.update(load_tensors(path))
    return tensors


def write_index(directory: Path, stem: str, names: list[str]) -> str:
    """Write `STEM.safetensors.index.json`, which maps each tensor to one of the files `names`; returns its name.

    Raises:
        StreamError: disk full or another write error.
        BundleError: a file is damaged.
    """
    places = {tensor: name for name in names for tensor in _tensor_names(directory / name)}
    index = f"{stem}.safetensors.index.json"
    write_json(directory / index, {"metadata": {}, "weight_map": places})
    return index


def _tensor_names(path: Path) -> list[str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            return list(file.keys())
    except (SafetensorError, OSError) as error:
        raise BundleError(f"{display(str(path))}: damaged: {error}") from None


def weight_files(directory: Path, stem: str = "model") -> list[Path]:
    """The safetensors file `STEM.safetensors` of a directory, or its shards. Raises BundleError if there is none."""
    index = directory / f"{stem}.safetensors.index.json"
    if (directory / f"{stem}.safetensors").is_file():
        return [directory / f"{stem}.safetensors"]
    if index.is_file():
        places = read_json(index).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise BundleError(f'{display(str(index))}: expected file names under "weight_map"')
        names = set()
        for name in places.values():
            if not isinstance(name, str) or not _is_plain(name) or not name.endswith(".safetensors"):
                raise BundleError(f"{display(str(index))}: not a plain file name: {name!r}")
            names.add(name)
        return [directory / name for name in sorted(names)]
    pickles = sorted(p.name for end in ("*.bin", "*.pt*") for p in directory.glob(end))
    raise BundleError(
        f"{display(str(directory))}: no {stem}.safetensors" + (f" (found {pickles[0]})" if pickles else ""),
        hint=f"pickled weights are not read; where PyTorch is installed, {_CONVERT.format(pickles[0])}"
        if pickles
        else None,
    )


def weights_digest(directory: Path) -> str:
    """SHA-256 of each file of weights, from the manifest if there is one. Raises BundleError."""
    listed = manifest_files(directory) if (directory / MANIFEST).is_file() else {}
    sums = {name: entry.get("sha256") for name, entry in listed.items() if isinstance(entry, dict)}
    return " ".join(str(sums[f.name]) if f.name in sums else sha256(f) for f in weight_files(directory))


def refuse_tensorflow(path: Path) -> None:
    """Raise BundleError for a checkpoint as Google published BERT: a directory of it, or the beginning of its names."""
    stem = "*" if path.is_dir() else glob.escape(re.split(r"\.(?:index|meta|data-)", path.name)[0])
    folder = path if path.is_dir() else path.parent
    if folder.is_dir() and any(next(folder.glob(stem + end), None) for end in (".ckpt*.index", ".index")):
        raise BundleError(
            f"{display(str(path))}: a TensorFlow checkpoint, expected config.json and model.safetensors",
            hint="transformers converts it: BertForPreTraining.from_pretrained(..., from_tf=True).save_pretrained(...)",
        )


def load_tensors(path: Path) -> dict[str, Any]:
    """The tensors of a safetensors file. Raises BundleError if it is damaged."""
    from safetensors.torch import load_file

    return _read(path, load_file)


def load_arrays(path: Path) -> dict[str, Array]:
    """The NumPy arrays of a safetensors file, without PyTorch. Raises BundleError if it is damaged."""
    from safetensors.numpy import load_file

    return _read(path, load_file)


def _read(path: Path, load_file: Callable[[Path], Mapping[str, T]]) -> dict[str, T]:
    from safetensors import SafetensorError

    try:
        return dict(load_file(path))
    except (SafetensorError, OSError, ValueError, KeyError) as error:
        raise BundleError(f"{display(str(path))}: damaged: {error}") from None


def read_json(path: Path) -> JsonObject:
    """The JSON object in a file of at most 64 MiB, see `json_text`. Raises BundleError."""
    try:
        if path.stat().st_size > _JSON_BYTES:
            raise BundleError(f"{display(str(path))}: larger than {_JSON_BYTES >> 20} MiB")
        data = json_text.parsed(path.read_bytes())
    except OSError as error:
        raise BundleError(f"{display(str(path))}: {reason(error)}") from None
    except (ValueError, RecursionError) as error:
        raise BundleError(f"{display(str(path))}: not valid JSON: {error}") from None
    if not isinstance(data, dict):
        raise BundleError(f"{display(str(path))}: expected a JSON object")
    return data


def verify(directory: Path) -> dict[str, str]:
    """Check the files in the manifest; returns "ok" for each, or nothing if there is no manifest.

    Raises:
        BundleError: a file is missing, or its size or sum differs.
    """
    if not (directory / MANIFEST).is_file():
        return {}
    files = manifest_files(directory)
    for name, entry in files.items():
        path = directory / name
        if not is_inside(name) or not isinstance(entry, dict):
            raise BundleError(f"{display(str(directory / MANIFEST))}: not a plain file name: {name!r}")
        if not path.is_file():
            raise BundleError(f"{display(str(path))}: missing, but listed in {MANIFEST}")
        if name == ADAPTER:
            continue
        if path.stat().st_size != entry.get("size"):
            raise BundleError(
                f"{display(str(path))}: damaged: {path.stat().st_size} bytes, {MANIFEST} says {entry.get('size')}"
            )
        if sha256(path) != entry.get("sha256"):
            raise BundleError(f"{display(str(path))}: damaged: its SHA-256 is not the one in {MANIFEST}")
    return dict.fromkeys(files, "ok")


def verify_all(directory: Path) -> list[str]:
    """Check the files in the manifests of a directory and of its checkpoints; returns their names.

    Raises:
        BundleError: there is no manifest, or see `verify`.
    """
    if not (directory / MANIFEST).is_file():
        message = f"{display(str(directory))}: no {MANIFEST}: there are no sums to compare its files with"
        raise BundleError(message, hint="directories that nlptools writes have one")
    places = [directory, *(path.parent for path in sorted(directory.glob(f"checkpoints/*/{MANIFEST}")))]
    return [str((place / name).relative_to(directory)) for place in places for name in verify(place)]


def manifest_files(directory: Path) -> JsonObject:
    """The names in the manifest of a directory, with the size and the sum of each. Raises BundleError."""
    manifest = read_json(directory / MANIFEST)
    if manifest.get("format") != FORMAT:
        found = shown(str(manifest.get("format")))
        raise BundleError(f"{display(str(directory / MANIFEST))}: format {found}, expected {FORMAT}")
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise BundleError(f'{display(str(directory / MANIFEST))}: expected an object under "files"')
    return files


def is_inside(name: str) -> bool:
    """Whether a name in a manifest refers to a file in the directory, or in a folder of it."""
    names = name.split("/")
    return len(names) <= 2 and all(map(_is_plain, names))


def _is_plain(name: str) -> bool:
    """Whether a name refers to a file in the directory itself."""
    is_short = len(name.encode("utf-8", "surrogatepass")) <= _NAME_BYTES
    return is_short and name == os.path.basename(name) and name not in ("", ".", "..") and "\0" not in name
