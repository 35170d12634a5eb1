"""The page README.md here, and the table of speeds in the README of the package, from the records in results/."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from pathlib import Path
from typing import Any

from jobs import JOBS, Job
from records import FOLDER, NO_RATIOS

PAGE, README = FOLDER / "README.md", FOLDER.parent / "README.md"
START, END = "<!-- speed: written by benchmarks/run -->", "<!-- end of speed -->"
HEAD = """# Speed and quality

`benchmarks/run NAME...` runs scripts of this folder, appends their measurements to [results](results) and writes this page;
`benchmarks/run --render` only writes the page.

All sides of a job run in turns, in separate processes; figures are medians. *Times as fast* compares the fastest settings of
nlptools and of the other tool in the same run: above 1, nlptools is faster. *Memory* is nlptools' share of the other tool's peak.
The machines are virtual, shared, and have 2 cores; speeds vary by a factor of two within an hour, so compare ratios. The scripts
also run on a GPU. `bin/test` installs the other packages, except sentence-transformers, ctranslate2 and word2vec.c
(`benchmarks/run word_vectors_speed -- --word2vec PATH`).
"""
DETAILS = """Details follow, with a column per processor: AMX, AVX512-bf16 without AMX, or no bf16 instructions. Rows of nlptools
are bold. *times* tells how much better the best row of nlptools is in the same run. Each record names date, commit and versions.
A star marks figures recorded by hand from earlier runs.
"""


def write() -> None:
    """Write the page, and the lines between the markers in the README of the package."""
    PAGE.write_text(render(), encoding="utf-8")
    README.write_text(with_speeds(README.read_text(encoding="utf-8")), encoding="utf-8")


def with_speeds(readme: str) -> str:
    """The README of the package with fresh lines between its markers."""
    before, rest = readme.split(START)
    after = rest.split(END)[1]
    return f"{before}{START}\n{short_summary()}{END}{after}"


def short_summary() -> str:
    """The table in the README of the package."""
    out = ["| job | usual tool | times as fast here | same numbers |", "|---|---|---|---|"]
    for job in JOBS:
        if job.readme:
            times, _, _ = figures(job)
            out.append(f"| {job.name}: `{job.command}` | {job.tool} | {times} | {job.same} |")
    return "\n".join(out) + "\n"


def summary() -> str:
    """A line per job."""
    out = [
        "| job | usual tool | times as fast | same numbers | memory | processor | command |",
        "|---|---|---|---|---|---|---|",
    ]
    for job in JOBS:
        times, memory, processor = figures(job)
        link = f"[{job.name}](#{anchor(title(job.script))})"
        out.append(f"| {link} | {job.tool} | {times} | {job.same} | {memory} | {processor} | `{job.command}` |")
    return "\n".join(out) + "\n"


def figures(job: Job) -> tuple[str, str, str]:
    """Times as fast, memory and processor, from the last records of a job."""
    rows = records_of(job.script)

    def last(heading: str) -> tuple[float, dict[str, Any]]:
        found = [
            (ratio, row) for row in rows if row.get("job") == heading if (ratio := least(row, job.sides)) is not None
        ]
        return found[-1]

    times, row = last(job.record)
    memory = f"1/{last(job.memory)[0]:.2g}" if job.memory else ""
    return f"{times:.2g}" if times < 10 else f"{times:.0f}", memory, column(row)


def least(row: dict[str, Any], sides: str) -> float | None:
    """The lowest ratio to the rows that begin with `sides`: to the best setting of the other tool."""
    return min((ratio for name, ratio in row["ratios"].items() if name.startswith(sides)), default=None)


def anchor(heading: str) -> str:
    """The link to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def records_of(script: str, results: Path = FOLDER / "results") -> list[dict[str, Any]]:
    """The records of a script."""
    return [json.loads(line) for line in (results / f"{script}.jsonl").read_text(encoding="utf-8").split("\n") if line]


def render(results: Path = FOLDER / "results") -> str:
    """The page, in Markdown."""
    parts = [HEAD, summary(), DETAILS]
    for file in sorted(results.glob("*.jsonl")):
        rows = records_of(file.stem, results)
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
    return re.split(r"\.(?:\s|$)", " ".join(text.split()))[0]


def table(job: str, rows: list[dict[str, Any]]) -> str:
    """A table of one job: the last record of each row and kind of processor."""
    columns = sorted({column(row) for row in rows}, key=lambda name: ("Intel" not in name, name))
    names = list(dict.fromkeys(name for row in rows for name in row["sides"]))
    latest = {(name, column(row)): row for row in rows for name in row["sides"]}
    compared = {place for (name, place), row in latest.items() if name in row["ratios"]}
    heads = [head for place in columns for head in ((place, "times") if place in compared else (place,))]
    out = [f"### {job}\n", f"| {rows[-1]['unit']} | {' | '.join(heads)} |", "|---|" + "---|" * len(heads)]
    for name in sorted(names, key=lambda name: name.startswith("nlptools")):
        cells = []
        for place in columns:
            row = latest.get((name, place))
            cells.append("" if row is None else cell(name, row))
            if place in compared:
                ratio = None if row is None else row["ratios"].get(name)
                cells.append("" if ratio is None else f"{ratio:.3g}")
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
    """A figure, and its range over several seeds."""
    value = row["sides"][name]
    shown = f"{value:,}" if isinstance(value, int) or value < 1000 else f"{value:,.0f}"
    if "source" in row:
        shown += "*"
    lowest, highest = row.get("ranges", {}).get(name, (value, value))
    return f"{shown} ({lowest:,} to {highest:,})" if row["unit"] in NO_RATIOS and lowest < highest else shown
