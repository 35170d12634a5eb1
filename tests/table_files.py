"""Small tables for tests of commands, and a classifier that learns them."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

GOOD, BAD = "sunny warm garden", "muddy cold cellar"
BAG = (
    "finetune",
    "--task",
    "classify",
    "--scratch",
    "bag",
    "--lr",
    "0.3",
    "--epochs",
    "30",
    "--batch-size",
    "8",
    "-o",
    "m",
)


def write_csv(path: Path, rows: Sequence[Sequence[str]], **dialect: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, **dialect).writerows(rows)


def write_objects(path: Path, texts: Sequence[str], labels: Sequence[Any], key: str = "label") -> None:
    path.write_text("".join(json.dumps({"text": t, key: label}) + "\n" for t, label in zip(texts, labels, strict=True)))


def write_parquet(path: Path, **columns: Any) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), path)
