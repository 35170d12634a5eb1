"""The bad inputs and faults of `benchmarks/reliability`: their rules, their tables, and some cells of our own commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.reliability import results, verdicts
from benchmarks.reliability.damages import LAYOUTS
from benchmarks.reliability.faults import FAULTS
from benchmarks.reliability.inputs import INPUTS
from benchmarks.reliability.servers import End
from benchmarks.reliability.tools import TOOLS
from benchmarks.reliability.trials import Bench

CASES = {case.name: case for case in INPUTS}
TRACE = f"{verdicts.TRACE}:\n  File 'x', line 1\n    raise utf_8\n"


def end(
    status: int = 0, out: str = "", err: str = "", memory: int = 0, late: bool = False, executed: bool = False
) -> End:
    return End(status, memory, late, out, err, executed)


def test_counts_and_rows() -> None:
    assert len(CASES) == len(INPUTS) == 40 and len({fault.name for fault in FAULTS}) == len(FAULTS) == 20
    for name, tool in TOOLS.items():
        assert tool.layout in ("", *LAYOUTS)
        for case in INPUTS:  # a cell is tried, or says why it is not
            reason = tool.unread.get(case.name) or tool.unread.get(case.kind)
            assert bool(reason) != (case.kind in tool.reads and case.name not in tool.unread), (name, case.name)
        assert tool.unfaulted or (tool.trains and tool.saves and tool.writes)


def test_rules_of_inputs() -> None:
    broken, lines, harmless = CASES["byte FF"], CASES["NUL in a line"], CASES["CRLF"]
    assert harmless.twin is not None and not harmless.refusable
    for case, found, expected in (
        (broken, end(65, err="input:1: invalid UTF-8"), "right"),
        (broken, end(65, err="wrong"), "unclear"),
        (broken, end(1, err=TRACE + "UnicodeDecodeError: 'utf-8' codec"), "traceback"),
        (broken, end(1, err=TRACE + "ValueError: no"), "unclear"),  # a line of source code names nothing
        (broken, end(1, err=f"{TRACE}utf8.Error: x\n\nDuring handling of it:\n{TRACE}ValueError: no"), "traceback"),
        (broken, end(1, err="utf-8\n" * 11), "unclear"),
        (broken, end(0, '{"digest": "a"}'), "silent"),
        (broken, end(0, err="warning: bad bytes in utf-8"), "warned"),
        (broken, end(-11), "crash"),
        (broken, end(-24, late=True), "hang"),
        (broken, end(0, memory=100 << 20), "memory"),
        (broken, end(1, executed=True), "executed"),
        (lines, end(0, '{"rows": 13}'), "right"),
        (lines, end(0, '{"rows": 12}'), "silent"),
        (harmless, end(0, '{"digest": "same"}'), "right"),
        (harmless, end(0, '{"digest": "other"}'), "silent"),
        (harmless, end(65, err="carriage return"), "refused"),
    ):
        same = {"digest": "same"} if case is harmless else {}
        assert verdicts.of_input(case, found, same, 0, 1 << 10) == expected, (case.name, found)


def test_tables_are_fresh() -> None:
    text = results.PAGE.read_text(encoding="utf-8")
    assert text == results.page(text), "stale: python -m benchmarks.reliability --render"
    found = results.rows()
    assert {row["verdict"] for row in found.values()} <= {"-", *results.GOOD}
    assert all(row["note"] for row in found.values() if row["verdict"] == "-")
    known = {(part, case, tool) for part, cases in results.CASES.items() for case in cases for tool in TOOLS}
    assert {*found} <= known, "a record of a cell that is no more"
    ours = {cell for cell in known if cell[2].startswith(results.OURS)}
    assert ours <= {*found}, "a cell of ours has no record"


def test_cells_of_ours(tmp_path: Path) -> None:
    bench = Bench("nlptools bleu", TOOLS["nlptools bleu"], tmp_path)
    for name in ("CRLF", "byte FF", "file name is not UTF-8"):
        assert bench.input(CASES[name])[0] == "right", name
    assert bench.input(CASES["weights cut"]) == ("-", "reads no model")
    [full] = [fault for fault in FAULTS if fault.name == "stdout is a full disk"]
    assert full.verdict(bench)[0] == "kept"
    bench.server.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in TOOLS if name.startswith(results.OURS)])
def test_all_cells_of_ours(name: str, tmp_path: Path) -> None:
    recorded, bench = results.rows(), Bench(name, TOOLS[name], tmp_path)
    found = {("inputs", case.name): bench.input(case)[0] for case in INPUTS}
    found |= {("faults", fault.name): fault.verdict(bench)[0] for fault in FAULTS}
    bench.server.close()
    good = {**results.GOOD, "-": True}
    worse = {
        cell: verdict
        for cell, verdict in found.items()
        if good[recorded[(*cell, name)]["verdict"]] and not good[verdict]
    }
    assert not worse
