"""A tiny language model of words, and tasks of alignment that it learns in a second."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nlptools.configs.finetuning import Finetune, FinetuneTraining
from nlptools.training.engine.job import Trained
from nlptools.training.finetuning.finetune import finetune
from tests.tasks.tiny_tasks import FP32, gpt


def lines(path: Path, values: Sequence[Any]) -> Path:
    """A file of these objects."""
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def demonstrations(count: int) -> list[dict[str, str]]:
    """After `good` a word is said twice, after `bad` once."""
    words = [f"w{i % 20}" for i in range(count)]
    return [
        {"prompt": f"{'good' if i % 3 else 'bad'} {word}", "completion": f"{word} {word}" if i % 3 else word}
        for i, word in enumerate(words)
    ]


def align(tmp_path: Path, task: str, train: Path, valid: Path | None = None, **changes: Any) -> Trained:
    """`finetune --task` with the tiny model in `tmp_path`/base, made if need be, into `tmp_path`/out."""
    if not (tmp_path / "base").is_dir():
        gpt(tmp_path / "base")
    names = {name for name in changes if name in FinetuneTraining.__dataclass_fields__}
    how: dict[str, Any] = {"lr": 5e-3, "epochs": 10.0, "output": str(tmp_path / "out"), "save_every": "never"}
    how |= {"batch_size": 16, "valid": valid and str(valid), **{name: changes.pop(name) for name in names}}
    settings = Finetune(**{"task": task, "model": str(tmp_path / "base"), **changes})
    return finetune([str(train)], settings, FinetuneTraining(**how), FP32)
