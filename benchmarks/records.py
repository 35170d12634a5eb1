"""Measurements as JSON lines, a file per script in results/; `page` shows them."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
OUTPUT = "BENCHMARK_RECORDS"  # environment variable: the file that measurements are appended to
OPTIONS = "BENCHMARK_OPTIONS"  # the options of the script, when `run` started it
PACKAGES = (
    *("torch", "transformers", "sentence-transformers", "ctranslate2", "onnxruntime", "openvino", "nncf"),
    *("sentencepiece", "tokenizers", "sacrebleu", "seqeval", "rouge-score", "gensim", "fasttext-wheel", "kenlm", "trl"),
    *("numpy", "click", "xllamacpp", "model2vec"),
)
# what distinguishes processors here: products of bf16 matrices
UNITS = {"AMX": "amx_bf16", "AVX512-bf16 without AMX": "avx512_bf16"}
NEITHER = "no bf16 instructions"
NO_RATIOS = ("percent", "F1", "BLEU", "score", "ms")  # units of quality; of start-up, whose rows are no pairs


def record(
    job: str,
    unit: str,
    sides: Mapping[str, float],
    *,
    less: bool = False,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    rounds: int = 1,
    check: str = "",
    more: Mapping[str, float] | None = None,
) -> None:
    """Append a measurement to the file that BENCHMARK_RECORDS names; without it, do nothing.

    Args:
        job: what was done, on which data: the heading of a table.
        unit: of the figures.
        sides: the figure of each row; names that begin with `nlptools` are ours.
        less: lower is better.
        ranges: lowest and highest figure of each row.
        rounds: how many measurements the figures are medians (or means) of.
        check: how much the results of the sides differ.
        more: other figures of the record.
    """
    path = os.environ.get(OUTPUT)
    if path is None:
        return
    sides = {name: rounded(value) for name, value in sides.items()}
    row: dict[str, Any] = {"job": job, "unit": unit, "sides": sides}
    row |= {"less": True} if less else {}
    row |= {"check": check} if check else {}
    row |= {name: rounded(value) for name, value in (more or {}).items()}
    row |= {"ranges": {name: [*map(rounded, pair)] for name, pair in ranges.items()}} if ranges else {}
    row |= {"ratios": {} if unit in NO_RATIOS else ratios(sides, less), "rounds": rounds} | machine()
    row |= {"options": os.environ[OPTIONS]} if OPTIONS in os.environ else {}
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(row, ensure_ascii=False) + "\n")


def rounded(value: float) -> float:
    """Four significant digits; all digits before the point."""
    return round(value) if abs(value) >= 1000 else float(f"{value:.4g}")


def ratios(sides: Mapping[str, float], less: bool) -> dict[str, float]:
    """For each row that is not ours: how many times as good the best of ours is; empty if one of both is missing."""
    ours = [value for name, value in sides.items() if name.startswith("nlptools")]
    theirs = {name: value for name, value in sides.items() if not name.startswith("nlptools")}
    if not ours or not all(sides.values()):
        return {}
    best = min(ours) if less else max(ours)
    return {name: rounded(value / best if less else best / value) for name, value in theirs.items()}


def machine() -> dict[str, Any]:
    """Where and with what a measurement is made."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    name = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    units = next((unit for unit, flag in UNITS.items() if re.search(rf"\b{flag}\b", text)), NEITHER)
    gpu = None
    if Path("/dev/nvidia0").exists():
        import torch

        gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=FOLDER, capture_output=True, text=True)
    return {
        "processor": name[1] if name else platform.processor() or platform.machine(),
        "units": units,
        "cores": len(os.sched_getaffinity(0)),
        "threads": int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))),
        **({"gpu": gpu} if gpu else {}),
        "versions": {"python": platform.python_version()} | dict(versions()),
        "commit": git.stdout.strip() or "?",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
    }


def versions() -> Iterable[tuple[str, str]]:
    """The installed ones of PACKAGES."""
    for package in PACKAGES:
        try:
            yield package, metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
