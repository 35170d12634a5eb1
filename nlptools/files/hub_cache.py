"""Models in the local cache of the Hugging Face hub, by name. Nothing is downloaded."""

from __future__ import annotations

import os
import re
from pathlib import Path

from nlptools.errors import InputError, display

# for help texts and manual pages
DOWNLOAD = "hf download NAME --local-dir DIR"
PUBLISHED = f"""{DOWNLOAD} (pip install huggingface_hub) fetches a published model from the Hugging Face hub into the directory
DIR. After hf download NAME, the name alone is enough: commands look into the local cache, and never use the network."""

_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?")


def locate(name: str | Path) -> Path:
    """The path `name` if it exists, else the cached snapshot of the model `name`, else the path again.

    A name is `ORGANIZATION/MODEL` or `MODEL`; for models of sentence-transformers, the organization can be omitted. If there
    are several snapshots, the one of the branch `main` is used. The cache is in the directory of `huggingface_hub`:
    $HF_HUB_CACHE, $HF_HOME/hub or ~/.cache/huggingface/hub.
    """
    path = Path(name)
    if path.exists() or not _NAME.fullmatch(str(name)) or {".", ".."} & set(path.parts):
        return path
    hub = _hub()
    for full in (str(name), f"sentence-transformers/{name}"):
        snapshots = hub / f"models--{full.replace('/', '--')}" / "snapshots"
        if (snapshot := _main(snapshots)) is not None:
            return snapshot
    return path


def no_model(name: str | Path) -> InputError:
    """The error for a model that is neither a path nor in the cache, with the command that fetches a published one."""
    published = _NAME.fullmatch(str(name)) and str(name).count("/") == 1
    command = f"hf download {name}" if published else DOWNLOAD
    return InputError(
        f"{display(str(name))}: no such model directory{', and no such model in the local cache' if published else ''}",
        hint=f"{command} fetches {'it' if published else 'a published model'} (pip install huggingface_hub)",
    )


def _hub() -> Path:
    if cache := os.environ.get("HF_HUB_CACHE"):
        return Path(cache)
    home = os.environ.get("HF_HOME")
    return (Path(home) if home else Path("~/.cache/huggingface").expanduser()) / "hub"


def _main(snapshots: Path) -> Path | None:
    try:
        revision = (snapshots.parent / "refs" / "main").read_text(encoding="utf-8").strip()
        candidates = [snapshots / revision] if re.fullmatch(r"\w+", revision) else []
    except (OSError, ValueError):
        candidates = sorted(snapshots.iterdir()) if snapshots.is_dir() else []
    return next((path for path in candidates if path.is_dir()), None) if len(candidates) == 1 else None
