"""The records of verdicts, results.jsonl, and the tables of README.md, which are made of them."""

from __future__ import annotations

import fcntl
import functools
import json
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.reliability.faults import FAULTS
from benchmarks.reliability.inputs import INPUTS
from benchmarks.reliability.servers import whole
from benchmarks.reliability.tools import TOOLS
from benchmarks.reliability.verdicts import FAULT_VERDICTS, INPUT_VERDICTS

FOLDER = Path(__file__).parent
RECORDS, PAGE = FOLDER / "results.jsonl", FOLDER / "README.md"
START, END = "<!-- tables: written by python -m benchmarks.reliability -->", "<!-- end of tables -->"
CASES = {"inputs": tuple(case.name for case in INPUTS), "faults": tuple(fault.name for fault in FAULTS)}
GOOD = INPUT_VERDICTS | FAULT_VERDICTS
OURS = "nlptools"


class Row(NamedTuple):
    """A verdict: on what, on which tool, and what the tool said (or why it was not tried)."""

    part: str
    case: str
    tool: str
    verdict: str
    note: str


def rows(path: Path = RECORDS) -> dict[tuple[str, str, str], dict[str, Any]]:
    """Records by part, case and tool."""
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    found = [json.loads(line) for line in lines if line]
    return {(row["part"], row["case"], row["tool"]): row for row in found}


def record(verdicts: Iterable[Row]) -> None:
    """Put verdicts into the records, in the place of earlier ones."""
    here = origin()
    order = [(part, case, name) for part, cases in CASES.items() for name in TOOLS for case in cases]
    with open(__file__, "rb") as lock:  # several tools may be tried at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = rows()
        for row in verdicts:
            version = {"version": metadata.version(TOOLS[row.tool].package)}
            known[row.part, row.case, row.tool] = row._asdict() | version | here
        whole(RECORDS, "".join(json.dumps(known[key]) + "\n" for key in order if key in known))


@functools.cache
def origin() -> dict[str, str]:
    """Processor, commit and date."""
    sys.path.insert(0, str(FOLDER.parent))
    from records import machine

    return {key: value for key, value in machine().items() if key in ("processor", "commit", "date")}


def tables(path: Path = RECORDS) -> str:
    """Both tables, in Markdown: a column per tool, and one for the worst of the commands of nlptools."""
    known = rows(path)
    return "\n".join(table(part, cases, known) for part, cases in CASES.items())


def table(part: str, cases: tuple[str, ...], known: dict[tuple[str, str, str], dict[str, Any]]) -> str:
    """The table of one part, and below each tool the number of cells in which no harm is done."""
    peers = [tool for tool in TOOLS if not tool.startswith(OURS)]
    ours = [tool for tool in TOOLS if tool.startswith(OURS)]
    out = [f"| {part[:-1]} | {' | '.join(peers)} | {OURS} |", "|---|" + "---|" * (len(peers) + 1)]
    counts = {tool: [0, 0] for tool in (*peers, *ours, OURS)}
    for case in cases:
        of_case = {tool: known.get((part, case, tool), {}).get("verdict", "") for tool in (*peers, *ours)}
        cells = [of_case[tool] for tool in peers]
        met = {tool: of_case[tool] for tool in ours if of_case[tool] not in ("", "-")}
        lowest = worst([*met.values()])
        who = ", ".join(tool.removeprefix(f"{OURS} ") for tool, verdict in met.items() if verdict == lowest)
        good = lowest in ("right", "kept", "-", "")
        for tool, verdict in [*of_case.items(), (OURS, lowest)]:
            counts[tool][0] += GOOD.get(verdict, False)
            counts[tool][1] += verdict in GOOD
        out.append(f"| {case} | {' | '.join(cells)} | {lowest if good else f'{lowest} ({who})'} |")
    totals = [f"{counts[tool][0]} of {counts[tool][1]}" for tool in (*peers, OURS)]
    out.append(f"| **{'noticed, or no harm' if part == 'inputs' else 'nothing lost'}** | {' | '.join(totals)} |")
    each = "; ".join(f"`{tool}` {counts[tool][0]} of {counts[tool][1]}" for tool in ours)
    return "\n".join(out) + f"\n\nOf the commands of nlptools: {each}.\n"


def worst(verdicts: list[str]) -> str:
    """The last of some verdicts in the order of the tables of verdicts; "-": there is none."""
    order = [*GOOD]
    return max(verdicts, key=order.index, default="-")


def page(text: str, path: Path = RECORDS) -> str:
    """The page with fresh tables between its markers."""
    before, rest = text.split(START)
    return f"{before}{START}\n{tables(path)}{END}{rest.split(END)[1]}"


def write() -> None:
    """Write the tables of README.md."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
