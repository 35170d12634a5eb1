"""Low-rank adapters and their base as one model directory, for `convert`."""

from __future__ import annotations

import json
from pathlib import Path

from nlptools import bundle, messages
from nlptools.configs.layers import MIX_FILES
from nlptools.errors import UsageError, display
from nlptools.files import artifacts, atomic, whole_directory
from nlptools.json_types import JsonObject
from nlptools.models import text_ends
from nlptools.models.huggingface import directories, peft


def convert(source: str, target: str, *, force: bool = False) -> None:
    """Write the model in the directory `source` of adapters as a model directory, which needs no base, in float32.

    Raises:
        InputError, BundleError: see `bundle.load`.
        UsageError: the target is standard output.
        OutputError: the target exists, and is no model directory or not to be replaced.
    """
    if target == "-":
        raise UsageError("a model is written to a directory, not to standard output")
    whole_directory.check_target(target, "a model", lambda path: (path / "config.json").is_file(), force=force)
    loaded = bundle.load(source)
    with whole_directory.replacing(target) as directory:
        save(directory, loaded)
    messages.note(f"{display(target)}: {display(source)} with {display(str(peft.base_of(loaded.path)))}")


def save(directory: Path, loaded: bundle.Bundle) -> None:
    """Write the model directory of a bundle with adapters, which loading has merged; the manifest last."""
    weights = directories.weights_to_hf(loaded.arch, loaded.weights(), loaded.model.config)
    artifacts.save_tensors(directory / "model.safetensors", weights)
    config = peft.read_config(loaded.path)
    changes: JsonObject = {key: "float32" for key in ("torch_dtype", "dtype") if key in config}
    if "output_matrix.weight" in loaded.weights():  # an adapter may change one of two tied matrices
        changes["tie_word_embeddings"] = False
    atomic.write_whole(directory / "config.json", json.dumps({**config, **changes}, indent=2) + "\n")
    around = text_ends.around(loaded.arch, loaded.tokenizer, config) if "nlptools" in config else None
    names = ["config.json", "model.safetensors", *loaded.tokenizer.save(directory, around)]
    own = (loaded.path / name for name in ("training.json", *MIX_FILES.values()))
    for path in (peft.home(loaded.path, ["config.json"]) / "generation_config.json", *own):
        if path.is_file():
            atomic.copy_whole(path, directory / path.name)
            names.append(path.name)
    artifacts.write_manifest(directory, names)
