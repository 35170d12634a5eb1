"""Damaged and hostile model directories, in the layout of each tool."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.reliability.servers import CANARY

NAN = struct.pack("<f", float("nan"))


class Canary:
    """An object whose pickle makes a file when it is read."""

    def __reduce__(self) -> Any:
        return os.system, (f"touch {CANARY}",)


@dataclass(frozen=True)
class Layout:
    """Files of a model directory.

    Attributes:
        weights: the file of the weights: safetensors, .npy, or fastText's.
        tokenizer: the file of the tokenizer or the vocabulary; "": none.
        config: the JSON file that names sizes; "": none.
        layers: the key of the number of layers in it.
        pickled: the file that a reader may take for a pickle.
    """

    weights: str
    tokenizer: str = ""
    config: str = ""
    layers: str = ""
    pickled: str = "pytorch_model.bin"


LAYOUTS = {
    "gensim": Layout("model.wv.vectors.npy", pickled="model"),
    "fastText": Layout("model.bin", pickled="model.bin"),
    "transformers": Layout("model.safetensors", "tokenizer.json", "config.json", "n_layer"),
    "sentence-transformers": Layout("model.safetensors", "tokenizer.json", "config.json", "num_hidden_layers"),
    "nlptools": Layout("model.safetensors", "vocab.tsv", "config.json", "n_layer"),
    "nlptools vectors": Layout("vectors.npy", "vocab.tsv", pickled="vectors.npy"),
}
ACCIDENTS = ("weights cut", "weights: a bit flipped")  # after which the sums of a manifest are those of before


def damage(model: Path, layout: str, name: str) -> None:
    """Damage a model directory."""
    files = LAYOUTS[layout]
    weights = model / files.weights
    content = bytearray(weights.read_bytes())
    if name == "weights cut":
        weights.write_bytes(content[: len(content) // 2])
    elif name == "weights: a bit flipped":
        content[_middle(content) + 3] ^= 0x10  # of the exponent of a number
        weights.write_bytes(content)
    elif name == "weights: NaN":
        start, count = _middle(content), 32
        content[start : start + 4 * count] = NAN * count
        weights.write_bytes(content)
    elif name == "pickle with code as weights":
        weights.unlink()
        (model / files.pickled).write_bytes(pickle.dumps(Canary()))
    elif name == "absurd sizes":
        _absurd(model, files, content)
    elif name == "tokenizer cut":
        path = model / files.tokenizer
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif name == "tensor missing":
        _rename(weights, content)
    else:
        raise ValueError(name)
    if name not in ACCIDENTS and (model / "manifest.json").exists():
        _vouch(model)


def _vouch(model: Path) -> None:
    """Make the sums of a manifest those of the files, as the author of a hostile directory would."""
    manifest = json.loads((model / "manifest.json").read_text())
    for file, facts in manifest["files"].items():
        if (model / file).exists():
            content = (model / file).read_bytes()
            facts.update(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    (model / "manifest.json").write_text(json.dumps(manifest))


def _middle(content: bytearray) -> int:
    """A place in the middle of the numbers, where one begins; their ends are at the end of the file."""
    start = 8 + int.from_bytes(content[:8], "little") if content[8:9] == b"{" else len(content) // 2
    numbers = (len(content) - start) // 4
    return len(content) - 4 * (numbers // 2)


def _absurd(model: Path, files: Layout, content: bytearray) -> None:
    """More than the file holds: an array of 16 GiB, a billion layers, 2^31 words."""
    if files.weights.endswith(".npy"):
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (65536, 65536), }".ljust(117) + b"\n"
        content[:128] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
        (model / files.weights).write_bytes(content)
    elif files.config:
        path = model / files.config
        path.write_text(json.dumps({**json.loads(path.read_text()), files.layers: 10**9}))
    else:
        content[64:72] = struct.pack("<ii", 2**31 - 1, 2**31 - 1)  # entries and words, behind the settings
        (model / files.weights).write_bytes(content)


def _rename(weights: Path, content: bytearray) -> None:
    """Give the last tensor of a safetensors file a name that no model has."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    name = sorted(key for key in header if key != "__metadata__")[-1]
    header["elsewhere"] = header.pop(name)
    text = json.dumps(header, separators=(",", ":")).encode()
    weights.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])
