"""Directories of mixtures: config.json, with the weights, and a folder for each model.

So a mixture can be moved, and the models it was made of may change or go.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nlptools import bundle
from nlptools.configs.scoring import mixture_weights
from nlptools.errors import BundleError, UsageError, display
from nlptools.files import artifacts, atomic, hub_cache, json_fields, whole_directory
from nlptools.inference import arpa_bundle
from nlptools.models.huggingface import peft

if TYPE_CHECKING:
    from nlptools.models.contract import LanguageModel
    from nlptools.models.language.ngram import NGrams

_TYPE = "nlptools-mixture"  # in config.json
_SUFFIXES = (".json", ".safetensors", ".model", ".txt", ".tsv", ".jinja")  # files of models that have no manifest


def is_saved(path: str | Path) -> bool:
    """Whether `path` is the directory of a mixture."""
    config = Path(path) / "config.json"
    if not config.is_file():
        return False
    with open(config, "rb") as stream:
        return _TYPE.encode() in stream.read(1 << 12)


def read(path: str | Path) -> tuple[list[Path], tuple[float, ...]]:
    """The directories of the models of a saved mixture, and their weights. Raises BundleError."""
    folder = Path(path)
    artifacts.verify(folder)
    where = display(str(folder / "config.json"))
    parts = json_fields.children(artifacts.read_json(folder / "config.json"), "parts", where)
    names = [json_fields.text(each, "path", where) for each in parts]
    numbers = ",".join(repr(float(json_fields.number(each, "weight", where))) for each in parts)
    try:
        weights = mixture_weights(numbers)
    except UsageError:
        weights = ()
    if not weights or not all(map(artifacts.is_inside, names)):
        raise BundleError(f'{where}: expected "parts" with "path" and "weight"')
    return [folder / name for name in names], weights


def check_target(path: str, force: bool) -> None:
    """Raise OutputError if no mixture can be saved at `path`, see `whole_directory.check_target`."""
    whole_directory.check_target(path, "a mixture", is_saved, force=force)


def save(directory: str, models: Sequence[bundle.Bundle[LanguageModel | NGrams]], weights: Sequence[float]) -> None:
    """Write a mixture.

    Files of models are hard links, where the file system permits, else copies. ARPA files and adapters become model directories.

    Raises:
        OutputError: see `whole_directory.replacing`.
        StreamError: disk full or another write error.
    """
    with whole_directory.replacing(directory) as folder:
        entries = []
        for number, (loaded, weight) in enumerate(zip(models, weights, strict=True), 1):
            name = f"model-{number}"
            (folder / name).mkdir()
            if arpa_bundle.is_arpa(loaded.path):
                arpa_bundle.save(folder / name, loaded)
            elif peft.is_adapter(loaded.path):
                from nlptools.inference import merging  # imports PyTorch

                merging.save(folder / name, cast("bundle.Bundle", loaded))
            else:
                _link(hub_cache.locate(loaded.path), folder / name)
            entries.append({"path": name, "weight": float(weight), "name": str(loaded.path)})
        config = {"model_type": _TYPE, "nlptools": {"arch": "mixture"}, "parts": entries}
        atomic.write_whole(folder / "config.json", json.dumps(config, indent=2) + "\n")
        artifacts.write_manifest(folder, ["config.json"])


def _link(source: Path, target: Path) -> None:
    """Link or copy the files of a model."""
    if (source / artifacts.MANIFEST).is_file():
        names = [*artifacts.manifest_files(source), artifacts.MANIFEST]
    else:
        names = [path.name for path in source.iterdir() if path.is_file() and path.suffix in _SUFFIXES]
    for name in names:
        (target / name).parent.mkdir(exist_ok=True)
        with contextlib.suppress(OSError):
            os.link((source / name).resolve(), target / name)
            continue
        atomic.copy_whole(source / name, target / name)
