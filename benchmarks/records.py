"""Measurements as JSON lines, a file per script in results/, and the page README.md that shows them."""

from __future__ import annotations

import ast
import json
import os
import platform
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
OUTPUT = "NLPTOOLS_BENCHMARK_RECORDS"  # environment variable: the file that measurements are appended to
PACKAGES = (
    *("torch", "transformers", "sentence-transformers", "ctranslate2", "onnxruntime", "sentencepiece", "tokenizers"),
    *("sacrebleu", "seqeval", "rouge-score", "gensim", "fasttext-wheel", "kenlm", "trl", "numpy", "click"),
)
# what distinguishes processors here: products of bf16 matrices
UNITS = {"AMX": "amx_bf16", "AVX512-bf16 without AMX": "avx512_bf16"}
NEITHER = "no bf16 instructions"
NO_RATIOS = ("percent", "F1", "BLEU", "score", "ms")  # units of quality; of start-up, whose rows are no pairs
HEAD = """# Speed and quality

This page is written by `benchmarks/run`, which runs the scripts of this folder and appends each measurement to a file in
[results](results); `benchmarks/run --render` writes the page alone. A table per job; a column per kind of processor, whose
products of bf16 matrices differ: AMX, AVX512-bf16 without AMX, or neither. Rows in bold are nlptools. The number in parentheses
says how many times as fast the fastest row of nlptools is in the same run (or how many times as small its figure, where less is
better): above 1, nlptools is ahead.

The scripts run all sides in turns, in separate processes, and take medians. The machines are virtual, with 2 cores (tables of
quality: one), and shared: the speed of one side changes by a factor of two within an hour, so compare ratios. The scripts also
run on a GPU. `bin/test` installs the packages beside which they measure, except sentence-transformers and ctranslate2;
word2vec.c is a program of its own (`benchmarks/run word_vectors_speed -- --word2vec PATH`).

Each record names date, commit and versions. A star marks figures that were recorded by hand from earlier runs, before
`benchmarks/run`.
"""


def record(
    job: str,
    unit: str,
    sides: Mapping[str, float],
    *,
    less: bool = False,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    rounds: int = 1,
) -> None:
    """Append a measurement to the file that NLPTOOLS_BENCHMARK_RECORDS names; without it, do nothing.

    Args:
        job: what was done, on which data: the heading of a table.
        unit: of the figures.
        sides: the figure of each row; names that begin with `nlptools` are ours.
        less: lower is better.
        ranges: lowest and highest figure of each row.
        rounds: how many measurements the figures are medians (or means) of.
    """
    path = os.environ.get(OUTPUT)
    if path is None:
        return
    sides = {name: rounded(value) for name, value in sides.items()}
    row: dict[str, Any] = {"job": job, "unit": unit, "sides": sides}
    row |= {"less": True} if less else {}
    row |= {"ranges": {name: [*map(rounded, pair)] for name, pair in ranges.items()}} if ranges else {}
    row |= {"ratios": {} if unit in NO_RATIOS else ratios(sides, less), "rounds": rounds} | machine()
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
    torch = sys.modules.get("torch")
    gpu = torch.cuda.get_device_name() if torch is not None and torch.cuda.is_available() else None
    git = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=FOLDER, capture_output=True, text=True)
    return {
        "processor": name[1] if name else platform.processor() or platform.machine(),
        "units": units,
        "cores": len(os.sched_getaffinity(0)),
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


# -- the page ---------------------------------------------------------------------------------------------------------


def render(results: Path = FOLDER / "results") -> str:
    """The page, in Markdown."""
    parts = [HEAD]
    for file in sorted(results.glob("*.jsonl")):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
        parts.append(f"## {title(file.stem)}\n\n`benchmarks/run {file.stem}`\n")
        parts += [textwrap.fill(row["note"], 130, break_on_hyphens=False) + "\n" for row in rows if "note" in row]
        jobs = dict.fromkeys(row["job"] for row in rows if "job" in row)
        for job in jobs:
            of_job = [row for row in rows if row.get("job") == job]
            units = {row["unit"] for row in of_job}
            parts.append(table(job, of_job) if len(units) == 1 else wide_table(job, of_job))
    return "\n".join(parts)


def title(script: str) -> str:
    """The first sentence of the description of a script."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{script}.py").read_bytes())) or script
    return re.split(r"[.:](?:\s|$)", " ".join(text.split()))[0]


def table(job: str, rows: list[dict[str, Any]]) -> str:
    """A table of one job: the last record of each row and kind of processor."""
    columns = sorted({column(row) for row in rows}, key=lambda name: ("Intel" not in name, name))
    names = list(dict.fromkeys(name for row in rows for name in row["sides"]))
    latest = {(name, column(row)): row for row in rows for name in row["sides"]}
    out = [f"### {job}\n", f"| {rows[-1]['unit']} | {' | '.join(columns)} |", "|---|" + "---|" * len(columns)]
    for name in sorted(names, key=lambda name: name.startswith("nlptools")):
        cells = [cell(name, latest[name, place]) if (name, place) in latest else "" for place in columns]
        shown = f"**{name}**" if name.startswith("nlptools") else name
        out.append(f"| {shown} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def wide_table(job: str, rows: list[dict[str, Any]]) -> str:
    """A table of a job that is measured in several units, a column each: the last record of each figure, and its machine."""
    units = list(dict.fromkeys(row["unit"] for row in rows))
    latest = {(name, column(row), row["unit"]): row for row in rows for name in row["sides"]}
    out = [f"### {job}\n", f"| | {' | '.join(units)} | processor |", "|---|" + "---|" * (len(units) + 1)]
    for name, place in sorted({(name, place): None for name, place, _ in latest}, key=lambda key: key[1]):
        figures = [latest.get((name, place, unit)) for unit in units]
        cells = ["" if row is None else cell(name, row) for row in figures]
        cores = next(row["cores"] for row in figures if row is not None)
        out.append(f"| **{name}** | {' | '.join(cells)} | {place}; cores: {cores} |")
    return "\n".join(out) + "\n"


def column(row: dict[str, Any]) -> str:
    """The kind of processor: its maker and its bf16 instructions, or the name of the GPU."""
    maker = next((maker for maker in ("Intel", "AMD") if maker in row["processor"]), row["processor"])
    return row.get("gpu") or f"{maker}, {row['units']}"


def cell(name: str, row: dict[str, Any]) -> str:
    """A figure, and its ratio, or its range over several seeds."""
    value = row["sides"][name]
    shown = f"{value:,}" if isinstance(value, int) or value < 1000 else f"{value:,.0f}"
    if "source" in row:
        shown += "*"
    ratio = row["ratios"].get(name)
    if ratio is not None:
        return f"{shown} ({ratio:.3g}x)"
    lowest, highest = row.get("ranges", {}).get(name, (value, value))
    return f"{shown} ({lowest:,} to {highest:,})" if row["unit"] in NO_RATIOS and lowest < highest else shown
