"""The pages README.md and scaling.md here, and the table of speeds in the README of the package, from the records in results/."""

from __future__ import annotations

import ast
import functools
import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import scaling_page
from jobs import JOBS, SCRIPTS, Job
from records import FOLDER, NO_RATIOS, machine

PAGE, README = FOLDER / "README.md", FOLDER.parent / "README.md"
START, END = "<!-- speed: written by benchmarks/run -->", "<!-- end of speed -->"
OLD = "\N{DAGGER}"  # after figures of the last record of a job, if what it measures has changed since
PEERS = ", ".join(sorted({peer for script in SCRIPTS.values() for peer in script.peers.split()}))
HEAD = f"""# Speed and quality

*Times as fast* compares the fastest settings of nlptools and of the usual tool in the same run; above 1, nlptools is faster. A
range is over kinds of processors. *Memory* is nlptools' share of the other tool's peak. {OLD}: files that the last run measured
have changed since. A row without figures has not been measured with the present scripts.
"""
DETAILS = f"""All sides of a job run in turns, in separate processes; figures are medians. Details follow, with a column per
processor (AMX, AVX512-bf16 without AMX, or no bf16 instructions) that names the commits that were measured. Rows of nlptools are
bold; *times* tells how much better the best of them is in the same run. Each record in [results](results) names date, versions
and ranges too. The machines are virtual, shared, and have 2 cores; speeds vary by a factor of two within an hour, so compare
ratios. {OLD}: as above.

    benchmarks/run NAME...                 # measure again; writes results/ and this page
    benchmarks/run --all --minutes 120     # everything that fits into the time; call again to go on
    benchmarks/run --gpu                   # what means something on one GPU, within 9 minutes
    benchmarks/run --render                # only write this page, and the table in README.md of the package

`bin/test` installs the other packages, except these: {PEERS}.

What the tools do with bad inputs and faults is on [another page](reliability/README.md).
"""


def write() -> None:
    """Write the pages, and the lines between the markers in the README of the package."""
    PAGE.write_text(render(changed), encoding="utf-8")
    scaling_page.PAGE.write_text(scaling(changed), encoding="utf-8")
    README.write_text(with_speeds(README.read_text(encoding="utf-8"), changed), encoding="utf-8")


def unmarked(text: str) -> str:
    """The text as of a moment at which all records are new: marks depend on later changes of the package."""
    return text.replace(f" {OLD}", "")


# -- records ----------------------------------------------------------------------------------------------------------


def never(script: str, row: dict[str, Any]) -> bool:
    """Marks no record as old."""
    return False


@functools.cache
def _changes(commit: str, paths: tuple[str, ...]) -> str:
    git = ["git", "log", "-1", "--format=%cs"]
    since = subprocess.run([*git, f"{commit}..HEAD", "--", *paths], cwd=FOLDER.parent, capture_output=True, text=True)
    if since.returncode == 0:
        return since.stdout.strip()
    return subprocess.run([*git, "--", *paths], cwd=FOLDER.parent, capture_output=True, text=True).stdout.strip()


def changed(script: str, row: dict[str, Any]) -> bool:
    """Whether the files that a script measures have changed since a record; if its commit is unknown, by the date."""
    paths = tuple(f"nlptools/{folder}" for folder in SCRIPTS[script].measures.split())
    return _changes(row["commit"], paths) >= row["date"]


def is_present(row: dict[str, Any]) -> bool:
    """Whether a record was made on this kind of processor, with the package as it is in the last commit."""
    return column(row) == column(machine()) and not _changes(row["commit"], ("nlptools",))


def records_of(script: str, results: Path = FOLDER / "results") -> list[dict[str, Any]]:
    """The records of a script."""
    return rows_of(results / f"{script}.jsonl")


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The records in a file, if it exists."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line] if path.exists() else []


# -- the first table --------------------------------------------------------------------------------------------------


def figures(job: Job, old: Any) -> tuple[str, ...]:
    """The tool with its version, times as fast, same numbers, and memory, from the last records of each processor."""
    rows = [row for row in records_of(job.script) if least(row, job.sides) is not None]
    latest = {column(row): row for row in rows if row["job"].startswith(job.record)}
    memory = {column(row): row for row in rows if row["job"].startswith(f"memory of {job.record}")}
    if not latest:
        return job.tool, "", job.same, ""
    row = max(latest.values(), key=rows.index)
    times = span([least(row, job.sides) or 0 for row in latest.values()])
    mark = f" {OLD}" if old(job.script, row) else ""
    version = row["versions"].get(job.package, "")
    share = span([least(row, job.sides) or 0 for row in memory.values()])
    return f"{job.tool} {version}".strip(), times + mark, row.get("check") or job.same, f"1/{share}" if share else ""


def span(values: list[float]) -> str:
    """The lowest and the highest value, or the only one."""
    shown = list(dict.fromkeys(f"{value:.2g}" if value < 10 else f"{value:.0f}" for value in sorted(values)))
    return f"{shown[0]} to {shown[-1]}" if len(shown) > 1 else "".join(shown)


def least(row: dict[str, Any], sides: str) -> float | None:
    """The lowest ratio to the rows that begin with `sides`: to the best setting of the other tool."""
    return min((ratio for name, ratio in row["ratios"].items() if name.startswith(sides)), default=None)


