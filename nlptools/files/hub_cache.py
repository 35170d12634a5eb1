"""Models in the local cache of the Hugging Face hub, by name. Nothing is downloaded."""

from __future__ import annotations

import os
import re
from pathlib import Path

_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?")


def locate(name: str | Path) -> Path:
    """The path `name` if it exists, else the cached snapshot of the model `name`, else the path again.

    A name is `ORGANIZATION/MODEL` or `MODEL`; for models of sentence-transformers, the organization can be omitted. If there
    are several snapshots, that of the branch `main` is used. The cache is in the directory of `huggingface_hub`:
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
