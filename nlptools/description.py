"""What a model directory holds, without loading the model."""

from __future__ import annotations

import json
import struct
from math import prod
from pathlib import Path
from typing import Any

from nlptools import bundle
from nlptools.errors import BundleError, display


def describe(directory: str | Path) -> dict[str, dict[str, Any]]:
    """Facts in sections: model, tokenizer, training, files.

    Raises:
        InputError, BundleError: no such directory, not a model, or a damaged file.
    """
    path = Path(directory)
    bundle.check_directory(path)
    verified = bundle.verify(path)
    config = bundle.read_json(path / "config.json")
    training = bundle.read_json(path / "training.json") if (path / "training.json").is_file() else {}
    files = {
        p.name: f"{p.stat().st_size:,} bytes"
        + (f", {verified[p.name]}" if p.name in verified else ", not in the manifest")
        for p in sorted(path.iterdir())
        if p.is_file() and not p.name.startswith(".")
    }
    return {
        "model": _model(path, config),
        "tokenizer": _tokenizer(path),
        "training": _training(training),
        "files": files,
    }


def _model(path: Path, config: dict[str, Any]) -> dict[str, Any]:
    header = _header(path / "model.safetensors")
    weights = {name: entry for name, entry in header.items() if name != "__metadata__"}
    sizes = {k: v for k, v in config.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    return {
        "family": config.get("model_type"),
        "weights": sum(prod(entry["shape"]) for entry in weights.values()),
        "types": sorted({entry["dtype"] for entry in weights.values()}),
        **sizes,
    }


def _header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file: names, types and shapes."""
    try:
        with open(path, "rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > path.stat().st_size:
                raise ValueError("header longer than the file")
            header: dict[str, Any] = json.loads(stream.read(length))
            return header
    except (OSError, ValueError, struct.error) as error:
        raise BundleError(f"{display(str(path))}: damaged or missing: {error}") from None


def _tokenizer(path: Path) -> dict[str, Any]:
    from nlptools.text import tokenizer as tokenizers

    loaded = tokenizers.load(str(path))
    if loaded.vocab is None:
        return {"kind": loaded.kind}
    names = ("pad", "unk", "bos", "eos", "cls", "sep", "mask")
    special = {n: loaded.vocab.token(i) for n in names if (i := getattr(loaded.vocab, n)) is not None}
    return {"kind": loaded.kind, "tokens": len(loaded.vocab), "special": special}


def _training(record: dict[str, Any]) -> dict[str, Any]:
    if not record:
        return {"record": "none"}
    data = record.get("data", {}).get("train") or {}
    return {
        "status": record.get("status"),
        "command": " ".join(record.get("invocation", {}).get("argv", [])),
        "text": f"{data.get('tokens', 0):,} tokens, {data.get('words', 0):,} words of {', '.join(data.get('inputs', []))}",
        "metrics": record.get("metrics"),
        "began": (record.get("parts") or [None])[0],
        "by": f"nlptools {record.get('nlptools')}, torch {record.get('versions', {}).get('torch')}",
        "on": record.get("backend"),
    }