def summary(old: Any) -> str:
    """A line per job."""
    out = [
        "| job | usual tool | times as fast here | same numbers | memory | command |",
        "|---|---|---|---|---|---|",
    ]
    for job in JOBS:
        tool, times, same, memory = figures(job, old)
        link = f"[{job.name}](#{anchor(title(job.script))})"
        out.append(f"| {link} | {tool} | {times} | {same} | {memory} | `nlptools {job.command}` |")
    return "\n".join(out) + "\n"


def with_speeds(readme: str, old: Any = never) -> str:
    """The README of the package with fresh lines between its markers."""
    before, rest = readme.split(START)
    out = ["| job | usual tool | times as fast here | same numbers |", "|---|---|---|---|"]
    for job in JOBS:
        if job.readme:
            _, times, _, _ = figures(job, old)
            out.append(f"| {job.name}: `{job.command}` | {job.tool} | {times} | {job.same} |")
    return f"{before}{START}\n" + "\n".join(out) + f"\n{END}{rest.split(END)[1]}"


# -- details ----------------------------------------------------------------------------------------------------------


def render(old: Any = never, results: Path = FOLDER / "results") -> str:
    """The page, in Markdown; `old` tells whether a record of a script is."""
    parts = [HEAD, summary(old), DETAILS]
    for script in sorted(SCRIPTS, key=lambda name: (title(name), name)):
        parts.append(f"## {title(script)}\n\n`benchmarks/run {script}`\n")
        if SCRIPTS[script].page:
            parts.append(f"See [{SCRIPTS[script].page}]({SCRIPTS[script].page}).\n")
            continue
        rows = records_of(script, results)
        for job in dict.fromkeys(row["job"] for row in rows):
            of_job = [row for row in rows if row["job"] == job]
            last = column(of_job[-1])
            of_job = [row | {"old": column(row) == last and old(script, row)} for row in of_job]
            parts.append((table if len({row["unit"] for row in of_job}) == 1 else wide_table)(job, of_job))
    return "\n".join(parts)


def scaling(old: Any = never) -> str:
    """The page scaling.md."""
    rows = records_of("scaling")
    return scaling_page.render(
        [row | {"place": column(row), "mark": f" {OLD}" if old("scaling", row) else ""} for row in rows]
    )


def title(script: str) -> str:
    """The first sentence of the description of a script."""
    text = ast.get_docstring(ast.parse((FOLDER / f"{script}.py").read_bytes())) or script
    return re.split(r"\.(?:\s|$)", " ".join(text.split()))[0]


def anchor(heading: str) -> str:
    """The link to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(job: str, rows: list[dict[str, Any]]) -> str:
    """A table of one job: the last record of each row and kind of processor."""
    columns = sorted({column(row) for row in rows}, key=lambda name: ("Intel" not in name, name))
    names = list(dict.fromkeys(name for row in rows for name in row["sides"]))
    latest = {(name, column(row)): row for row in rows for name in row["sides"]}
    compared = {place for (name, place), row in latest.items() if name in row["ratios"]}
    heads = [
        head
        for place in columns
        for head in (measured(row for (_, at), row in latest.items() if at == place), *["times"] * (place in compared))
    ]
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
    checks = dict.fromkeys(row["check"] for row in rows if "check" in row)
    return "\n".join([*out, *(f"\n{check[0].upper()}{check[1:]}." for check in [*checks][-1:])]) + "\n"


def measured(rows: Iterable[dict[str, Any]]) -> str:
    """The kind of processor of records, and their commits."""
    return ", ".join(dict.fromkeys(name for row in rows for name in (column(row), row["commit"])))


def wide_table(job: str, rows: list[dict[str, Any]]) -> str:
    """A table of a job that is measured in several units, a column each: the last record of each figure, and its machine."""
    units = list(dict.fromkeys(row["unit"] for row in rows))
    latest = {(name, column(row), row["unit"]): row for row in rows for name in row["sides"]}
    out = [f"### {job}\n", f"| | {' | '.join(units)} | processor |", "|---|" + "---|" * (len(units) + 1)]
    for name, place in sorted({(name, place): None for name, place, _ in latest}, key=lambda key: key[1]):
        figures = [latest.get((name, place, unit)) for unit in units]
        cells = ["" if row is None else cell(name, row) for row in figures]
        present = [row for row in figures if row is not None]
        out.append(f"| **{name}** | {' | '.join(cells)} | {measured(present)}; cores: {present[0]['cores']} |")
    return "\n".join(out) + "\n"


def column(row: dict[str, Any]) -> str:
    """The kind of processor: its maker and its bf16 instructions, or the name of the GPU."""
    maker = next((maker for maker in ("Intel", "AMD") if maker in row["processor"]), row["processor"])
    return row.get("gpu") or f"{maker}, {row['units']}"


def cell(name: str, row: dict[str, Any]) -> str:
    """A figure, and its range over several seeds."""
    value = row["sides"][name]
    shown = f"{value:,}" if isinstance(value, int) or value < 1000 else f"{value:,.0f}"
    lowest, highest = row.get("ranges", {}).get(name, (value, value))
    shown += f" ({lowest:,} to {highest:,})" if row["unit"] in NO_RATIOS and lowest < highest else ""
    return f"{shown} {OLD}" if row.get("old") else shown
