"""Sentences whose tags a tiny model learns in seconds, as files, and what `predict` writes for them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from nlptools import bundle
from nlptools.compute.backend import Backend
from nlptools.configs.finetuning import Predict
from nlptools.configs.tasks.files import Files
from nlptools.inference.prediction import Predictor
from tests.tasks.tiny_tasks import FP32


def sentences(count: int, seed: int = 0, longest: int = 8) -> list[list[tuple[str, str]]]:
    """(word, tag): `good` begins an entity, and the word after it belongs to it; `bad` is one by itself."""
    rng, made = random.Random(seed), []
    for _ in range(count):
        rows: list[tuple[str, str]] = []
        for _ in range(rng.randrange(1, longest)):
            kind, word = rng.random(), f"w{rng.randrange(20)}"
            if kind < 0.2:
                rows += [("good", "B-A"), (word, "I-A")]
            else:
                rows.append(("bad", "B-B") if kind < 0.4 else (word, "O"))
        made.append(rows)
    return made


def columns(path: Path, made: list[list[tuple[str, str]]]) -> Path:
    path.write_text("".join("".join(f"{word} x {tag}\n" for word, tag in rows) + "\n" for rows in made))
    return path


def predicted(directory: Path, path: Path, window: int = 8192, **changes: Any) -> list[str]:
    files = {name: changes.pop(name) for name in list(changes) if name in Files.__dataclass_fields__}
    made = Predictor(bundle.load(directory), Backend.detect(FP32), Predict(**changes), Files(**files), window)
    return [line for some in made.lines([str(path)]) for line in some]
